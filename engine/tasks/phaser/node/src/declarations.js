'use strict';
// What a program declares: its scopes with what each variable and field is assigned, its classes, the names that it
// defines, and the calls of its functions.
const walk = require('acorn-walk');
const { isPhaser } = require('./parse.js');
const { literal } = require('./safety.js');

const LIFECYCLE = new Set(['init', 'preload', 'create', 'update']);
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

class Declarations {
  constructor(ast, types) {
    this.types = types;
    this.ast = ast;
    this.scopes = new Map();
    this.defined = new Set();
    this.classes = new Map();
    this.sceneFields = new Map();
    this.functionCalls = new Map();
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
}

module.exports = { Declarations, FUNCTION };
