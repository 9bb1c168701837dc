'use strict';
// Whether the live code of a program has a use of a must-use symbol.

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

module.exports = { isUsed, rowOf };
