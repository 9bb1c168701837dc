'use strict';
// Builds phaser_api.jsonl and meta.json from the JSDoc data of the Phaser package.
// Usage: node build_api_index.js OUTPUT_FOLDER
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const PACKAGE = path.dirname(require.resolve('phaser/package.json'));
const JSDOC = 'types/phaser.json';
// Base classes that the type declarations of the package name and its JSDoc data lack.
const BASES = {
  'Phaser.GameObjects.DisplayList': ['Phaser.Structs.List'],
  'Phaser.GameObjects.Layer': ['Phaser.Structs.List'],
  'Phaser.GameObjects.UpdateList': ['Phaser.Structs.ProcessQueue'],
};

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
    inherits: [...new Set([...(doclet.augments || []), ...(BASES[doclet.longname] || [])])].sort(),
    value: kind === 'event' ? eventValue(doclet) : null,
    source: { origin: 'jsdoc', version: '', path: JSDOC, loc: { start_line: doclet.meta ? doclet.meta.lineno : null, end_line: null } },
    doc: oneLine(doclet.classdesc || doclet.description).slice(0, 240),
    examples: [],
  };
}

function main(folder) {
  const { version } = JSON.parse(fs.readFileSync(path.join(PACKAGE, 'package.json'), 'utf8'));
  const data = JSON.parse(fs.readFileSync(path.join(PACKAGE, JSDOC), 'utf8'));
  const rows = new Map();
  for (const found of data.docs || data) {
    // Phaser.Class is documented as a global.
    const doclet = found.longname === 'Class' ? { ...found, longname: 'Phaser.Class', memberof: 'Phaser' } : found;
    if (doclet.inherited || doclet.undocumented || doclet.access === 'private' || doclet.ignore) continue;
    const row = rowOf(doclet);
    if (row && !rows.has(row.symbol_id)) rows.set(row.symbol_id, row);
  }
  const sorted = [...rows.values()].sort((a, b) => (a.symbol_id < b.symbol_id ? -1 : a.symbol_id > b.symbol_id ? 1 : 0));
  for (const row of sorted) row.source.version = version;
  const text = sorted.map((row) => `${JSON.stringify(row)}\n`).join('');
  const meta = {
    phaser_version: version,
    source_jsdoc: JSDOC,
    sha256: crypto.createHash('sha256').update(text).digest('hex'),
    stats: { total: sorted.length },
  };
  for (const [name, content] of [['phaser_api.jsonl', text], ['meta.json', `${JSON.stringify(meta, null, 1)}\n`]]) {
    fs.writeFileSync(path.join(folder, name), content);
  }
  process.stdout.write(`${JSON.stringify(meta)}\n`);
}

main(process.argv[2]);
