// Runs inside the page of a game, before Phaser and before the game; the value of this file is an object that only the
// driver holds. It replaces the clock of the page, so that a run depends on no machine, and notes what Phaser does.
(() => {
  'use strict';
  const FRAME_MS = 1000 / 60;
  const FIRST_MS = 1704067200000; // the dates of different programs lie within five years from then
  const SPAN_MS = 157680000000;
  const MAX_TIMERS_PER_FRAME = 5000;
  const MAX_NAMED = 50;
  const CANVAS = 1;
  const WEBGL = 2;
  const RUNNING = 5;
  const { stringify } = JSON;
  const { defineProperty } = Object;
  const { apply } = Reflect;
  const RealDate = Date;

  let now = 0;
  let nextId = 1;
  let epoch = FIRST_MS;
  let randomState = 1;
  let timers = [];
  let animationFrames = [];
  let loading = 0;
  let phase = 'script';
  let games = 0;
  let steps = 0;
  const scenes = [];
  const missing = [];

  // Time and chance

  function addTimer(callback, delay, args, interval) {
    const wait = Math.max(1, Math.floor(Number(delay) || 0));
    timers.push({ id: nextId, time: now + wait, callback, args, interval: interval ? wait : 0 });
    return nextId++;
  }
  const removeTimer = (id) => {
    timers = timers.filter((timer) => timer.id !== id);
  };

  // An error of a callback leaves this function: the driver reads it from the protocol of the browser.
  function step() {
    const end = now + FRAME_MS;
    for (let left = MAX_TIMERS_PER_FRAME; left > 0; left--) {
      const due = timers.filter((timer) => timer.time <= end).sort((a, b) => a.time - b.time || a.id - b.id)[0];
      if (!due) break;
      now = Math.max(now, due.time);
      if (due.interval) due.time = now + due.interval;
      else removeTimer(due.id);
      due.callback(...due.args);
    }
    now = end;
    const callbacks = animationFrames;
    animationFrames = [];
    for (const { callback } of callbacks) callback(now);
    return state();
  }

  function random() {
    randomState = (randomState + 0x6d2b79f5) | 0; // mulberry32
    let mixed = Math.imul(randomState ^ (randomState >>> 15), 1 | randomState);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  }

  class VirtualDate extends RealDate {
    constructor(...args) {
      super(...(args.length ? args : [Math.floor(epoch + now)]));
    }
    static now() {
      return Math.floor(epoch + now);
    }
  }
  defineProperty(VirtualDate, 'name', { value: 'Date' });
  const globals = {
    Date: VirtualDate,
    setTimeout: (callback, delay, ...args) => addTimer(callback, delay, args, false),
    setInterval: (callback, delay, ...args) => addTimer(callback, delay, args, true),
    clearTimeout: removeTimer,
    clearInterval: removeTimer,
    requestAnimationFrame(callback) {
      animationFrames.push({ id: nextId, callback });
      return nextId++;
    },
    cancelAnimationFrame(id) {
      animationFrames = animationFrames.filter((frame) => frame.id !== id);
    },
  };
  for (const [name, value] of Object.entries(globals)) {
    defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
  performance.now = () => now;
  Math.random = random;
  for (const name of ['alert', 'print', 'confirm', 'prompt']) globalThis[name] = () => null;

  // Pictures and files load in real time. The clock stands still until they are there, so that a run is the same again.
  function noteLoading(target, start, ends) {
    let open = true;
    loading += 1;
    for (const event of ends) {
      target.addEventListener(event, () => {
        loading -= open ? 1 : 0;
        open = false;
      });
    }
    return start();
  }
  const source = Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, 'src');
  defineProperty(HTMLImageElement.prototype, 'src', {
    ...source,
    set(value) {
      noteLoading(this, () => apply(source.set, this, [value]), ['load', 'error']);
    },
  });
  const { send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.send = function sendNoted(body) {
    noteLoading(this, () => apply(send, this, [body]), ['loadend']);
  };

  // Phaser

  function during(name, action) {
    const outer = phase;
    phase = name;
    const result = action(); // after an error the phase stays
    phase = outer;
    return result;
  }

  // A game cannot replace what is replaced here.
  function replace({ prototype }, name, make) {
    const original = prototype[name];
    const value = function (...args) {
      return make(this, args, () => apply(original, this, args));
    };
    defineProperty(prototype, name, { value, writable: false, configurable: false });
  }

  const noteMissing = (kind, name) => {
    if (typeof name === 'string' && name && missing.length < MAX_NAMED) missing.push(`the ${kind} "${name.slice(0, 80)}" does not exist`);
  };

  function stateOf(scene) {
    let state = scenes.find((known) => known.sys === scene.sys);
    if (!state) {
      state = { sys: scene.sys, created: 0, updates: 0 };
      scenes.push(state);
    }
    return state;
  }

  function watchPhaser(Phaser, needsWebgl) {
    const { Scene, Scenes } = Phaser;
    const hasOwnCode = (scene) =>
      ['init', 'preload', 'create', 'update'].some((name) => typeof scene[name] === 'function' && scene[name] !== Scene.prototype[name]);
    replace(Phaser.Game, 'boot', (game, args, original) => {
      games += 1;
      const { config } = game;
      // AUTO is a canvas, which draws faster here, unless the program needs WebGL; HEADLESS would show nothing.
      config.renderType = config.renderType === WEBGL || needsWebgl ? WEBGL : CANVAS;
      config.hideBanner = true;
      config.audio = { noAudio: true };
      return original();
    });
    replace(Phaser.Game, 'step', (game, args, original) => {
      steps += 1;
      return during('update', original);
    });
    replace(Scenes.SceneManager, 'bootScene', (manager, args, original) => during('preload', original));
    replace(Scenes.SceneManager, 'create', (manager, [scene], original) => {
      const state = stateOf(scene);
      during('create', original);
      if (hasOwnCode(scene)) state.created += 1;
    });
    replace(Scenes.SceneManager, 'start', (manager, [key], original) => {
      if (manager.isBooted && !manager.getScene(key)) noteMissing('scene', key);
      return original();
    });
    replace(Scenes.Systems, 'step', (sys, args, original) => {
      stateOf(sys.scene).updates += 1;
      return original();
    });
    replace(Phaser.Textures.TextureManager, 'get', (manager, [key], original) => {
      if (!manager.list[key]) noteMissing('texture', key);
      return original();
    });
    replace(Phaser.Animations.AnimationState, 'load', (state, [key], original) => {
      const name = typeof key === 'string' ? key : key && key.key;
      if (!state.exists(name) && !state.animationManager.exists(name)) noteMissing('animation', name);
      return original();
    });
  }

  const isCreated = () => scenes.some(({ created }) => created > 0);
  const state = () => stringify({ phase: phase === 'script' && isCreated() ? 'update' : phase, games, steps, loading, missing: missing[0] || '', created: isCreated() });

  return {
    // `phaserLoaded` is called at the end of the file of Phaser, and is gone before the game's code runs.
    prepare(seed, needsWebgl) {
      globalThis.phaserLoaded = () => {
        delete globalThis.phaserLoaded;
        watchPhaser(globalThis.Phaser, needsWebgl);
      };
      randomState = seed | 0;
      epoch = FIRST_MS + Math.floor((Math.imul(randomState, 0x9e3779b1) >>> 0) * (SPAN_MS / 4294967296));
    },
    step,
    state,
    scenes: () =>
      stringify(
        scenes.slice(0, MAX_NAMED).map(({ sys, created, updates }) => ({
          key: `${sys.settings.key}`.slice(0, 80), created, updates, active: sys.settings.status === RUNNING, objects: sys.displayList ? sys.displayList.length : 0,
        })),
      ),
  };
})()
