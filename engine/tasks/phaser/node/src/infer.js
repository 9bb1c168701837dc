'use strict';
// Which uses of Phaser's API a program has, with the types of its expressions followed through variables, fields,
// destructuring, parameters of its functions and its own classes. A member that the program defines itself anywhere is
// never a miss, and neither is a member of something whose type is not known.
const walk = require('acorn-walk');
const { isPhaser } = require('./parse.js');
const { literal } = require('./safety.js');

const LIFECYCLE = new Set(['init', 'preload', 'create', 'update']);
const ALWAYS = new Set(
  ('constructor prototype name length call apply bind toString valueOf hasOwnProperty isPrototypeOf propertyIsEnumerable ' +
    'toLocaleString __proto__').split(' '),
);
const MAX_STEPS = 20000;
const FUNCTION = /^(?:FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/;

class Scope {
  constructor(parent, self) {
    this.parent = parent;
    this.self = self;
    this.variables = new Map();
  }
  find(name) {
    for (let scope = this; scope; scope = scope.parent) if (scope.variables.has(name)) return scope.variables.get(name);
    return null;
  }
  declare(name) {
    if (!this.variables.has(name)) this.variables.set(name, { sources: [], fixed: undefined });
    return this.variables.get(name);
  }
}

class Inference {
  constructor(ast, types) {
    this.types = types;
    this.ast = ast;
    this.scopes = new Map();
    this.defined = new Set();
    this.classes = new Map();
    this.sceneFields = new Map();
    this.functionCalls = new Map();
    this.busy = new Set();
    this.memo = new Map();
    this.steps = 0;
    this.sceneFunctions = this.findSceneFunctions();
    this.build(ast, new Scope(null, null));
  }

  // Names of functions, and functions, that a scene configuration uses as its methods.
  findSceneFunctions() {
    const found = new Set();
    walk.full(this.ast, (node) => {
      if (node.type !== 'ObjectExpression') return;
      const methods = node.properties.filter((property) => property.type === 'Property' && LIFECYCLE.has(property.key.name) && !property.computed);
      for (const { value } of methods) {
        if (value.type === 'Identifier') found.add(value.name);
        else if (FUNCTION.test(value.type)) for (const property of node.properties) if (property.value && FUNCTION.test(property.value.type)) found.add(property.value);
      }
    });
    return found;
  }

  ownClass(node) {
    const name = node.id ? node.id.name : null;
    const known = { node, name, fields: new Map(), scope: null };
    this.classes.set(node, known);
    return known;
  }

  // One pass that makes the scopes, and keeps what each variable and field is assigned.
  build(node, scope, self) {
    if (!node || typeof node.type !== 'string') return;
    this.scopes.set(node, scope);
    switch (node.type) {
      case 'Program':
      case 'BlockStatement':
      case 'ForStatement':
      case 'ForOfStatement':
      case 'ForInStatement': {
        const inner = node.type === 'Program' ? scope : new Scope(scope, scope.self);
        this.children(node, inner);
        return;
      }
      case 'FunctionDeclaration':
      case 'FunctionExpression':
      case 'ArrowFunctionExpression':
        this.buildFunction(node, scope, self);
        return;
      case 'ClassDeclaration':
      case 'ClassExpression': {
        const own = this.ownClass(node);
        own.scope = scope;
        if (node.id) scope.declare(node.id.name).fixed = { ownSpace: own };
        if (node.superClass) this.build(node.superClass, scope);
        const inner = new Scope(scope, { own });
        for (const member of node.body.body) {
          if (member.key && !member.computed) {
            const name = member.key.name || String(member.key.value);
            this.defined.add(name);
            if (member.type === 'MethodDefinition' && member.kind === 'method') own.fields.set(name, { sources: [], fixed: { ownFunction: member.value } });
            if (member.type === 'PropertyDefinition' && member.value) this.field({ own }, name, member.value, inner);
          }
          if (member.value) this.build(member.value, inner, { own });
          else if (member.body) this.children(member, inner);
        }
        return;
      }
      case 'ImportDeclaration':
        if (isPhaser(String(node.source.value))) {
          for (const { type, local, imported } of node.specifiers) {
            const path = type === 'ImportSpecifier' && imported.name !== 'default' ? `Phaser.${imported.name}` : 'Phaser';
            const row = this.types.rows.get(path);
            scope.declare(local.name).fixed = row && row.kind === 'const' ? null : row && row.kind === 'function' ? { call: row, self: null } : { space: path };
          }
        }
        return;
      case 'VariableDeclarator':
        this.pattern(node.id, scope, node.init ? { node: node.init, scope } : null, scope);
        if (node.init) this.build(node.init, scope, this.selfOf(node));
        return;
      case 'AssignmentExpression':
        if (node.left.type === 'MemberExpression') {
          const name = node.left.computed ? literal(node.left.property) : node.left.property.name;
          if (typeof name === 'string') {
            this.defined.add(name);
            if (node.left.object.type === 'ThisExpression' && scope.self) this.field(scope.self, name, node.right, scope);
          }
        } else if (node.left.type === 'Identifier') {
          const variable = scope.find(node.left.name);
          if (variable && node.operator === '=') variable.sources.push({ node: node.right, scope });
        } else this.pattern(node.left, scope, { node: node.right, scope }, null);
        this.children(node, scope);
        return;
      case 'CallExpression':
        if (node.callee.type === 'Identifier') this.noteCall(node.callee.name, node, scope);
        else if (node.callee.type === 'MemberExpression' && !node.callee.computed && node.callee.object.type === 'ThisExpression') this.noteCall(`this.${node.callee.property.name}`, node, scope);
        this.noteDefinitions(node);
        this.children(node, scope);
        return;
      default:
        this.children(node, scope);
    }
  }

  selfOf(declarator) {
    return declarator.id.type === 'Identifier' && this.sceneFunctions.has(declarator.id.name) ? { of: 'Phaser.Scene' } : undefined;
  }

  children(node, scope) {
    for (const key of Object.keys(node)) {
      const value = node[key];
      if (Array.isArray(value)) {
        for (const item of value) if (item && item.type === 'FunctionDeclaration' && item.id) this.declareFunction(item, scope);
        for (const item of value) this.build(item, scope);
      } else if (value && typeof value.type === 'string' && key !== 'loc') this.build(value, scope);
    }
  }

  declareFunction(node, scope) {
    scope.declare(node.id.name).fixed = { ownFunction: node };
  }

  buildFunction(node, scope, self) {
    let own = scope.self;
    if (node.type !== 'ArrowFunctionExpression') {
      const isScene = this.sceneFunctions.has(node) || (node.id && this.sceneFunctions.has(node.id.name));
      own = self || (isScene ? { of: 'Phaser.Scene' } : null);
    }
    const inner = new Scope(scope, own);
    node.params.forEach((param, index) => this.pattern(param, inner, { argument: index, node }, inner));
    this.scopes.set(node.body, inner);
    if (node.body.type === 'BlockStatement') this.children(node.body, inner);
    else this.build(node.body, inner);
  }

  noteCall(name, node, scope) {
    if (!this.functionCalls.has(name)) this.functionCalls.set(name, []);
    this.functionCalls.get(name).push({ node, scope });
  }

  // Object.assign(this, {...}), Object.defineProperty(this, 'x', ...), and plugins: names become the program's own.
  noteDefinitions(node) {
    const { callee } = node;
    if (callee.type !== 'MemberExpression' || callee.object.type !== 'Identifier' || !/^(?:Object|Reflect)$/.test(callee.object.name)) return;
    for (const argument of node.arguments) {
      if (argument.type === 'ObjectExpression') for (const property of argument.properties) if (property.key) this.defined.add(property.key.name || String(property.key.value));
      if (typeof literal(argument) === 'string') this.defined.add(literal(argument));
    }
  }

  // The fields of `this`: of an own class, or shared by all scenes that are written as objects.
  fieldsOf(self) {
    if (self.own) return self.own.fields;
    return self.of === 'Phaser.Scene' ? this.sceneFields : null;
  }

  field(self, name, node, scope) {
    const fields = this.fieldsOf(self);
    if (!fields) return;
    this.defined.add(name);
    if (!fields.has(name)) fields.set(name, { sources: [], fixed: undefined });
    fields.get(name).sources.push({ node, scope });
  }

  // Declares the names of a pattern; each keeps the path from the source to its value.
  pattern(node, scope, source, target) {
    if (!node) return;
    if (node.type === 'Identifier') {
      const variable = target ? target.declare(node.name) : scope.find(node.name);
      if (variable && source) variable.sources.push(source);
    } else if (node.type === 'AssignmentPattern') {
      this.pattern(node.left, scope, source, target);
      this.build(node.right, scope);
    } else if (node.type === 'ObjectPattern') {
      for (const property of node.properties) {
        if (property.type === 'RestElement') this.pattern(property.argument, scope, null, target);
        else {
          const name = property.computed ? null : property.key.name || String(property.key.value);
          this.pattern(property.value, scope, source && name ? { source, name, node: property } : null, target);
        }
      }
    } else if (node.type === 'ArrayPattern') {
      for (const element of node.elements) this.pattern(element, scope, null, target);
    } else if (node.type === 'RestElement') this.pattern(node.argument, scope, null, target);
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
