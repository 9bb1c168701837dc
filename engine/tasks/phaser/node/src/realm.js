'use strict';
// A vm context with Phaser in it. A program of the context holds no object of this realm: everything that it sees was
// made inside, from source text. Only primitive values cross between the realms.
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const REALM = path.join(__dirname, '..', 'realm');
const PARTS = 'clock canvas network elements visibility dom uses css_color geometry words pictures objects drawing lifecycle tracks report'.split(' ');

function script(file, name) {
  return new vm.Script(fs.readFileSync(file, 'utf8'), { filename: name });
}

// Looking up a global of a vm context is slow, and Phaser does it in each frame: it gets these as local variables.
const LOCALS = (
  'Object Array Function String Number Boolean Math Date JSON RegExp Error TypeError RangeError Map Set WeakMap Symbol Promise ' +
  'Uint8Array Uint8ClampedArray Uint16Array Uint32Array Int8Array Int16Array Int32Array Float32Array Float64Array ArrayBuffer ' +
  'DataView isNaN isFinite parseInt parseFloat undefined NaN Infinity window document navigator console'
).split(' ');

function phaserScript(file) {
  const source = fs.readFileSync(file, 'utf8');
  return new vm.Script(`(function (${LOCALS.join(', ')}) {${source}\n}).call(globalThis, ${LOCALS.join(', ')});`, { filename: 'phaser.js' });
}

class RealmFactory {
  constructor() {
    this.paths = '';
    const phaser = require.resolve('phaser/dist/phaser.min.js');
    this.scripts = Object.fromEntries(
      PARTS.map((name) => [name, script(path.join(REALM, `${name}.js`), `${name}.js`)]),
    );
    this.scripts.phaser = phaserScript(phaser);
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
    const dom = evaluate('dom')(clock, evaluate('canvas')(), evaluate('network'), evaluate('elements'), evaluate('visibility'), global);
    evaluate('phaser');
    const Phaser = vm.runInContext('Phaser', context);
    const uses = evaluate('uses')(Phaser, this.paths);
    this.paths = this.paths || `${uses.paths}`;
    const geometry = evaluate('geometry')();
    const pictures = evaluate('pictures')();
    const objects = evaluate('objects')(geometry, pictures);
    const drawing = evaluate('drawing')(evaluate('css_color')(), geometry, evaluate('words')(geometry), pictures, objects);
    drawing.watch(dom, uses.classes, clock.hideSource);
    const lifecycle = evaluate('lifecycle')(clock, dom, Phaser);
    const driver = evaluate('report')(clock, dom, Phaser, uses, lifecycle, objects, evaluate('tracks')(lifecycle, uses), global);
    return {
      driver,
      drain: () => evaluate('drain'),
      run: (code) => new vm.Script(code, { filename: 'game.js' }).runInContext(context, { displayErrors: false }),
    };
  }
}

module.exports = { RealmFactory };
