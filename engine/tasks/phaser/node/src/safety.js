'use strict';
// Code that a game has no use for. This is a signal, not the boundary: the sandbox and the realm are.
const walk = require('acorn-walk');
const { isPhaser } = require('./parse.js');

const MODULES = new Set(
  ('assert async_hooks buffer child_process cluster console crypto dgram diagnostics_channel dns fs http http2 https inspector module ' +
    'net os path perf_hooks process punycode querystring readline repl stream string_decoder sys test timers tls tty url util v8 ' +
    'vm wasi worker_threads zlib').split(' '),
);
const BUILTINS = new Set('Object Array Function Promise JSON Reflect String Number Error RegExp Map Set Symbol Proxy Math Date'.split(' '));
const CODE_TIMERS = new Set(['setTimeout', 'setInterval']);

const isNodeModule = (name) => typeof name === 'string' && MODULES.has(name.replace(/^node:/, '').split('/')[0]);
const literal = (node) => (node && node.type === 'Literal' ? node.value : node && node.type === 'TemplateLiteral' && !node.expressions.length ? node.quasis[0].value.cooked : null);

function propertyName(node) {
  if (!node || node.type !== 'MemberExpression') return null;
  return node.computed ? literal(node.property) : node.property.name;
}

function isString(node) {
  return node && (typeof literal(node) === 'string' || node.type === 'TemplateLiteral' || (node.type === 'BinaryExpression' && node.operator === '+' && (isString(node.left) || isString(node.right))));
}

const globalObject = (node) => node.type === 'ThisExpression' || (node.type === 'Identifier' && /^(?:globalThis|window|self|top|global)$/.test(node.name));

// The name that an expression has as a global: eval, window.eval, globalThis['eval'].
function globalName(node) {
  if (!node) return null;
  if (node.type === 'Identifier') return node.name;
  if (node.type === 'SequenceExpression') return globalName(node.expressions[node.expressions.length - 1]);
  return node.type === 'MemberExpression' && globalObject(node.object) ? propertyName(node) : null;
}

const isPrototype = (node) =>
  (propertyName(node) === 'prototype' && BUILTINS.has(globalName(node.object))) || propertyName(node) === '__proto__';

// declared: names that the program declares itself, anywhere.
function checkSafety(ast, declared) {
  const findings = [];
  const add = (code, message, node) => findings.push({ code, message, line: node.loc.start.line, column: node.loc.start.column });
  const isGlobal = (name) => name !== null && !declared.has(name);
  const checkCall = (node) => {
    const name = globalName(node.callee);
    if (!isGlobal(name)) return;
    const [first] = node.arguments;
    if (name === 'eval') add('eval', 'eval runs code in a string', node);
    else if (name === 'Function') add('new_function', 'Function makes code from a string', node);
    else if (CODE_TIMERS.has(name) && isString(first)) add('implied_eval', `${name} with a string runs code in it`, node);
    else if (name === 'require' && isNodeModule(literal(first))) add('banned_require', `a game cannot use the module ${literal(first)}`, node);
    else if (name === 'importScripts') add('banned_import', 'a game cannot load other scripts', node);
  };
  walk.full(ast, (node) => {
    if (node.type === 'CallExpression' || node.type === 'NewExpression') {
      checkCall(node);
      const last = propertyName(node.callee);
      if (last === 'constructor' && (isString(node.arguments[0]) || propertyName(node.callee.object) === 'constructor')) {
        add('constructor_escape', 'code is made from a string by a constructor', node);
      }
      const owner = node.callee.type === 'MemberExpression' ? globalName(node.callee.object) : null;
      const [target] = node.arguments;
      if ((owner === 'Object' || owner === 'Reflect') && /^(?:assign|defineProperty|defineProperties|setPrototypeOf|set)$/.test(last || '') && target && (isPrototype(target) || (BUILTINS.has(globalName(target)) && isGlobal(globalName(target))))) {
        add('builtin_changed', 'a built-in object is changed', node);
      }
      if (/^__define[GS]etter__$/.test(last || '')) add('builtin_changed', 'an accessor is defined by a legacy method', node);
    } else if (node.type === 'ImportExpression') {
      add('banned_import', 'a game cannot load other modules', node);
    } else if (node.type === 'ImportDeclaration' || node.type === 'ExportAllDeclaration') {
      if (isNodeModule(node.source.value) && !isPhaser(node.source.value)) add('banned_import_decl', `a game cannot use the module ${node.source.value}`, node);
    } else if (node.type === 'MemberExpression') {
      const name = propertyName(node);
      if (name === 'constructor' && propertyName(node.object) === 'constructor') add('constructor_escape', 'a constructor of a constructor makes code from strings', node);
      const owner = globalName(node.object);
      if (isGlobal(owner) && owner === 'process') add('process', 'a game has no process', node);
      if (isGlobal(owner) && owner === 'Error' && (name === 'prepareStackTrace' || name === 'captureStackTrace')) add('stack_access', 'a game does not examine the stack', node);
    } else if (node.type === 'AssignmentExpression') {
      const { left } = node;
      const builtin = left.type === 'MemberExpression' && isGlobal(globalName(left.object)) && BUILTINS.has(globalName(left.object));
      if (left.type === 'MemberExpression' && (isPrototype(left.object) || isPrototype(left) || builtin)) add('builtin_changed', 'a built-in object is changed', node);
      if (globalName(left) === 'Phaser' || (left.type === 'MemberExpression' && globalName(left.object) === 'Phaser' && isGlobal('Phaser'))) {
        add('phaser_changed', 'Phaser is replaced or changed', node);
      }
    } else if (node.type === 'MetaProperty' && node.meta.name === 'import') {
      add('banned_import', 'import.meta is not available', node);
    }
  });
  const seen = new Set();
  return findings.filter((finding) => {
    const key = `${finding.code}:${finding.line}:${finding.column}`;
    return !seen.has(key) && seen.add(key);
  });
}

module.exports = { checkSafety, globalName, propertyName, literal };
