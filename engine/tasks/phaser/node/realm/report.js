// The state of a game as JSON text, and the driver that the host steps. All values are read defensively: the program
// may have replaced any of them. The text is put together by hand, because JSON.stringify calls toJSON methods.
(function (clock, dom, Phaser, uses, lifecycle, objects, tracks, global) {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply, ownKeys } = Reflect;
  const { parse, stringify } = JSON;
  const RealMap = Map;
  const { get: mapGet, set: mapSet } = Map.prototype;
  const { slice, charCodeAt } = String.prototype;
  const { isFinite } = Number;
  const { abs, max, min, round, imul } = Math;
  const { isPrototypeOf } = Object.prototype;
  const { KeyCodes } = Phaser.Input.Keyboard;
  const { prototype: shapePrototype } = Phaser.GameObjects.Shape;
  const MAX_OBJECTS = 5000;
  const MAX_SHOWN = 300;
  const MAX_SIGNAL_CHARS = 20000;
  const RUNNING = 5;
  const TEXTS = { __proto__: null, Text: true, BitmapText: true, DynamicBitmapText: true };
  const DEFAULT_TEXTURES = { __proto__: null, __DEFAULT: true, __MISSING: true, __WHITE: true, __NORMAL: true };

  const list = () => setPrototypeOf([], null);
  const number = (value) => (typeof value === 'number' && isFinite(value) ? value : 0);
  const count = (value) => (value >= 0 && value < 1e9 ? round(number(value)) : 0);
  const string = (value) => stringify(typeof value === 'string' ? apply(slice, value, [0, 200]) : '');
  const read = (make, otherwise) => {
    try {
      return make();
    } catch {
      return otherwise;
    }
  };

  function object(fields) {
    const names = ownKeys(fields);
    let text = '{';
    for (let i = 0; i < names.length; i++) text += `${i ? ',' : ''}${stringify(names[i])}:${fields[names[i]]}`;
    return `${text}}`;
  }
  function array(values, show, limit) {
    let text = '[';
    for (let i = 0; i < values.length && i < limit; i++) text += `${i ? ',' : ''}${show(values[i])}`;
    return `${text}]`;
  }
  const names = (table) => array(ownKeys(table), string, 500);
  function numbers(table) {
    const shown = { __proto__: null };
    const keys = ownKeys(table);
    for (let i = 0; i < keys.length; i++) shown[keys[i]] = count(table[keys[i]]);
    return object(shown);
  }

  // Calls visit(object, parent) for the objects of a display list, and for those in containers and layers on it. `parent`
  // is the class of the container or layer; '' on the list itself. Each object counts once.
  function visitObjects(children, visit) {
    let left = MAX_OBJECTS;
    const known = new RealMap();
    const walk = (all, depth, parent) => {
      for (let i = 0; all && i < all.length && left > 0; i++) {
        left -= 1;
        if (apply(mapGet, known, [all[i]])) continue;
        apply(mapSet, known, [all[i], true]);
        visit(all[i], parent);
        if (depth < 4 && all[i] && all[i].list && typeof all[i].list === 'object') walk(all[i].list, depth + 1, uses.className(all[i]));
      }
    };
    walk(children, 0, '');
  }

  const size = (set) => (set ? count(set.size) || count(set.length) || count(set.entries && set.entries.length) : 0);

  let pictures = { __proto__: null }; // the numbers of the frames in which it is examined which objects can be seen
  let wasSeen = false; // by what objects say of themselves

  // A game with WebGL draws nothing that can be followed: what its objects say of themselves has to do.
  const isFollowed = () => !dom.drawsItself || read(() => !firstGame().renderer.gl, true);
  const isShown = (object, camera) => (isFollowed() ? tracks.lasts(object) : isSeen(object, camera));

  const tenths = (value) => `${round(10 * max(-1e6, min(1e6, number(value)))) / 10}`;

  function drawnText(object) {
    const { colors, first, last, xs, ys, inside, since } = tracks.of(object);
    return object_({
      type: string(uses.className(object) || 'Object'), inside: string(inside), colors: array(colors, count, tracks.maxColors),
      width: tenths(last.width), height: tenths(last.height), first_width: tenths(first.width), angle: tenths(last.angle),
      dx: tenths(last.x - first.x), dy: tenths(last.y - first.y), speed_x: tenths(tracks.speed(xs)), speed_y: tenths(tracks.speed(ys)),
      fall: tenths(tracks.acceleration(ys)), since: tenths((1000 * since) / 60), reach_x: tenths(tracks.reach(xs)), reach_y: tenths(tracks.reach(ys)), zoom: tenths(100 * last.zoom), text: string(last.text),
    });
  }
  const object_ = (fields) => object(setPrototypeOf(fields, null));

  // Colour and size of a shape as it was drawn; without WebGL only.
  function shapeText(shape) {
    const found = tracks.of(shape);
    if (found && found.last) return object_({ color: found.colors.length ? count(found.colors[found.colors.length - 1]) : -1, width: count(found.last.width), height: count(found.last.height) });
    const color = read(() => (shape.isFilled ? shape.fillColor : shape.isStroked ? shape.strokeColor : -1), -1);
    const [width, height] = read(() => [shape.displayWidth, shape.displayHeight], [0, 0]);
    return object_({ color: color >= 0 && color <= 0xffffff ? count(color) : -1, width: count(width), height: count(height) });
  }
  const textOf = (child) => {
    const found = tracks.of(child);
    return found && found.last && found.last.text ? found.last.text : isFollowed() && uses.className(child) === 'Text' ? '' : child.text;
  };

  function sceneText(state) {
    const { scene, sys } = state;
    const types = { __proto__: null };
    const inside = { __proto__: null };
    const texts = list();
    const shapes = list();
    let shown = 0;
    const camera = read(() => sys.cameras.main, null);
    read(() => visitObjects(sys.displayList.list, (child, parent) => {
      const name = uses.className(child) || 'Object';
      shown += 1;
      if (!read(() => isShown(child, camera), false)) return;
      types[name] = (types[name] || 0) + 1;
      if (parent) inside[parent] = (inside[parent] || 0) + 1;
      if (TEXTS[name] && texts.length < MAX_SHOWN) texts[texts.length] = read(() => textOf(child));
      if (shapes.length < MAX_SHOWN && apply(isPrototypeOf, shapePrototype, [child])) shapes[shapes.length] = shapeText(child);
    }));
    const matter = read(() => (scene.matter && scene.matter.world ? scene.matter.world.localWorld.bodies : null), null);
    return object({
      __proto__: null,
      key: string(read(() => sys.settings.key, '')),
      created: count(state.created),
      updates: count(state.updates),
      active: read(() => sys.settings.status === RUNNING, false) ? 'true' : 'false',
      display_list: shown,
      objects: numbers(types),
      inside: numbers(inside),
      texts: array(texts, string, MAX_SHOWN),
      shapes: array(shapes, (shape) => shape, MAX_SHOWN),
      bodies: read(() => size(scene.physics.world.bodies), 0) + (matter ? count(matter.length) : 0),
      static_bodies: read(() => size(scene.physics.world.staticBodies), 0),
      timers: read(() => size(sys.time._active) + size(sys.time._pendingInsertion), 0),
      tweens: read(() => size(sys.tweens.tweens), 0),
    });
  }

  function allObjects(visit) {
    for (let i = 0; i < lifecycle.scenes.length; i++) read(() => visitObjects(lifecycle.scenes[i].sys.displayList.list, visit));
  }
  const ended = () => {
    const found = list();
    const known = new RealMap();
    allObjects((child) => read(() => {
      if (!tracks.lasts(child) || apply(mapGet, known, [child])) return;
      apply(mapSet, known, [child, true]);
      found[found.length] = child;
    }));
    return found;
  };
  function changed(differs) {
    let number_ = 0;
    const all = ended();
    for (let i = 0; i < all.length; i++) if (differs(tracks.of(all[i]))) number_ += 1;
    return number_;
  }
  // Both edges moved, in one direction: what only grew or turned, such as a text that got longer, did not move.
  const wentAlong = (first, last, place, half) => {
    const low = last[place] - last[half] - (first[place] - first[half]);
    const high = last[place] + last[half] - (first[place] + first[half]);
    return min(abs(low), abs(high)) > 0.5 && low > 0 === high > 0;
  };
  const moved = () => changed(({ first, last }) => wentAlong(first, last, 'x', 'half_x') || wentAlong(first, last, 'y', 'half_y'));
  const changedTexts = () => changed(({ object: child, first, last }) => uses.className(child) === 'Text' && first.text !== last.text);

  // Whether an object says of itself that it can be seen: not hidden, not transparent, not outside of the picture. Objects
  // whose size is not known, such as drawings, count as inside.
  function isSeen(child, camera) {
    if (!child || child.visible === false || child.alpha === 0 || child.scaleX === 0 || child.scaleY === 0) return false;
    if (typeof child.isFilled === 'boolean' && typeof child.isStroked === 'boolean') {
      if (!(child.isFilled && child.fillAlpha > 0) && !(child.isStroked && child.strokeAlpha > 0)) return false;
    }
    const { displayWidth: width, displayHeight: height } = child;
    if (typeof width !== 'number' || typeof height !== 'number' || !camera) return true;
    const reachX = max(camera.width, camera.displayWidth) / 2 + abs(width);
    const reachY = max(camera.height, camera.displayHeight) / 2 + abs(height);
    const isNear = (x, y) => abs(child.x - x) <= reachX && abs(child.y - y) <= reachY;
    return isNear(camera.midPoint.x, camera.midPoint.y) || isNear(camera.centerX, camera.centerY);
  }

  // Examine the frame that was drawn.
  function look(isPicture) {
    const found = objects.end();
    if (isPicture) tracks.takePicture();
    const isOpen = isPicture && read(() => dom.isShown(firstGame().canvas), false);
    for (let i = 0; i < found.length; i++) read(() => tracks.note(found[i], isOpen, addToDigest));
    if (isFollowed()) return;
    for (let i = 0; i < lifecycle.scenes.length && !tracks.wasSeen() && !wasSeen; i++) {
      const { sys } = lifecycle.scenes[i];
      const all = read(() => sys.displayList.list, null);
      const camera = read(() => sys.cameras.main, null);
      for (let j = 0; all && j < all.length && j < MAX_OBJECTS && !wasSeen; j++) wasSeen = read(() => isSeen(all[j], camera), true);
    }
  }

  // The published state of the program as JSON text; null if there is none.
  function signals() {
    return read(() => {
      const value = global.__signals__;
      const text = value === undefined ? undefined : stringify(value);
      return typeof text === 'string' && text.length <= MAX_SIGNAL_CHARS ? stringify(text) : 'null';
    }, 'null');
  }

  // A hash of what a player could see in the pictures, and of the scenes and their cameras: FNV-1a.
  let hash = 0x811c9dc5;
  function addToDigest(text) {
    for (let i = 0; i < text.length; i++) hash = imul(hash ^ apply(charCodeAt, text, [i]), 0x01000193);
  }
  function digest() {
    if (!isFollowed()) {
      allObjects((child) => read(() => {
        const word = typeof child.text === 'string' ? child.text : '';
        addToDigest(`${uses.className(child)}|${number(child.x)}|${number(child.y)}|${number(child.rotation)}|${number(child.alpha)}|` +
          `${number(child.scaleX)}|${number(child.scaleY)}|${number(child.fillColor)}|${child.visible ? 1 : 0}|${word}`);
      }));
    }
    for (let i = 0; i < lifecycle.scenes.length; i++) {
      const { sys } = lifecycle.scenes[i];
      read(() => addToDigest(`${number(sys.settings.status)}|${number(sys.cameras.main.scrollX)}|${number(sys.cameras.main.scrollY)}|${number(sys.cameras.main.zoom)}|${lifecycle.scenes[i].created}`));
    }
    return `${hash >>> 0}`;
  }

  let isPicture = null; // of the frame that is drawn; null for none
  let startSignals = 'null';
  let buttons = 0;
  const firstGame = () => lifecycle.games[0] && lifecycle.games[0].game;

  return {
    __proto__: null,
    prepare(text) {
      const options = parse(text);
      clock.seed(options.seed);
      uses.watch(options.mustUse);
      for (let i = 0; i < options.pictures.length; i++) pictures[options.pictures[i]] = true;
    },
    scriptError: (error) => lifecycle.fail('script', error),
    loaded: () => lifecycle.loaded(),
    // Both halves of a frame return whether to go on.
    timers: () => lifecycle.timers(),
    animate() {
      isPicture = lifecycle.isCreated() && pictures[lifecycle.frames()] === true;
      objects.start(read(() => firstGame().canvas, null), isPicture);
      return lifecycle.animate();
    },
    // A frame ends when the promises of its animation are settled.
    look() {
      if (isPicture === null) return;
      look(isPicture);
      isPicture = null;
      if (lifecycle.frames() === 1) startSignals = signals();
    },
    hasGame: () => lifecycle.games.length > 0,
    isCreated: () => lifecycle.isCreated(),
    key(type, name) {
      const code = KeyCodes[name];
      if (code !== undefined) lifecycle.guard(() => dom.key(type, code, name));
    },
    pointer(type, x, y, relative) {
      const game = firstGame();
      if (!game) return;
      const width = read(() => number(game.scale.width), 0);
      const height = read(() => number(game.scale.height), 0);
      const event = { __proto__: null, pointerdown: 'mousedown', pointerup: 'mouseup', pointermove: 'mousemove', wheel: 'wheel' }[type];
      if (type === 'pointerdown') buttons = 1;
      if (type === 'pointerup') buttons = 0;
      const scale = read(() => number(game.scale.displayScale.x), 0) || 1;
      const [left, top] = type === 'wheel' ? [0, 0] : [relative ? x * width : x, relative ? y * height : y];
      lifecycle.guard(() => dom.pointer(event, game.canvas, left / scale, top / scale, buttons, type === 'wheel' ? y : 0));
    },
    outcome() {
      const { name, message, frame } = lifecycle.outcome();
      return object({ __proto__: null, outcome: string(name), message: string(message), frame });
    },
    report() {
      const game = firstGame();
      const tweenRan = () => {
        for (let i = 0; i < uses.tweens.length; i++) if (read(() => uses.tweens[i].totalElapsed > 0 || uses.tweens[i].elapsed > 0, false)) return true;
        return false;
      };
      const textures = { __proto__: null };
      read(() => {
        const keys = ownKeys(game.textures.list);
        for (let i = 0; i < keys.length && i < 500; i++) if (!DEFAULT_TEXTURES[keys[i]] && typeof keys[i] === 'string') textures[keys[i]] = true;
      });
      const animations = { __proto__: null };
      read(() => {
        const keys = ownKeys(game.anims.anims.entries);
        for (let i = 0; i < keys.length && i < 500; i++) animations[keys[i]] = true;
      });
      return object({
        __proto__: null,
        frames: count(lifecycle.frames()),
        renderer: string(read(() => (game.renderer && game.renderer.gl ? 'webgl' : 'canvas'), 'canvas')),
        width: count(read(() => game.scale.width, 0)),
        height: count(read(() => game.scale.height, 0)),
        scenes: array(lifecycle.scenes, (state) => read(() => sceneText(state), '{"key":""}'), 50),
        constructed: numbers(uses.constructed),
        textures: names(textures),
        animations: names(animations),
        timers_fired: count(uses.counts.timersFired),
        objects_seen: tracks.wasSeen() || wasSeen ? 'true' : 'false',
        tween_updates: tweenRan() ? 'true' : 'false',
        collisions: count(uses.counts.collisions),
        ground: read(() => (objects.ground() < 0 ? -1 : count(objects.ground())), -1),
        drawn: array(ended(), drawnText, MAX_SHOWN),
        moved: count(moved()),
        changed_texts: count(changedTexts()),
        listeners: names(uses.listeners),
        keys: names(uses.keys),
        calls: names(uses.calls),
        must_use: names(uses.used),
        external_assets: array(dom.requests, string, 20),
        console: array(dom.logs, string, 50),
        signals_text: signals(),
        signals_at_start_text: startSignals,
        digest: digest(),
      });
    },
  };
})
