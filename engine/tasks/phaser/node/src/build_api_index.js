'use strict';
// Builds phaser_api.jsonl and meta.json from the JSDoc data and the type declarations of the Phaser package.
// Usage: node build_api_index.js OUTPUT_FOLDER
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const ts = require('typescript');

const PACKAGE = path.dirname(require.resolve('phaser/package.json'));
const JSDOC = 'types/phaser.json';
const DECLARATIONS = 'types/phaser.d.ts';

const oneLine = (text) => (text || '').replace(/\{@link(?:code)? ([^}]*)\}/g, '$1').replace(/\s+/g, ' ').trim();
const typeNames = (type) => (type && type.names ? type.names.map((name) => name.replace(/\.</g, '<')) : []);

// Seed's rule: a method is Owner#name; all other members are Owner.name.
const symbolId = (owner, name, kind) => (owner ? `${owner}${kind === 'method' ? '#' : '.'}${name}` : name);

function kindOf(doclet) {
  const instance = doclet.scope === 'instance' || doclet.scope === 'inner';
  if (doclet.kind === 'function') return instance ? 'method' : 'function';
  if (doclet.kind === 'member') return instance ? 'property' : 'const';
  return { class: 'class', namespace: 'namespace', constant: 'const', event: 'event', typedef: 'interface' }[doclet.kind];
}

function eventValue(doclet) {
  const folder = doclet.meta.path.split(/[\\/]src[\\/]?/)[1].replace(/\\/g, '/');
  const source = fs.readFileSync(path.join(PACKAGE, 'src', folder, doclet.meta.filename), 'utf8');
  const match = /module\.exports = '([^']*)'/.exec(source);
  return match ? match[1] : null;
}

function parameters(doclet) {
  return (doclet.params || [])
    .filter((param) => !param.name.includes('.'))
    .map((param) => ({
      name: param.name,
      type: typeNames(param.type).join('|'),
      optional: Boolean(param.optional),
      rest: Boolean(param.variable),
    }));
}

function rowOf(doclet) {
  const kind = kindOf(doclet);
  if (!kind || !/^Phaser(\.|$)/.test(doclet.longname)) return null;
  const { name } = doclet;
  const owner = doclet.memberof || '';
  const params = parameters(doclet);
  const returns = typeNames(doclet.kind === 'function' ? doclet.returns && doclet.returns[0] && doclet.returns[0].type : doclet.type);
  const shown = params.map((param) => `${param.rest ? '...' : ''}${param.name}${param.optional ? '?' : ''}: ${param.type}`);
  const isCall = kind === 'method' || kind === 'function' || kind === 'class';
  const result = kind === 'class' ? owner && `${owner}.${name}` : returns.join('|') || 'void';
  return {
    symbol_id: symbolId(owner, name, kind),
    name,
    kind,
    owner,
    signature: isCall ? `${name}(${shown.join(', ')}): ${result}` : `${name}: ${returns.join('|') || kind}`,
    params,
    returns: { type: returns.join('|') },
    tags: owner.split('.').slice(1),
    static: doclet.scope === 'static',
    since: doclet.since || null,
    deprecated: doclet.deprecated ? oneLine(String(doclet.deprecated)) || 'deprecated' : null,
    inherits: [...new Set(doclet.augments || [])].sort(),
    value: kind === 'event' ? eventValue(doclet) : null,
    source: { origin: 'jsdoc', version: '', path: JSDOC, loc: { start_line: doclet.meta ? doclet.meta.lineno : null, end_line: null } },
    doc: oneLine(doclet.classdesc || doclet.description).slice(0, 240),
    examples: [],
  };
}

// Declarations of phaser.d.ts: id -> {owner, name, kind, type, line, inherits}.
function declarations() {
  const file = path.join(PACKAGE, DECLARATIONS);
  const source = ts.createSourceFile('phaser.d.ts', fs.readFileSync(file, 'utf8'), ts.ScriptTarget.ES2022, true);
  const found = new Map();
  const line = (position) => source.getLineAndCharacterOfPosition(position).line + 1;
  const add = (node, owner, name, kind, extra) => {
    const id = symbolId(owner, name, kind);
    if (!found.has(id)) found.set(id, { owner, name, kind, start: line(node.getStart(source)), end: line(node.end), inherits: [], type: '', params: [], ...extra });
    return found.get(id);
  };
  const text = (node) => (node ? node.getText(source).replace(/\s+/g, ' ') : '');
  const paramsOf = (node) =>
    (node.parameters || []).map((param) => ({
      name: text(param.name), type: text(param.type), optional: Boolean(param.questionToken), rest: Boolean(param.dotDotDotToken),
    }));
  const isStatic = (node) => (node.modifiers || []).some((modifier) => modifier.kind === ts.SyntaxKind.StaticKeyword);
  function visit(node, owner) {
    if (ts.isModuleDeclaration(node)) {
      const name = node.name.text;
      if (!owner && name !== 'Phaser') return;
      const full = owner ? `${owner}.${name}` : name;
      add(node, owner, name, 'namespace');
      if (node.body && ts.isModuleBlock(node.body)) node.body.statements.forEach((child) => visit(child, full));
      else if (node.body) visit(node.body, full);
    } else if (ts.isClassDeclaration(node) || ts.isInterfaceDeclaration(node)) {
      const full = `${owner}.${node.name.text}`;
      const own = add(node, owner, node.name.text, ts.isClassDeclaration(node) ? 'class' : 'interface');
      const bases = (node.heritageClauses || []).flatMap((clause) => clause.types.map((type) => text(type.expression)));
      own.inherits = [...new Set([...own.inherits, ...bases])];
      for (const member of node.members) {
        if (!member.name) continue;
        const kind = ts.isMethodDeclaration(member) || ts.isMethodSignature(member)
          ? (isStatic(member) ? 'function' : 'method') : isStatic(member) ? 'const' : 'property';
        add(member, full, text(member.name), kind, { type: text(member.type), params: paramsOf(member) });
      }
    } else if (ts.isFunctionDeclaration(node)) {
      add(node, owner, node.name.text, 'function', { type: text(node.type), params: paramsOf(node) });
    } else if (ts.isVariableStatement(node)) {
      for (const declaration of node.declarationList.declarations) add(declaration, owner, text(declaration.name), 'const', { type: text(declaration.type) });
    } else if (ts.isEnumDeclaration(node)) {
      add(node, owner, node.name.text, 'namespace');
      for (const member of node.members) add(member, `${owner}.${node.name.text}`, text(member.name), 'const', { type: 'number' });
    } else if (ts.isTypeAliasDeclaration(node)) {
      add(node, owner, node.name.text, 'interface', { type: text(node.type) });
    }
  }
  source.statements.forEach((statement) => visit(statement, ''));
  return found;
}

