'use strict';
// Which code can run: functions that nothing mentions, branches of constant conditions and statements after a return
// are dead. An over-approximation: a mention of a name anywhere in live code makes all functions of that name live.
const LIFECYCLE = new Set(['constructor', 'init', 'preload', 'create', 'update', 'preUpdate', 'render']);
const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression']);
const ENDS = new Set(['ReturnStatement', 'ThrowStatement', 'BreakStatement', 'ContinueStatement']);
const SKIPPED_KEYS = new Set(['type', 'start', 'end', 'loc']);

function constant(node) {
  if (node.type === 'Literal') return { value: node.value };
  if (node.type === 'Identifier' && node.name === 'undefined') return { value: undefined };
  if (node.type === 'UnaryExpression' && node.operator === '!') {
    const inner = constant(node.argument);
    return inner && { value: !inner.value };
  }
  return null;
}

const isNamed = (node, parent) => parent && parent.type === 'VariableDeclarator' && parent.init === node && parent.id.type === 'Identifier';

class Liveness {
  constructor(ast) {
    this.names = new Set();
    this.members = new Set();
    this.nodes = new Set();
    this.waiting = new Map();
    this.queue = [];
    this.enter(ast, null);
    while (this.queue.length) this.enterBody(this.queue.pop());
  }

  // Whether a node is in code that can run.
  has(node) {
    return this.nodes.has(node);
  }

  wait(kind, name, node) {
    const known = kind === 'member' ? this.members : this.names;
    if (known.has(name)) {
      this.queue.push(node);
      return;
    }
    const key = `${kind}:${name}`;
    if (!this.waiting.has(key)) this.waiting.set(key, []);
    this.waiting.get(key).push(node);
  }

  mention(kind, name) {
    const known = kind === 'member' ? this.members : this.names;
    if (known.has(name)) return;
    known.add(name);
    const key = `${kind}:${name}`;
    for (const node of this.waiting.get(key) || []) this.queue.push(node);
    this.waiting.delete(key);
  }

  enterBody(node) {
    if (this.nodes.has(node)) return;
    this.nodes.add(node);
    if (node.type === 'ClassDeclaration' || node.type === 'ClassExpression') {
      this.enterClass(node);
      return;
    }
    if (node.type === 'MethodDefinition' || node.type === 'PropertyDefinition') {
      if (node.value) {
        this.nodes.add(node.value);
        this.enterChildren(node.value);
      }
      return;
    }
    this.enterChildren(node);
  }

  enterClass(node) {
    if (node.superClass) this.enter(node.superClass, node);
    for (const member of node.body.body) {
      const name = member.key && !member.computed ? member.key.name || String(member.key.value) : null;
      if (member.type === 'StaticBlock' || name === null || LIFECYCLE.has(name) || member.kind !== 'method') {
        if (member.type === 'MethodDefinition' || member.type === 'PropertyDefinition') {
          if (member.computed) this.enter(member.key, member);
          this.enterBody(member);
        } else this.enter(member, node);
      } else this.wait('member', name, member);
    }
  }

  enterChildren(node) {
    for (const key of Object.keys(node)) {
      if (SKIPPED_KEYS.has(key)) continue;
      const value = node[key];
      if (Array.isArray(value)) this.enterList(value, node);
      else if (value && typeof value.type === 'string') this.enter(value, node);
    }
  }

  // Function declarations are hoisted, so they are entered also after the end of a block.
  enterList(list, parent) {
    let ended = false;
    for (const item of list) {
      if (!item || typeof item.type !== 'string') continue;
      if (ended && item.type !== 'FunctionDeclaration') continue;
      this.enter(item, parent);
      if (ENDS.has(item.type)) ended = true;
    }
  }

  enter(node, parent) {
    if (/^(?:Function|Class)Declaration$/.test(node.type) && node.id) {
      this.wait('name', node.id.name, node);
      return;
    }
    if ((FUNCTIONS.has(node.type) || node.type === 'ClassExpression') && isNamed(node, parent)) {
      this.wait('name', parent.id.name, node);
      return;
    }
    if (node.type === 'ClassExpression') {
      this.enterBody(node);
      return;
    }
    this.nodes.add(node);
    if (node.type === 'Identifier') this.mention('name', node.name);
    if (node.type === 'MemberExpression') {
      const name = node.computed ? (node.property.type === 'Literal' ? String(node.property.value) : null) : node.property.name;
      if (name !== null) this.mention('member', name);
      this.enter(node.object, node);
      if (node.computed) this.enter(node.property, node);
      return;
    }
    if (node.type === 'Literal' && typeof node.value === 'string') this.mention('member', node.value);
    if (node.type === 'Property' && !node.computed) {
      if (node.shorthand && node.value.type === 'Identifier') this.mention('name', node.value.name);
      this.nodes.add(node.key);
      this.enter(node.value, node);
      return;
    }
    if (node.type === 'VariableDeclarator') {
      if (node.id.type === 'Identifier') this.nodes.add(node.id);
      else this.enterPattern(node.id);
      if (node.init) this.enter(node.init, node);
      return;
    }
    const test = /^(?:IfStatement|ConditionalExpression|WhileStatement)$/.test(node.type) ? constant(node.test) : null;
    if (test) {
      const branch = test.value ? node.consequent || node.body : node.alternate;
      this.enter(node.test, node);
      if (branch) this.enter(branch, node);
      return;
    }
    if (node.type === 'LogicalExpression') {
      const left = constant(node.left);
      this.enter(node.left, node);
      if (!left || (node.operator === '&&') === Boolean(left.value) || node.operator === '??') this.enter(node.right, node);
      return;
    }
    this.enterChildren(node);
  }

  enterPattern(pattern) {
    this.nodes.add(pattern);
    for (const property of pattern.properties || []) {
      this.nodes.add(property);
      if (property.key && !property.computed) this.mention('member', property.key.name || String(property.key.value));
      const inner = property.value || property.argument;
      if (inner && inner.type === 'AssignmentPattern') this.enter(inner.right, inner);
      if (inner && /Pattern$/.test(inner.type) && inner.type !== 'AssignmentPattern') this.enterPattern(inner);
    }
  }
}

module.exports = { Liveness };
