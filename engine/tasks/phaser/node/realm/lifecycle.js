// Follows the real game of a realm: which game booted, which scenes reached create, how many frames ran, what was
// thrown and where. Evaluated after Phaser and before the program; holds everything in its closure. The methods of
// Phaser that this relies on cannot be replaced afterwards.
(function (clock, dom, Phaser) {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { get: mapGet, set: mapSet } = Map.prototype;
  const RealPromise = Promise;
  const { then } = Promise.prototype;
  const { slice } = String.prototype;
  const { hasOwn } = Object;
  const ObjectPrototype = Object.prototype;
  const toText = function () {
    return typeof this === 'symbol' || typeof this === 'object' ? 'a symbol' : this;
  };
  const list = () => setPrototypeOf([], null);
  const CANVAS = 1;
  const RUNNING = 5;
  const DESTROYED = 9;
  const SILENT_FRAMES = 15;
  const CORE = [
    Phaser.Game, Phaser.Scenes.SceneManager, Phaser.Scenes.Systems, Phaser.Core.TimeStep, Phaser.Events.EventEmitter,
    Phaser.DOM.RequestAnimationFrame,
  ];

  // Built-in objects that no game replaces, and the parts of Phaser that make a game.
  const KEPT = [
    Object, Object.prototype, Function.prototype, Array, Array.prototype, String.prototype, Number.prototype, Promise,
    Promise.prototype, RegExp.prototype, Map.prototype, Set.prototype, WeakMap.prototype, Error, JSON, Reflect, Symbol,
    Phaser, Phaser.Scenes, Phaser.Core, Phaser.GameObjects, Phaser.Events,
  ];
  const kept = list();
  const games = list();
  const scenes = list();
  const stateOf = new Map();
  let phase = 'script';
  let pending = null;
  let failure = null;
  let ticks = 0;
  let lastStep = 0;
  let steps = 0;
  let createdAt = -1;

  function text(error) {
    try {
      if (typeof error === 'string') return apply(slice, error, [0, 300]);
      const name = error.name;
      const message = error.message;
      if (typeof name === 'string' && typeof message === 'string') return apply(slice, `${name}: ${message}`, [0, 300]);
      return 'threw a value that is no error';
    } catch {
      return 'threw a value that cannot be read';
    }
  }

  function fail(where, error) {
    if (failure) return;
    failure = { __proto__: null, phase: where, message: text(error), frame: createdAt < 0 ? -1 : ticks - createdAt };
  }

  const hasFailed = () => failure !== null;
  clock.catchErrors((error) => fail(pending && pending.error === error ? pending.phase : phase, error));

  // Run `action` in a phase; an error keeps the phase in which it was thrown first.
  function during(name, action) {
    const outer = phase;
    phase = name;
    try {
      const result = action();
      phase = outer;
      return result;
    } catch (error) {
      if (!pending || pending.error !== error) pending = { __proto__: null, error, phase };
      phase = outer;
      throw error;
    }
  }

  // A scene method may be async; its rejection is an uncaught error of the page.
  function watchAsync(scene, name, action) {
    const original = scene[name];
    if (typeof original !== 'function') return action();
    const found = getOwnPropertyDescriptor(scene, name);
    defineProperty(scene, name, {
      __proto__: null, configurable: true, writable: true, enumerable: Boolean(found && found.enumerable),
      value(...args) {
        const result = apply(original, this, args);
        if (result instanceof RealPromise) apply(then, result, [undefined, (error) => fail(name, error)]);
        return result;
      },
    });
    try {
      return action();
    } finally {
      if (found) defineProperty(scene, name, found);
      else delete scene[name];
    }
  }

  function replace(constructor, name, make) {
    const { prototype } = constructor;
    defineProperty(prototype, name, { __proto__: null, value: make(prototype[name]), writable: false, configurable: false });
  }

  // Keeps the functions of an object as they are now.
  function keep(object) {
    const values = list();
    const names = ownKeys(object);
    for (let i = 0; i < names.length; i++) {
      const found = getOwnPropertyDescriptor(object, names[i]);
      if (typeof found.value === 'function') values[values.length] = { __proto__: null, name: names[i], value: found.value };
    }
    kept[kept.length] = { __proto__: null, object, values, size: names.length };
  }

  function changedBuiltin() {
    for (let i = 0; i < kept.length; i++) {
      const { object, values, size } = kept[i];
      for (let j = 0; j < values.length; j++) {
        const found = getOwnPropertyDescriptor(object, values[j].name);
        if (!found || found.value !== values[j].value) return `${apply(toText, values[j].name, [])}`;
      }
      if (object === ObjectPrototype && ownKeys(object).length !== size) return 'Object.prototype';
    }
    return '';
  }

  function sceneState(scene) {
    let state = apply(mapGet, stateOf, [scene.sys]);
    if (!state) {
      state = { __proto__: null, scene, sys: scene.sys, created: 0, updates: 0, lastStep: 0 };
      apply(mapSet, stateOf, [scene.sys, state]);
      scenes[scenes.length] = state;
    }
    return state;
  }

  const baseUpdate = Phaser.Scene.prototype.update;
  const hasOwnCode = (scene) =>
    typeof scene.create === 'function' || typeof scene.preload === 'function' || typeof scene.init === 'function' ||
    (typeof scene.update === 'function' && scene.update !== baseUpdate);

  replace(Phaser.Game, 'boot', (original) => function boot() {
    games[games.length] = { __proto__: null, game: this, ready: false };
    const { config } = this;
    config.renderType = dom.renderType(config.renderType, CANVAS);
    config.hideBanner = true;
    config.audio = { noAudio: true };
    return during('boot', () => apply(original, this, []));
  });
  replace(Phaser.Game, 'start', (original) => function start() {
    for (let i = 0; i < games.length; i++) if (games[i].game === this) games[i].ready = true;
    return apply(original, this, []);
  });
  replace(Phaser.Game, 'step', (original) => function step(time, delta) {
    if (!this.isPaused && !this.pendingDestroy) steps += 1;
    lastStep = ticks;
    return during('update', () => apply(original, this, [time, delta]));
  });
  replace(Phaser.Scenes.SceneManager, 'bootScene', (original) => function bootScene(scene) {
    return during('preload', () => watchAsync(scene, 'preload', () => apply(original, this, [scene])));
  });
  replace(Phaser.Scenes.SceneManager, 'create', (original) => function create(scene) {
    const known = sceneState(scene);
    during('create', () => watchAsync(scene, 'create', () => apply(original, this, [scene])));
    if (scene.sys.settings.status === DESTROYED || !hasOwnCode(scene)) return;
    known.created += 1;
    if (createdAt < 0) createdAt = ticks;
  });
  replace(Phaser.Scenes.Systems, 'step', (original) => function step(time, delta) {
    const state = sceneState(this.scene);
    state.updates += 1;
    state.lastStep = steps;
    return apply(original, this, [time, delta]);
  });
  for (let i = 0; i < CORE.length; i++) {
    for (let target = CORE[i].prototype; target !== Object.prototype; target = getPrototypeOf(target)) {
      const names = ownKeys(target);
      for (let j = 0; j < names.length; j++) {
        const found = getOwnPropertyDescriptor(target, names[j]);
        if (names[j] === 'constructor' || typeof found.value !== 'function' || !found.configurable) continue;
        defineProperty(target, names[j], { __proto__: null, value: found.value, writable: false, configurable: false });
      }
    }
  }

  for (let i = 0; i < KEPT.length; i++) keep(KEPT[i]);

  // Destructuring and RegExp.prototype.test call these: a program that replaced one for a while could change what is read.
  const USED = [[Array.prototype, Symbol.iterator], [getPrototypeOf([][Symbol.iterator]()), 'next'], [RegExp.prototype, 'exec']];
  for (let i = 0; i < USED.length; i++) {
    const [target, name] = USED[i];
    defineProperty(target, name, { __proto__: null, value: target[name], writable: false, configurable: false });
  }

  // The names of methods that an object has of its own, in place of those of its class.
  function shadowed(object, constructor) {
    const names = ownKeys(constructor.prototype);
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      if (name !== 'constructor' && hasOwn(object, name) && !getOwnPropertyDescriptor(constructor.prototype, name).writable) return name;
    }
    return '';
  }

  // What of the game or of the language was replaced so that errors would not show; '' if nothing.
  function replaced() {
    const builtin = changedBuiltin();
    if (builtin) return builtin;
    for (let i = 0; i < games.length; i++) {
      const { game } = games[i];
      const name = shadowed(game, Phaser.Game) || shadowed(game.loop, Phaser.Core.TimeStep) ||
        shadowed(game.scene, Phaser.Scenes.SceneManager) || shadowed(game.events, Phaser.Events.EventEmitter);
      if (name) return name;
    }
    for (let i = 0; i < scenes.length; i++) {
      const name = shadowed(scenes[i].sys, Phaser.Scenes.Systems);
      if (name) return `sys.${name}`;
      const { created, sys, lastStep: updatedAt } = scenes[i];
      if (created > 0 && sys.settings.status === RUNNING && steps - updatedAt > 2) return 'the list of scenes';
    }
    return '';
  }

  return {
    __proto__: null,
    scenes,
    games,
    fail,
    text,
    guard(action) {
      try {
        action();
      } catch (error) {
        fail(phase === 'script' ? 'update' : phase, error);
      }
    },
    // The program has been evaluated.
    loaded() {
      phase = 'boot';
    },
    // The first half of a frame, timers; and the second half, animation. Promises are settled after each.
    timers() {
      ticks += 1;
      pending = null;
      clock.runTimers(hasFailed);
      return failure === null;
    },
    animate() {
      pending = null;
      clock.runAnimationFrames(hasFailed);
      return failure === null;
    },
    isCreated: () => createdAt >= 0,
    // How the run ended, in the terms of RuntimeOutcome.
    outcome() {
      const changed = apply(replacedSafely, null, []);
      if (changed) return { __proto__: null, name: 'tampered', message: `the program replaced a part of the game or the language: ${changed}`, frame: -1 };
      if (failure) {
        const name = failure.phase === 'script' ? 'script_error' : failure.phase === 'boot' ? 'boot_failed' : `${failure.phase}_error`;
        return { __proto__: null, name, message: failure.message, frame: failure.frame };
      }
      if (games.length === 0) return { __proto__: null, name: 'no_game', message: 'no game was started with new Phaser.Game', frame: -1 };
      let ready = false;
      for (let i = 0; i < games.length; i++) ready = ready || games[i].ready;
      if (!ready) return { __proto__: null, name: 'boot_failed', message: 'the game did not boot', frame: -1 };
      if (createdAt < 0) return { __proto__: null, name: 'no_scene', message: 'no scene of the program reached create', frame: -1 };
      const ran = ticks - createdAt;
      if (ran > 0 && (steps === 0 || ticks - lastStep > SILENT_FRAMES)) {
        return { __proto__: null, name: 'stopped', message: 'the program stopped the game loop', frame: lastStep - createdAt };
      }
      return { __proto__: null, name: 'ok', message: '', frame: -1 };
    },
    frames: () => (createdAt < 0 ? 0 : ticks - createdAt),
  };

  function replacedSafely() {
    try {
      return replaced();
    } catch {
      return 'the game cannot be examined';
    }
  }
})