function usable(id) {
  return /^Phaser[\w.#$]*$/.test(id);
}

function rowOfDeclaration(id, found) {
  const shown = found.params.map((param) => `${param.rest ? '...' : ''}${param.name}${param.optional ? '?' : ''}: ${param.type}`);
  const isCall = found.kind === 'method' || found.kind === 'function';
  return {
    symbol_id: id, name: found.name, kind: found.kind, owner: found.owner,
    signature: isCall ? `${found.name}(${shown.join(', ')}): ${found.type}` : `${found.name}: ${found.type || found.kind}`,
    params: found.params, returns: { type: found.type }, tags: found.owner.split('.').slice(1),
    static: found.kind === 'function' || found.kind === 'const', since: null, deprecated: null, inherits: found.inherits.slice().sort(),
    value: null, source: { origin: 'dts', version: '', path: DECLARATIONS, loc: { start_line: found.start, end_line: found.end } },
    doc: '', examples: [],
  };
}

function main(folder) {
  const { version } = JSON.parse(fs.readFileSync(path.join(PACKAGE, 'package.json'), 'utf8'));
  const data = JSON.parse(fs.readFileSync(path.join(PACKAGE, JSDOC), 'utf8'));
  const rows = new Map();
  let doclets = 0;
  for (const found of data.docs || data) {
    // Phaser.Class is documented as a global.
    const doclet = found.longname === 'Class' ? { ...found, longname: 'Phaser.Class', memberof: 'Phaser' } : found;
    if (doclet.inherited || doclet.undocumented || doclet.access === 'private' || doclet.ignore) continue;
    const row = rowOf(doclet);
    doclets += row ? 1 : 0;
    if (row && !rows.has(row.symbol_id)) rows.set(row.symbol_id, row);
  }
  const fromTypes = declarations();
  let onlyTypes = 0;
  // The declarations repeat the members of a mixin on each class that has it; `inherits` says the same.
  const isInherited = (owner, name, seen = new Set()) => {
    if (seen.has(owner)) return false;
    seen.add(owner);
    const bases = rows.has(owner) ? rows.get(owner).inherits : [];
    return bases.some((base) => rows.has(`${base}#${name}`) || rows.has(`${base}.${name}`) || isInherited(base, name, seen));
  };
  for (const [id, found] of fromTypes) {
    const row = rows.get(id);
    if (!usable(id)) continue;
    if (!row && isInherited(found.owner, found.name)) continue;
    if (!row) {
      rows.set(id, rowOfDeclaration(id, found));
      onlyTypes += 1;
    } else {
      row.inherits = [...new Set([...row.inherits, ...found.inherits])].sort();
      row.source.loc = row.source.loc.start_line === null ? { start_line: found.start, end_line: found.end } : row.source.loc;
    }
  }
  const sorted = [...rows.values()].sort((a, b) => (a.symbol_id < b.symbol_id ? -1 : a.symbol_id > b.symbol_id ? 1 : 0));
  const kinds = {};
  for (const row of sorted) {
    row.source.version = version;
    kinds[row.kind] = (kinds[row.kind] || 0) + 1;
  }
  const text = sorted.map((row) => `${JSON.stringify(row)}\n`).join('');
  const meta = {
    phaser_version: version,
    source_jsdoc: JSDOC,
    source_dts: DECLARATIONS,
    sha256: crypto.createHash('sha256').update(text).digest('hex'),
    stats: { total: sorted.length, ...Object.fromEntries(Object.entries(kinds).sort()), jsdoc: doclets, only_in_types: onlyTypes,
      only_in_jsdoc: sorted.filter((row) => row.source.origin === 'jsdoc' && !fromTypes.has(row.symbol_id)).length,
      since: sorted.filter((row) => row.since).length, deprecated: sorted.filter((row) => row.deprecated).length },
  };
  for (const [name, content] of [['phaser_api.jsonl', text], ['meta.json', `${JSON.stringify(meta, null, 1)}\n`]]) {
    fs.writeFileSync(path.join(folder, name), content);
  }
  process.stdout.write(`${JSON.stringify(meta)}\n`);
}

main(process.argv[2]);
