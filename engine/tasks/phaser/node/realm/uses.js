// Which parts of Phaser's API the program's own code uses, as far as a run shows it. A use counts if the function that
// called, read or wrote is the program's: the wrappers below look at the file of their caller.
(function (Phaser, knownPaths) {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
  const { get: mapGet, set: mapSet } = Map.prototype;
  const { isPrototypeOf } = Object.prototype;
  const RealError = Error;
  const { captureStackTrace } = Error;
  const PROGRAM_FILE = 'game.js';
  const OWN_FILE = 'uses.js';
  const MAX_WRAPPERS = 4; // a method may be wrapped more than once
  const STACK_FRAMES = 30;
  const MAX_CHECKS = 300;
  const MAX_NAMES = 400;
  const INTERNAL = /^(?:pre|post|boot|start$|shutdown|destroy$|update|step|render|is[A-Z]|get[A-Z]|transition|sort|add(?:ed|To)|remove|check|test)/;
  const { test } = RegExp.prototype;
  const list = () => setPrototypeOf([], null);
  const record = () => ({ __proto__: null });

  let sites = null;
  let getFileName = null;
  const keepSites = (error, frames) => {
    sites = frames;
    return '';
  };

  // At most `limit` frames of the stack above `above`, innermost first.
  function stack(above, limit) {
    const before = getOwnPropertyDescriptor(RealError, 'prepareStackTrace');
    const limitBefore = RealError.stackTraceLimit;
    const holder = record();
    sites = null;
    try {
      defineProperty(RealError, 'prepareStackTrace', { __proto__: null, value: keepSites, configurable: true, writable: true });
      RealError.stackTraceLimit = limit;
      captureStackTrace(holder, above);
      void holder.stack;
    } finally {
      RealError.stackTraceLimit = limitBefore;
      if (before) defineProperty(RealError, 'prepareStackTrace', before);
      else delete RealError.prepareStackTrace;
    }
    return sites;
  }
  getFileName = stack(undefined, 1)[0].getScriptNameOrSourceURL;

  function calledByProgram(above) {
    const frames = stack(above, MAX_WRAPPERS);
    for (let i = 0; frames && i < frames.length; i++) {
      const file = apply(getFileName, frames[i], []);
      if (file !== OWN_FILE) return file === PROGRAM_FILE;
    }
    return false;
  }

  function causedByProgram(above) {
    const frames = stack(above, STACK_FRAMES);
    for (let i = 0; frames && i < frames.length; i++) if (apply(getFileName, frames[i], []) === PROGRAM_FILE) return true;
    return false;
  }

  // prototype -> full name of the class
  const classNames = new Map();
  const classes = list();
  function addClass(name, value) {
    if (apply(mapGet, classNames, [value.prototype])) return;
    apply(mapSet, classNames, [value.prototype, name]);
    classes[classes.length] = value.prototype;
  }

  // The names of all classes, which are the same in all realms: found once, in a realm without a program.
  function classPaths(space, path, depth) {
    let found = '';
    for (const name of Object.keys(space)) {
      const { value } = getOwnPropertyDescriptor(space, name);
      if (typeof value === 'function' && value.prototype && ownKeys(value.prototype).length > 1) found += `${path}.${name}\n`;
      else if (value && typeof value === 'object' && depth < 6 && getPrototypeOf(value) === Object.prototype) {
        found += classPaths(value, `${path}.${name}`, depth + 1);
      }
    }
    return found;
  }
  const paths = knownPaths || classPaths(Phaser, 'Phaser', 0);
  for (const path of paths.split('\n')) {
    if (!path) continue;
    let value = Phaser;
    for (const name of path.split('.').slice(1)) value = value[name];
    addClass(path, value);
  }

  // The class of an object, without namespaces; '' if it is none of Phaser's.
  function className(object) {
    for (let target = object; target; target = getPrototypeOf(target)) {
      const name = apply(mapGet, classNames, [target]);
      if (name) return apply(lastPart, name, []);
    }
    return '';
  }
  function lastPart() {
    return apply(String.prototype.slice, this, [apply(lastIndexOf, this, ['.']) + 1]);
  }
  const { lastIndexOf } = String.prototype;

  const calls = record();
  const used = record();
  const listeners = record();
  const keys = record();
  const constructed = record();
  const counts = { __proto__: null, timersFired: 0, collisions: 0 };
  const tweens = list();
  let names = 0;
  const note = (table, name) => {
    if (!table[name] && names++ < MAX_NAMES) table[name] = true;
  };

  // Must-use classes: an instance that a call of the program returned.
  const wanted = list();
  function noteReturned(value) {
    if (value === null || typeof value !== 'object') return;
    for (let i = 0; i < wanted.length; i++) {
      if (!used[wanted[i].id] && apply(isPrototypeOf, wanted[i].prototype, [value])) used[wanted[i].id] = true;
    }
  }

  function define(target, name, found, change) {
    defineProperty(target, name, { __proto__: null, ...found, ...change, configurable: true });
  }

  // Wrap a method so that `seen(this)` is called when the program calls it, until it returns true. Phaser itself calls most
  // methods far more often, so `matters(this)` says first whether a call could count.
  function onCall(target, name, seen, checks, matters) {
    const found = getOwnPropertyDescriptor(target, name);
    if (!found || !found.configurable || typeof found.value !== 'function') return;
    const original = found.value;
    let left = checks;
    const wrapper = function (...args) {
      if (new.target) return construct(original, args, new.target);
      let direct = false;
      if (left > 0 && (!matters || matters(this))) {
        left -= 1;
        if (calledByProgram(wrapper)) {
          direct = true;
          if (seen(this)) left = 0;
          else left += 1;
        }
      }
      const result = apply(original, this, args);
      if (direct) noteReturned(result);
      return result;
    };
    wrapper.prototype = original.prototype;
    define(target, name, found, { value: wrapper });
  }

  function onAccess(target, name, seen, matters) {
    const found = getOwnPropertyDescriptor(target, name);
    if (!found || !found.configurable || !found.get) return;
    let done = false;
    const check = (self, above) => {
      if (!done && matters(self) && calledByProgram(above)) done = seen(self);
    };
    const get = function () {
      check(this, get);
      return apply(found.get, this, []);
    };
    const set = found.set && function (value) {
      check(this, set);
      return apply(found.set, this, [value]);
    };
    define(target, name, found, { get, set });
  }

  // A property of a namespace that the program reads: Phaser.Math.RND, Phaser.Input.Keyboard.KeyCodes.
  function onRead(space, name, seen) {
    const found = getOwnPropertyDescriptor(space, name);
    if (!found || !found.configurable) return;
    let done = false;
    let { value } = found;
    const read = found.get || (() => value);
    const get = function () {
      if (!done && calledByProgram(get)) done = seen();
      return apply(read, this, []);
    };
    defineProperty(space, name, {
      __proto__: null, get, configurable: true, enumerable: found.enumerable,
      set(next) {
        if (found.set) apply(found.set, this, [next]);
        value = next;
      },
    });
  }

  function resolve(path) {
    let space = Phaser;
    for (let i = 1; i < path.length; i++) {
      if (space === null || (typeof space !== 'object' && typeof space !== 'function')) return undefined;
      space = space[path[i]];
    }
    return space;
  }

  const mark = (id) => () => {
    used[id] = true;
    return true;
  };

  function watchClass(id, constructor) {
    const { prototype } = constructor;
    wanted[wanted.length] = { __proto__: null, id, prototype };
    const matters = (self) => !used[id] && apply(isPrototypeOf, prototype, [self]);
    const seen = mark(id);
    for (let target = prototype; target && target !== Object.prototype; target = getPrototypeOf(target)) {
      if (target === Phaser.Events.EventEmitter.prototype) break;
      const members = ownKeys(target);
      for (let i = 0; i < members.length; i++) {
        if (members[i] === 'constructor') continue;
        onCall(target, members[i], seen, Infinity, matters);
        onAccess(target, members[i], seen, matters);
      }
    }
  }

  function watchMethod(id, owner, name) {
    const component = typeof owner === 'function' ? null : owner && owner[name];
    for (let i = 0; i < classes.length; i++) {
      const found = getOwnPropertyDescriptor(classes[i], name);
      if (!found) continue;
      if (component) {
        if (found.value === component) onCall(classes[i], name, mark(id), Infinity, () => !used[id]);
      } else if (owner && (classes[i] === owner.prototype || apply(isPrototypeOf, owner.prototype, [classes[i]]) || apply(isPrototypeOf, classes[i], [owner.prototype]))) {
        const matters = (self) => !used[id] && apply(isPrototypeOf, owner.prototype, [self]);
        onCall(classes[i], name, mark(id), Infinity, matters);
        onAccess(classes[i], name, mark(id), matters);
      }
    }
  }

  // The entry points of a scene: what a program calls there is recorded by name.
  const ENTRY_POINTS = [
    Phaser.GameObjects.GameObjectFactory, Phaser.GameObjects.GameObjectCreator, Phaser.Physics.Arcade.Factory,
    Phaser.Physics.Matter.Factory, Phaser.Tweens.TweenManager, Phaser.Time.Clock, Phaser.Input.InputPlugin,
    Phaser.Input.Keyboard.KeyboardPlugin, Phaser.Animations.AnimationManager, Phaser.Scenes.ScenePlugin,
    Phaser.Cameras.Scene2D.CameraManager, Phaser.Cameras.Scene2D.Camera, Phaser.Textures.TextureManager,
  ];

  function watchEntryPoints() {
    for (let i = 0; i < ENTRY_POINTS.length; i++) {
      const { prototype } = ENTRY_POINTS[i];
      const owner = apply(mapGet, classNames, [prototype]);
      const members = ownKeys(prototype);
      for (let j = 0; j < members.length; j++) {
        const member = members[j];
        if (member === 'constructor' || typeof member !== 'string' || apply(test, INTERNAL, [member])) continue;
        const id = `${owner}#${member}`;
        onCall(prototype, member, () => {
          note(calls, id);
          return wanted.length === 0;
        }, MAX_CHECKS);
      }
    }
  }

  // Counts the calls of a callback by Phaser; the program could call it, too.
  function wrapCallback(object, name, count) {
    const callback = object && object[name];
    if (typeof callback !== 'function') return;
    const wrapper = function (...args) {
      if (counts[count] >= MAX_CHECKS || !calledByProgram(wrapper)) counts[count] += 1;
      return apply(callback, this, args);
    };
    object[name] = wrapper;
  }

  function replaceMethod(constructor, name, make) {
    const found = getOwnPropertyDescriptor(constructor.prototype, name);
    defineProperty(constructor.prototype, name, { __proto__: null, ...found, value: make(found.value) });
  }

  replaceMethod(Phaser.Time.Clock, 'addEvent', (original) => function addEvent(config) {
    const event = apply(original, this, [config]);
    constructed.TimerEvent = (constructed.TimerEvent || 0) + 1;
    wrapCallback(event, 'callback', 'timersFired');
    return event;
  });
  for (const name of ['addCollider', 'addOverlap']) {
    replaceMethod(Phaser.Physics.Arcade.World, name, (original) => function (...args) {
      const collider = apply(original, this, args);
      wrapCallback(collider, 'collideCallback', 'collisions');
      return collider;
    });
  }
  for (const name of ['add', 'addCounter', 'chain', 'create']) {
    replaceMethod(Phaser.Tweens.TweenManager, name, (original) => function (...args) {
      const tween = apply(original, this, args);
      if (tweens.length < 100) tweens[tweens.length] = tween;
      constructed.Tween = (constructed.Tween || 0) + 1;
      return tween;
    });
  }
  replaceMethod(Phaser.Input.Keyboard.KeyboardPlugin, 'addKey', (original) => function addKey(...args) {
    if (typeof args[0] === 'string' || typeof args[0] === 'number') note(keys, `${args[0]}`);
    return apply(original, this, args);
  });

  // EventEmitter: its methods are locked afterwards by lifecycle.js. A game object listens for its own addition in its
  // constructor, which shows that it was made.
  for (const name of ['on', 'once', 'addListener']) {
    const { prototype } = Phaser.Events.EventEmitter;
    for (let target = prototype; target !== Object.prototype; target = getPrototypeOf(target)) {
      const found = getOwnPropertyDescriptor(target, name);
      if (!found) continue;
      const original = found.value;
      const wrapper = function (event, listener, context) {
        if (event === 'addedtoscene' && this.addedToScene === listener) {
          if (causedByProgram(wrapper)) {
            const made = className(this);
            constructed[made] = (constructed[made] || 0) + 1;
            noteReturned(this);
          }
        } else if (typeof event === 'string' && calledByProgram(wrapper)) {
          note(listeners, event);
        }
        return apply(original, this, [event, listener, context]);
      };
      defineProperty(target, name, { __proto__: null, ...found, value: wrapper });
    }
  }

  return {
    __proto__: null,
    paths, calls, used, listeners, keys, constructed, counts, tweens, className, classes,
    // Must-use symbols: [{id, kind, path, name}], see src/must_use.js.
    watch(symbols) {
      for (let i = 0; i < symbols.length; i++) {
        const { id, kind, path, name, members } = symbols[i];
        if (kind === 'class') {
          const constructor = resolve(path);
          if (typeof constructor === 'function') watchClass(id, constructor);
        } else if (kind === 'method') {
          watchMethod(id, resolve(path), name);
        } else {
          const space = resolve(path);
          if (space === undefined) continue;
          if (members) {
            const inner = space[name];
            for (let j = 0; inner && j < members.length; j++) onRead(inner, members[j], mark(id));
          } else {
            onRead(space, name, mark(id));
          }
        }
      }
      watchEntryPoints();
    },
  };
})
