'use strict';
// Types of Phaser's API, from phaser_api.jsonl. A type is one of
//   { of: 'Phaser.X' }          an instance of a class        { space: 'Phaser.X' }   a namespace, or a class itself
//   { call: row, self }         a method or function          { own: class }          an instance of the program's class
// and null where nothing is known.
const fs = require('node:fs');

class ApiTypes {
  constructor(file) {
    this.rows = new Map();
    this.members = new Map();
    this.events = new Map();
    for (const line of fs.readFileSync(file, 'utf8').split('\n')) {
      if (!line) continue;
      const row = JSON.parse(line);
      this.rows.set(row.symbol_id, row);
      if (!this.members.has(row.owner)) this.members.set(row.owner, new Map());
      if (!this.members.get(row.owner).has(row.name) || row.kind !== 'property') this.members.get(row.owner).set(row.name, row);
      if (row.kind === 'event' && row.value) {
        if (!this.events.has(row.value)) this.events.set(row.value, []);
        this.events.get(row.value).push(row);
      }
    }
    this.lineages = new Map();
  }

  lineage(owner) {
    if (this.lineages.has(owner)) return this.lineages.get(owner);
    const found = [];
    const waiting = [owner];
    while (waiting.length) {
      const name = waiting.shift();
      if (found.includes(name)) continue;
      found.push(name);
      waiting.push(...((this.rows.get(name) || {}).inherits || []));
    }
    this.lineages.set(owner, found);
    return found;
  }

  // The row of a member of a class, or of a base or mixin of it.
  member(owner, name) {
    for (const place of this.lineage(owner)) {
      const row = this.members.get(place) && this.members.get(place).get(name);
      if (row) return row;
    }
    return null;
  }

  isClass(name) {
    return this.rows.has(name) && this.rows.get(name).kind === 'class';
  }

  // The type that a type expression of the JSDoc data means.
  parse(text, self) {
    if (!text) return null;
    const found = [];
    for (const part of text.split('|').map((each) => each.trim())) {
      if (/^(?:null|undefined|void|boolean|number|string|any|\*|object|function|Function|Object)$/.test(part)) {
        if (part === 'any' || part === '*' || part === 'object' || part === 'Object') return null;
        continue;
      }
      if (part === 'this') return self;
      const name = part.replace(/^Phaser\.Types\.Physics\.Arcade\.(Sprite|Image)With(?:Dynamic|Static)Body$/, 'Phaser.Physics.Arcade.$1');
      if (!this.isClass(name)) return null;
      found.push(name);
    }
    if (found.length === 0) return null;
    return found.length === 1 ? { of: found[0] } : { any: found };
  }
}

module.exports = { ApiTypes };
