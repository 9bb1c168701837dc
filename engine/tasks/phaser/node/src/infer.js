'use strict';
// Which uses of Phaser's API a program has, with the types of its expressions followed through variables, fields,
// destructuring, parameters of its functions and its own classes. A member that the program defines itself anywhere is
// never a miss, and neither is a member of something whose type is not known.
const walk = require('acorn-walk');
const { Declarations, FUNCTION } = require('./declarations.js');
const { literal } = require('./safety.js');

const ALWAYS = new Set(
  ('constructor prototype name length call apply bind toString valueOf hasOwnProperty isPrototypeOf propertyIsEnumerable ' +
    'toLocaleString __proto__').split(' '),
);
const MAX_STEPS = 20000;

class Inference extends Declarations {
  constructor(ast, types) {
    super(ast, types);
    this.busy = new Set();
    this.memo = new Map();
    this.steps = 0;
  }

  sourceType(source) {
    if (!source) return null;
    if ('argument' in source) return this.argumentType(source);
    if (source.source) return this.memberType(this.sourceType(source.source), source.name);
    return this.typeOf(source.node, source.scope);
  }

  // A parameter has the type that all calls agree on.
  argumentType({ argument, node }) {
    const name = node.id ? node.id.name : this.nameOf(node);
    const found = (name && this.functionCalls.get(name)) || [];
    let result = null;
    for (const call of found) {
      const given = call.node.arguments[argument];
      const type = given ? this.typeOf(given, call.scope) : null;
      if (!type || (result && !same(result, type))) return null;
      result = type;
    }
    return result;
  }

  nameOf(node) {
    if (!this.functionNames) {
      this.functionNames = new Map();
      walk.full(this.ast, (each) => {
        if (each.type === 'VariableDeclarator' && each.init && FUNCTION.test(each.init.type) && each.id.type === 'Identifier') this.functionNames.set(each.init, each.id.name);
        if (each.type === 'MethodDefinition' && !each.computed) this.functionNames.set(each.value, `this.${each.key.name}`);
        if (each.type === 'Property' && each.value && FUNCTION.test(each.value.type) && !each.computed) this.functionNames.set(each.value, `this.${each.key.name}`);
      });
    }
    return this.functionNames.get(node) || null;
  }

  variableType(variable) {
    if (variable.fixed !== undefined) return variable.fixed;
    if (this.busy.has(variable)) return null;
    this.busy.add(variable);
    let result = null;
    for (const source of variable.sources) {
      const type = this.isNothing(source) ? undefined : this.sourceType(source);
      if (type === undefined) continue;
      if (!type || (result && !same(result, type))) {
        result = null;
        break;
      }
      result = type;
    }
    this.busy.delete(variable);
    if (this.busy.size === 0) variable.fixed = result;
    return result;
  }

  isNothing(source) {
    const { node } = source;
    return node && !source.source && !('argument' in source) && ((node.type === 'Literal' && node.value === null) || (node.type === 'Identifier' && node.name === 'undefined'));
  }

  baseOf(own) {
    const { superClass } = own.node;
    return superClass ? this.typeOf(superClass, own.scope) : null;
  }

  memberType(type, name) {
    if (!type || !name) return null;
    if (type.own) {
      const field = type.own.fields.get(name);
      if (field) return this.variableType(field);
      const base = this.baseOf(type.own);
      if (base && base.ownSpace) return this.memberType({ own: base.ownSpace }, name);
      return base && base.space ? this.memberType({ of: base.space, self: type }, name) : null;
    }
    if (type.space) {
      const row = this.types.members.get(type.space) && this.types.members.get(type.space).get(name);
      if (!row) return null;
      if (row.kind === 'class' || row.kind === 'namespace') return { space: row.symbol_id };
      if (row.kind === 'function') return { call: row, self: null };
      return row.kind === 'const' ? this.types.parse(row.returns.type, null) : null;
    }
    if (type.of) {
      const field = type.of === 'Phaser.Scene' && this.sceneFields.get(name);
      if (field) return this.variableType(field);
      const row = this.types.member(type.of, name);
      if (!row) return null;
      return row.kind === 'method' ? { call: row, self: type.self || type } : this.types.parse(row.returns.type, type);
    }
    if (type.any) {
      const rows = type.any.map((each) => this.types.member(each, name)).filter(Boolean);
      return rows.length === 1 ? this.memberType({ of: rows[0].owner }, name) : null;
    }
    return null;
  }

  typeOf(node, scope) {
    if (!node || this.steps++ > MAX_STEPS) return null;
    const key = node;
    if (this.memo.has(key)) return this.memo.get(key);
    if (this.busy.has(key)) return null;
    this.busy.add(key);
    const result = this.infer(node, this.scopes.get(node) || scope);
    this.busy.delete(key);
    if (this.busy.size === 0) this.memo.set(key, result);
    return result;
  }

