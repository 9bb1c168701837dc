'use strict';
// Code that a game has no use for. This is a signal, not the boundary: the page and its jail are.
const walk = require('acorn-walk');
const { isPhaser } = require('./parse.js');

const MODULES = new Set(
  ('assert async_hooks buffer child_process cluster console crypto dgram diagnostics_channel dns fs http http2 https inspector module ' +
    'net os path perf_hooks process punycode querystring readline repl stream string_decoder sys test timers tls tty url util v8 ' +
    'vm wasi worker_threads zlib').split(' '),
);
const isNodeModule = (name) => typeof name === 'string' && MODULES.has(name.replace(/^node:/, '').split('/')[0]);
const literal = (node) => (node && node.type === 'Literal' ? node.value : node && node.type === 'TemplateLiteral' && !node.expressions.length ? node.quasis[0].value.cooked : null);

function propertyName(node) {
  if (!node || node.type !== 'MemberExpression') return null;
  return node.computed ? literal(node.property) : node.property.name;
}

const globalObject = (node) => node.type === 'ThisExpression' || (node.type === 'Identifier' && /^(?:globalThis|window|self|top|global)$/.test(node.name));

// The name that an expression has as a global: eval, window.eval, globalThis['eval'].
function globalName(node) {
  if (!node) return null;
  if (node.type === 'Identifier') return node.name;
  if (node.type === 'SequenceExpression') return globalName(node.expressions[node.expressions.length - 1]);
  return node.type === 'MemberExpression' && globalObject(node.object) ? propertyName(node) : null;
}

// declared: names that the program declares itself, anywhere.
function checkSafety(ast, declared) {
  const findings = [];
  const add = (code, message, node) => findings.push({ code, message, line: node.loc.start.line, column: node.loc.start.column });
  walk.full(ast, (node) => {
    if (node.type === 'CallExpression' || node.type === 'NewExpression') {
      const name = globalName(node.callee);
      if (name === null || declared.has(name)) return;
      const module = literal(node.arguments[0]);
      if (name === 'eval') add('eval', 'eval runs code in a string', node);
      else if (name === 'Function') add('new_function', 'Function makes code from a string', node);
      else if (name === 'require' && isNodeModule(module)) add('banned_require', `a game cannot use the module ${module}`, node);
      else if (name === 'importScripts') add('banned_import', 'a game cannot load other scripts', node);
    } else if (node.type === 'ImportExpression') {
      add('banned_import', 'a game cannot load other modules', node);
    } else if (node.type === 'ImportDeclaration' || node.type === 'ExportAllDeclaration') {
      const module = node.source.value;
      if (isNodeModule(module) && !isPhaser(module)) add('banned_import_decl', `a game cannot use the module ${module}`, node);
    }
  });
  return findings;
}

module.exports = { checkSafety, globalName, propertyName, literal };
