'use strict';
// A vm context with Phaser in it. A program of the context holds no object of this realm: everything that it sees was
// made inside, from source text. Only primitive values cross between the realms.
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const REALM = path.join(__dirname, '..', 'realm');

function script(file, name) {
  return new vm.Script(fs.readFileSync(file, 'utf8'), { filename: name });
}

class RealmFactory {
  constructor() {
    const phaser = require.resolve('phaser/dist/phaser.min.js');
    this.scripts = Object.fromEntries(
      ['clock', 'dom', 'uses', 'lifecycle', 'report'].map((name) => [name, script(path.join(REALM, `${name}.js`), `${name}.js`)]),
    );
    this.scripts.phaser = script(phaser, 'phaser.js');
    this.scripts.drain = new vm.Script('0', { filename: 'drain.js' });
  }

  // Returns { run(code), drain(), driver }: the driver's methods take and return primitive values.
  make() {
    const context = vm.createContext(Object.create(null), {
      codeGeneration: { strings: false, wasm: false },
      microtaskMode: 'afterEvaluate',
    });
    const evaluate = (name) => this.scripts[name].runInContext(context, { displayErrors: false });
    const global = evaluate('drain') === 0 && vm.runInContext('globalThis', context);
    const clock = evaluate('clock');
    const dom = evaluate('dom')(clock, global);
    evaluate('phaser');
    const Phaser = vm.runInContext('Phaser', context);
    const uses = evaluate('uses')(Phaser);
    const lifecycle = evaluate('lifecycle')(clock, dom, Phaser);
    const driver = evaluate('report')(clock, dom, Phaser, uses, lifecycle, global);
    return {
      driver,
      drain: () => evaluate('drain'),
      run: (code) => new vm.Script(code, { filename: 'game.js' }).runInContext(context, { displayErrors: false }),
    };
  }
}

module.exports = { RealmFactory };
