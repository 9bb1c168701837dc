// The state of a game as JSON text, and the driver that the host steps. All values are read defensively: the program
// may have replaced any of them. The text is put together by hand, because JSON.stringify calls toJSON methods.
(function (clock, dom, Phaser, uses, lifecycle, drawing, global) {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply, ownKeys } = Reflect;
  const { parse, stringify } = JSON;
  const RealMap = Map;
  const { get: mapGet, set: mapSet, forEach: mapForEach } = Map.prototype;
  const { slice, charCodeAt } = String.prototype;
  const { isFinite } = Number;
  const { abs, hypot, max, min, round, imul, PI } = Math;
  const { isPrototypeOf } = Object.prototype;
  const { KeyCodes } = Phaser.Input.Keyboard;
  const { prototype: shapePrototype } = Phaser.GameObjects.Shape;
  const MAX_OBJECTS = 5000;
  const MAX_SHOWN = 300;
  const MAX_TRACKED = 600; // objects, and frames of each
  const SEEN_SHARE = 0.1; // of the area that an object covers
  const MAX_COLORS = 24;
  const SMALLEST = 4; // square pixels
  const SHORTEST = 8; // frames for which an object has to be seen
  const LASTING = 0.6; // of the pictures since its first
  const MOVING = 1.5; // steps between the outermost places of an object, at least, for it to have a speed
  const SHAKING = 12; // times that it goes to and fro between them, at most
  const FALLING = 12; // frames that it falls, at least, to have an acceleration
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

  // Pictures: frames in which it is examined which objects can be seen, see drawing.js.
  let pictures = { __proto__: null };
  let taken = 0;
  let wasSeen = false;
  const tracks = list();
  const trackOf = new RealMap();

  function track(object) {
    let found = apply(mapGet, trackOf, [object]);
    if (!found && tracks.length < MAX_TRACKED) {
      found = { __proto__: null, object, seen: list(), xs: list(), ys: list(), colors: list(), from: -1, since: lifecycle.frames(), first: null, last: null };
      tracks[tracks.length] = found;
      apply(mapSet, trackOf, [object, found]);
    }
    return found;
  }

  // Where the centre of a box of the canvas lies in the world that a camera showed, and by how much it magnified.
  function inWorld(box, [a, b, c, d, e, f, scrollX, scrollY]) {
    const [x, y] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
    const determinant = a * d - b * c;
    const left = (d * (x - e) - c * (y - f)) / determinant + scrollX;
    const top = (a * (y - f) - b * (x - e)) / determinant + scrollY;
    return isFinite(left) && isFinite(top) ? [left, top, hypot(a, b)] : [x, y, 1];
  }

  function mainColor(colors) {
    let color = -1;
    let most = 0;
    apply(mapForEach, colors, [(weight, value) => {
      if (weight > most) [color, most] = [value, weight];
    }]);
    return color;
  }

  // A star does not fill its box: the size that it says it has counts if what was drawn is nearly as large.
  function sizeOf(object, drawn, say) {
    const said = uses.className(object) === 'Star' ? abs(number(read(say, 0))) : drawn;
    return drawn >= 0.8 * said && drawn <= said + 1 ? said : drawn;
  }

  function note(entry, isPicture) {
    if (!entry.box) return;
    const found = track(entry.object);
    if (!found) return;
    const [x, y, zoom] = inWorld(entry.box, entry.view);
    if (found.xs.length < MAX_TRACKED) {
      found.xs[found.xs.length] = x;
      found.ys[found.ys.length] = y;
    }
    const { local, object: shown } = entry;
    const sizes = local ? [sizeOf(shown, (local[2] - local[0]) / zoom, () => shown.displayWidth), sizeOf(shown, (local[3] - local[1]) / zoom, () => shown.displayHeight)] : [0, 0];
    const { text } = entry;
    found.last = {
      __proto__: null, x, y, zoom, text, half_x: (entry.box[2] - entry.box[0]) / zoom / 2, half_y: (entry.box[3] - entry.box[1]) / zoom / 2, angle: (entry.angle * 180) / PI,
      width: sizes[0], height: sizes[1],
    };
    found.first = found.first || found.last;
    found.inside = entry.parent ? uses.className(entry.parent.object) : '';
    if (!isPicture) return;
    const color = mainColor(entry.seen || entry.colors);
    const { colors } = found;
    if (color >= 0 && colors[colors.length - 1] !== color && colors.length < MAX_COLORS) colors[colors.length] = color;
    if (entry.draws === 0 || entry.area < SMALLEST || entry.shown < max(SMALLEST, SEEN_SHARE * entry.area)) return;
    wasSeen = true;
    addToDigest(`${uses.className(entry.object)}|${round(entry.box[0])}|${round(entry.box[1])}|${round(entry.box[2])}|${round(entry.box[3])}|${color}|${text}`);
    for (let one = entry; one; one = one.parent) {
      const seen = track(one.object) || found;
      if (seen.seen[seen.seen.length - 1] !== taken) seen.seen[seen.seen.length] = taken;
      if (seen.from < 0) seen.from = lifecycle.frames();
    }
  }

  // Whether an object could be seen in most pictures since the first one with it.
  function lasts(object) {
    const found = apply(mapGet, trackOf, [object]);
    if (!found || found.seen.length === 0) return false;
    if (lifecycle.frames() - found.from < min(SHORTEST, (lifecycle.frames() - 1) / 4)) return false;
    return found.seen.length >= LASTING * (taken - found.seen[0] + 1) && found.seen.length >= min(2, taken);
  }

  // A game with WebGL draws nothing that can be followed: what its objects say of themselves has to do.
  const isFollowed = () => !dom.drawsItself || read(() => !firstGame().renderer.gl, true);
  const isShown = (object, camera) => (isFollowed() ? lasts(object) : isSeen(object, camera));

  function median(values) {
    const sorted = list();
    for (let i = 0; i < values.length; i++) {
      let at = sorted.length;
      for (; at > 0 && sorted[at - 1] > values[i]; at--) sorted[at] = sorted[at - 1];
      sorted[at] = values[i];
    }
    return sorted.length ? sorted[(sorted.length - 1) >> 1] : 0;
  }
  // Pixels per second: the median of the frames in which it moves; 0 for what gets nowhere, such as a shake.
  function speed(values) {
    const steps = list();
    let path = 0;
    for (let i = 1; i < values.length; i++) {
      const step = abs(values[i] - values[i - 1]);
      if (step > 0.02) steps[steps.length] = step;
      path += step;
    }
    const step = median(steps);
    return reach(values) < max(MOVING * step, path / SHAKING) ? 0 : 60 * step;
  }
  // Pixels per second squared: the median change of the speed from frame to frame, where it changes.
  function acceleration(values) {
    const changes = list();
    for (let i = 2; i < values.length; i++) {
      const change = values[i] - 2 * values[i - 1] + values[i - 2];
      if (abs(change) > 0.02) changes[changes.length] = change;
    }
    const change = median(changes);
    return reach(values) < (abs(change) * FALLING * FALLING) / 2 ? 0 : 3600 * change;
  }
  function reach(values) {
    let [low, high] = [Infinity, -Infinity];
    for (let i = 0; i < values.length; i++) [low, high] = [min(low, values[i]), max(high, values[i])];
    return values.length ? high - low : 0;
  }
  const tenths = (value) => `${round(10 * max(-1e6, min(1e6, number(value)))) / 10}`;

  function drawnText(object) {
    const { colors, first, last, xs, ys, inside, since } = apply(mapGet, trackOf, [object]);
    return object_({
      type: string(uses.className(object) || 'Object'), inside: string(inside), colors: array(colors, count, MAX_COLORS),
      width: tenths(last.width), height: tenths(last.height), first_width: tenths(first.width), angle: tenths(last.angle),
      dx: tenths(last.x - first.x), dy: tenths(last.y - first.y), speed_x: tenths(speed(xs)), speed_y: tenths(speed(ys)),
      fall: tenths(acceleration(ys)), since: tenths((1000 * since) / 60), reach_x: tenths(reach(xs)), reach_y: tenths(reach(ys)), zoom: tenths(100 * last.zoom), text: string(last.text),
    });
  }
  const object_ = (fields) => object(setPrototypeOf(fields, null));

  // Colour and size of a shape as it was drawn; without WebGL only.
  function shapeText(shape) {
    const found = apply(mapGet, trackOf, [shape]);
    if (found && found.last) return object_({ color: found.colors.length ? count(found.colors[found.colors.length - 1]) : -1, width: count(found.last.width), height: count(found.last.height) });
    const color = read(() => (shape.isFilled ? shape.fillColor : shape.isStroked ? shape.strokeColor : -1), -1);
    const [width, height] = read(() => [shape.displayWidth, shape.displayHeight], [0, 0]);
    return object_({ color: color >= 0 && color <= 0xffffff ? count(color) : -1, width: count(width), height: count(height) });
  }
  const textOf = (child) => {
    const found = apply(mapGet, trackOf, [child]);
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
      if (!lasts(child) || apply(mapGet, known, [child])) return;
      apply(mapSet, known, [child, true]);
      found[found.length] = child;
    }));
    return found;
  };
  function changed(differs) {
    let number_ = 0;
    const all = ended();
    for (let i = 0; i < all.length; i++) if (differs(apply(mapGet, trackOf, [all[i]]))) number_ += 1;
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
    const found = drawing.end();
    if (isPicture) taken += 1;
    const isOpen = isPicture && read(() => dom.isShown(firstGame().canvas), false);
    for (let i = 0; i < found.length; i++) read(() => note(found[i], isOpen));
    if (isFollowed()) return;
    for (let i = 0; i < lifecycle.scenes.length && !wasSeen; i++) {
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
      drawing.start(read(() => firstGame().canvas, null), isPicture);
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
        objects_seen: wasSeen ? 'true' : 'false',
        tween_updates: tweenRan() ? 'true' : 'false',
        collisions: count(uses.counts.collisions),
        ground: read(() => (drawing.ground() < 0 ? -1 : count(drawing.ground())), -1),
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