  infer(node, scope) {
    switch (node.type) {
      case 'Identifier': {
        const variable = scope.find(node.name);
        if (variable) return this.variableType(variable);
        return node.name === 'Phaser' ? { space: 'Phaser' } : null;
      }
      case 'ThisExpression':
        return scope.self;
      case 'MemberExpression':
      case 'ChainExpression': {
        if (node.type === 'ChainExpression') return this.typeOf(node.expression, scope);
        const name = node.computed ? literal(node.property) : node.property.name;
        if (name === 'Phaser' && node.object.type === 'Identifier' && /^(?:window|globalThis|self)$/.test(node.object.name)) return { space: 'Phaser' };
        return this.memberType(this.typeOf(node.object, scope), typeof name === 'string' ? name : null);
      }
      case 'CallExpression': {
        const callee = this.typeOf(node.callee, scope);
        if (!callee) return null;
        if (callee.call) return this.types.parse(callee.call.returns.type, callee.self);
        return callee.ownFunction ? this.returnType(callee.ownFunction) : null;
      }
      case 'NewExpression': {
        const callee = this.typeOf(node.callee, scope);
        if (callee && callee.ownSpace) return { own: callee.ownSpace };
        return callee && callee.space && this.types.isClass(callee.space) ? { of: callee.space } : null;
      }
      case 'AssignmentExpression':
        return node.operator === '=' ? this.typeOf(node.right, scope) : null;
      case 'AwaitExpression':
        return this.typeOf(node.argument, scope);
      case 'SequenceExpression':
        return this.typeOf(node.expressions[node.expressions.length - 1], scope);
      case 'ConditionalExpression':
      case 'LogicalExpression': {
        const [left, right] = node.type === 'LogicalExpression' ? [node.left, node.right] : [node.consequent, node.alternate];
        const type = this.typeOf(left, scope);
        const other = this.typeOf(right, scope);
        return same(type, other) ? type : null;
      }
      case 'FunctionExpression':
      case 'ArrowFunctionExpression':
        return { ownFunction: node };
      case 'ClassExpression':
        return this.classes.has(node) ? { ownSpace: this.classes.get(node) } : null;
      default:
        return null;
    }
  }

  returnType(node) {
    if (node.body.type !== 'BlockStatement') return this.typeOf(node.body, this.scopes.get(node.body));
    let result;
    const visit = (each) => {
      if (!each || typeof each.type !== 'string' || FUNCTION.test(each.type)) return;
      if (each.type === 'ReturnStatement') {
        const type = each.argument ? this.typeOf(each.argument, this.scopes.get(each)) : null;
        result = result === undefined || same(result, type) ? type : null;
      }
      for (const key of Object.keys(each)) {
        const value = each[key];
        if (Array.isArray(value)) value.forEach(visit);
        else if (key !== 'loc' && value && typeof value.type === 'string') visit(value);
      }
    };
    visit(node.body);
    return result || null;
  }

  // The row of a member if it exists; false if it does not; null if that cannot be known.
  lookUp(type, name) {
    if (!type || ALWAYS.has(name)) return null;
    if (type.space) {
      const row = this.types.members.get(type.space) && this.types.members.get(type.space).get(name);
      if (row) return row;
      // A namespace without documented members is another library's.
      if (this.defined.has(name) || !this.types.members.has(type.space)) return null;
      if (this.types.isClass(type.space)) return this.types.member(type.space, name) || false;
      return false;
    }
    if (type.own) {
      if (type.own.fields.has(name) || this.defined.has(name)) {
        const base = this.phaserBase(type.own);
        return (base && !type.own.fields.has(name) && this.types.member(base, name)) || null;
      }
      const base = this.phaserBase(type.own);
      return base ? this.types.member(base, name) || false : null;
    }
    if (type.of) return this.types.member(type.of, name) || (this.defined.has(name) ? null : false);
    if (type.any) {
      const rows = type.any.map((each) => this.types.member(each, name)).filter(Boolean);
      return rows[0] || (this.defined.has(name) ? null : false);
    }
    return null;
  }

  phaserBase(own, depth = 0) {
    const base = this.baseOf(own);
    if (!base || depth > 20) return null;
    return base.ownSpace ? this.phaserBase(base.ownSpace, depth + 1) : base.space || null;
  }

  ownerName(type) {
    if (type.own) return this.phaserBase(type.own);
    return type.space || type.of || type.any[0];
  }

  // All uses: {row | null, id, raw, node}.
  uses(code) {
    const found = [];
    const note = (node, type, name) => {
      const row = this.lookUp(type, name);
      if (row === null) return;
      const owner = this.ownerName(type);
      const isCallable = node.called && !type.space;
      found.push({
        row: row || null,
        id: row ? row.symbol_id : `${owner}${isCallable ? '#' : '.'}${name}`,
        raw: code.slice(node.start, node.end).replace(/\s+/g, ' ').slice(0, 120),
        node,
        type,
      });
    };
    walk.ancestor(this.ast, {
      MemberExpression: (node, ancestors) => {
        const name = node.computed ? literal(node.property) : node.property.name;
        if (typeof name !== 'string' || !this.scopes.has(node)) return;
        const parent = ancestors[ancestors.length - 2];
        const called = parent && (parent.type === 'CallExpression' || parent.type === 'NewExpression') && parent.callee === node;
        const written = parent && parent.type === 'AssignmentExpression' && parent.left === node;
        const type = this.typeOf(node.object, this.scopes.get(node));
        if (type && !(written && this.lookUp(type, name) === false)) {
          node.called = called;
          note(node, type, name);
        }
      },
      VariableDeclarator: (node) => {
        if (node.id.type !== 'ObjectPattern' || !node.init || !this.scopes.has(node)) return;
        const type = this.typeOf(node.init, this.scopes.get(node));
        for (const property of node.id.properties) {
          if (!type || property.type !== 'Property' || property.computed) continue;
          note(property, type, property.key.name || String(property.key.value));
        }
      },
    });
    return found;
  }
}

function same(a, b) {
  if (!a || !b) return false;
  return a === b || (a.of && a.of === b.of) || (a.space && a.space === b.space) || (a.own && a.own === b.own) || (a.call && a.call === b.call) || (a.ownSpace && a.ownSpace === b.ownSpace) || false;
}

module.exports = { Inference };
