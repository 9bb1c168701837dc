// Virtual time for a realm: timers, animation frames, Date, performance and Math.random. Evaluated before Phaser and
// before the program, in a vm context or in a page. Returns the clock, which only the observer holds.
(function (global) {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply, construct, defineProperty, getOwnPropertyDescriptor, ownKeys } = Reflect;
  const { get: weakGet, set: weakSet, has: weakHas } = WeakMap.prototype;
  const { floor, max, imul } = Math;
  const FRAME_MS = 1000 / 60;
  const FIRST_MS = 1704067200000; // the runs of different programs begin within five years from then
  const SPAN_MS = 157680000000;
  const MAX_CALLBACKS_PER_FRAME = 5000;

  // Lists without a prototype: a program that changes Array.prototype does not change them.
  const list = () => setPrototypeOf([], null);
  let now = 0;
  let nextId = 1;
  let timers = list();
  let animationFrames = list();
  let onError = null;

  function insert(timer) {
    let at = timers.length;
    while (at > 0 && timers[at - 1].time > timer.time) {
      timers[at] = timers[at - 1];
      at -= 1;
    }
    timers[at] = timer;
  }

  function addTimer(callback, delay, args, repeats) {
    if (typeof callback !== 'function') throw new TypeError('a timer needs a function');
    delay = max(1, floor(+delay || 0));
    const id = nextId++;
    insert({ __proto__: null, id, time: now + delay, callback, args, interval: repeats ? delay : 0 });
    return id;
  }

  function removeTimer(id) {
    const kept = list();
    for (let i = 0; i < timers.length; i++) if (timers[i].id !== id) kept[kept.length] = timers[i];
    timers = kept;
  }

  function run(callback, self, args) {
    try {
      apply(callback, self, args);
    } catch (error) {
      onError(error);
    }
  }

  function shift() {
    const first = timers[0];
    const rest = list();
    for (let i = 1; i < timers.length; i++) rest[i - 1] = timers[i];
    timers = rest;
    return first;
  }

  // Advances by one frame and runs the timers that are due, in order.
  function runTimers(failed) {
    const end = now + FRAME_MS;
    let left = MAX_CALLBACKS_PER_FRAME;
    while (timers.length > 0 && timers[0].time <= end && left-- > 0 && !failed()) {
      const timer = shift();
      now = max(now, timer.time);
      if (timer.interval > 0) {
        timer.time = now + timer.interval;
        insert(timer);
      }
      run(timer.callback, undefined, timer.args);
    }
    now = end;
  }

  // Runs the animation frame callbacks that were requested before.
  function runAnimationFrames(failed) {
    const due = animationFrames;
    animationFrames = list();
    for (let i = 0; i < due.length && !failed(); i++) if (due[i].callback) run(due[i].callback, undefined, [now]);
  }

  // Functions of the environment show no source, as those of a browser.
  const shownAs = new WeakMap();
  const { toString: sourceOf } = Function.prototype;
  const toString = {
    toString() {
      return apply(weakGet, shownAs, [this]) || apply(sourceOf, this, []);
    },
  }.toString;
  defineProperty(Function.prototype, 'toString', { __proto__: null, value: toString, writable: true, configurable: true });
  function hideSource(value) {
    const isFunction = typeof value === 'function';
    if ((!isFunction && (typeof value !== 'object' || value === null)) || value === global || apply(weakHas, shownAs, [value])) return;
    apply(weakSet, shownAs, [value, isFunction ? `function ${value.name}() { [native code] }` : '']);
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const found = getOwnPropertyDescriptor(value, keys[i]);
      hideSource(found.get);
      hideSource(found.set);
      hideSource(found.value);
    }
  }
  hideSource(toString);

  const publish = (name, value) => {
    hideSource(value);
    return defineProperty(global, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
  };
  publish('setTimeout', function setTimeout(callback, delay, ...args) {
    return addTimer(callback, delay, args, false);
  });
  publish('setInterval', function setInterval(callback, delay, ...args) {
    return addTimer(callback, delay, args, true);
  });
  publish('clearTimeout', function clearTimeout(id) {
    removeTimer(id);
  });
  publish('clearInterval', function clearInterval(id) {
    removeTimer(id);
  });
  publish('requestAnimationFrame', function requestAnimationFrame(callback) {
    const id = nextId++;
    animationFrames[animationFrames.length] = { __proto__: null, id, callback };
    return id;
  });
  publish('cancelAnimationFrame', function cancelAnimationFrame(id) {
    for (let i = 0; i < animationFrames.length; i++) if (animationFrames[i].id === id) animationFrames[i].callback = null;
  });
  publish('requestIdleCallback', function requestIdleCallback(callback) {
    return addTimer(callback, 1, [{ didTimeout: false, timeRemaining: () => 10 }], false);
  });
  let epoch = FIRST_MS;
  publish('performance', {
    [Symbol.toStringTag]: 'Performance',
    now: () => now,
    get timeOrigin() {
      return epoch;
    },
    mark() {},
    measure() {},
    getEntriesByName: () => [],
    getEntriesByType: () => [],
  });

  const RealDate = global.Date;
  const VirtualDate = function Date(...args) {
    if (!new.target) return apply(RealDate.prototype.toString, new RealDate(epoch + now), []);
    return construct(RealDate, args.length === 0 ? [epoch + now] : args, new.target);
  };
  VirtualDate.prototype = RealDate.prototype;
  VirtualDate.UTC = RealDate.UTC;
  VirtualDate.parse = RealDate.parse;
  VirtualDate.now = () => floor(epoch + now);
  defineProperty(RealDate.prototype, 'constructor', { __proto__: null, value: VirtualDate, writable: true, configurable: true });
  publish('Date', VirtualDate);

  // mulberry32
  let state = 1;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = imul(state ^ (state >>> 15), 1 | state);
    t = (t + imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  hideSource(random);
  defineProperty(global.Math, 'random', { __proto__: null, value: random, writable: true, configurable: true });

  return {
    __proto__: null,
    runTimers,
    runAnimationFrames,
    addTimer,
    raise: (error) => onError(error),
    now: () => now,
    hideSource,
    seed(value) {
      state = value | 0;
      epoch = FIRST_MS + floor((imul(state, 0x9e3779b1) >>> 0) * (SPAN_MS / 4294967296));
    },
    catchErrors(handler) {
      onError = handler;
    },
  };
})(globalThis);
