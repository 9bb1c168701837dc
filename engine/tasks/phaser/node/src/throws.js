'use strict';
// Methods of a scene that cannot end without an error: every way through them meets a throw. A call of a function of
// the program that always throws is one, too.
const walk = require('acorn-walk');

const METHODS = ['init', 'preload', 'create', 'update'];
const FUNCTION = /^(?:FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/;
const LEAVES = /^(?:Return|Break|Continue)Statement$/;
const WITHOUT_FUNCTIONS = { ...walk.base, Function() {}, Class() {} };

function functionsByName(ast) {
  const named = new Map();
  const add = (key, node) => key && node && FUNCTION.test(node.type) && named.set(key, [...(named.get(key) || []), node]);
  walk.full(ast, (node) => {
    if (node.type === 'FunctionDeclaration') add(node.id && node.id.name, node);
    else if (node.type === 'VariableDeclarator') add(node.id.name, node.init);
    else if (/^(?:MethodDefinition|PropertyDefinition|Property)$/.test(node.type) && !node.computed) add(node.key.name || String(node.key.value), node.value);
  });
  return named;
}

function alwaysThrowing(ast, live) {
  const named = functionsByName(ast);
  const busy = new Set();
  const mayLeave = (node) => {
    let found = false;
    walk.full(node, (each) => { found = found || LEAVES.test(each.type); }, WITHOUT_FUNCTIONS);
    return found;
  };
  const calls = (callee) => {
    const name = callee.type === 'Identifier' ? callee.name : callee.type === 'MemberExpression' && callee.object.type === 'ThisExpression' && callee.property.name;
    const found = named.get(name) || [];
    if (!found.length || busy.has(name)) return false;
    busy.add(name);
    const result = found.every((each) => !each.async && !each.generator && throws(each.body));
    busy.delete(name);
    return result;
  };
  const throws = (node) => {
    switch (node && node.type) {
      case 'ThrowStatement':
        return true;
      case 'Program':
      case 'BlockStatement':
        for (const each of node.body) {
          if (throws(each)) return true;
          if (mayLeave(each)) return false;
        }
        return false;
      case 'IfStatement':
        return throws(node.consequent) && throws(node.alternate);
      case 'TryStatement':
        return throws(node.finalizer) || (throws(node.block) && (!node.handler || throws(node.handler.body)));
      case 'ExpressionStatement':
        return node.expression.type === 'CallExpression' && calls(node.expression.callee);
      default:
        return false;
    }
  };
  const found = METHODS.flatMap((name) => (named.get(name) || []).filter((node) => live.has(node) && throws(node.body)).map((node) => [name, node]));
  if (throws(ast)) found.unshift(['the script', ast]);
  return found.map(([name, node]) => ({ message: `${name} always throws an error`, line: node.loc.start.line, column: node.loc.start.column }));
}

module.exports = { alwaysThrowing };
