'use strict';
// What a run has to show for a must-use symbol, and whether the live code has a use of it.

// Symbols of older versions of Phaser that prompts still name.
const RENAMED = {
  'Phaser.GameObjects.Particles.ParticleEmitterManager': 'Phaser.GameObjects.Particles.ParticleEmitter',
  'Phaser.Time.TimePlugin': 'Phaser.Time.Clock',
};

// The row that a prompt means: a method may be written with a dot.
function rowOf(types, symbol) {
  const name = RENAMED[symbol] || symbol;
  const direct = types.rows.get(name);
  if (direct) return direct;
  const match = /^(.*)[#.](\w+)$/.exec(name);
  return match ? types.member(match[1], match[2]) : null;
}

// For realm/uses.js: {id, kind, path, name, members}; null if there is no such symbol.
function specification(types, symbol) {
  const row = rowOf(types, symbol);
  if (!row) return null;
  const spec = { id: symbol, kind: row.kind, path: row.owner.split('.'), name: row.name, value: row.value };
  if (row.kind === 'class') return { ...spec, path: row.symbol_id.split('.') };
  if (row.kind === 'method' || row.kind === 'property') {
    const asked = /^(.*)[#.]\w+$/.exec(RENAMED[symbol] || symbol)[1];
    return { ...spec, kind: 'method', path: (types.isClass(asked) ? asked : row.owner).split('.') };
  }
  if (row.kind === 'namespace' || row.kind === 'interface') {
    const members = [...(types.members.get(row.symbol_id) || new Map()).keys()];
    return { ...spec, kind: 'namespace', members };
  }
  return { ...spec, kind: row.kind };
}

// Whether a use in live code is a use of the symbol.
function isUsed(types, symbol, uses, listeners) {
  const row = rowOf(types, symbol);
  if (!row) return false;
  if (row.kind === 'event' && listeners.has(row.value)) return true;
  return uses.some(({ row: used, owner, returned }) => {
    if (used.symbol_id === row.symbol_id) return true;
    if (row.kind === 'class') {
      return (returned && types.lineage(returned).includes(row.symbol_id)) || (owner && types.lineage(owner).includes(row.symbol_id) && used.kind !== 'property');
    }
    return row.kind === 'namespace' && (used.owner === row.symbol_id || used.symbol_id.startsWith(`${row.symbol_id}.`));
  });
}

module.exports = { specification, isUsed, rowOf };
