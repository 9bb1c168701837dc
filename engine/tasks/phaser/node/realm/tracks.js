// The objects of a game over its frames: where they were drawn, in which colours, and in which pictures they could be
// seen. Pictures are frames in which it is examined which objects can be seen, see pictures.js.
(function (lifecycle, uses) {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply } = Reflect;
  const RealMap = Map;
  const { get: mapGet, set: mapSet, forEach: mapForEach } = Map.prototype;
  const { isFinite } = Number;
  const { abs, hypot, max, min, round, PI } = Math;
  const MAX_TRACKED = 600; // objects, and frames of each
  const SEEN_SHARE = 0.1; // of the area that an object covers
  const MAX_COLORS = 24;
  const SMALLEST = 4; // square pixels
  const SHORTEST = 8; // frames for which an object has to be seen
  const LASTING = 0.6; // of the pictures since its first
  const MOVING = 1.5; // steps between the outermost places of an object, at least, for it to have a speed
  const SHAKING = 12; // times that it goes to and fro between them, at most
  const FALLING = 12; // frames that it falls, at least, to have an acceleration

  const list = () => setPrototypeOf([], null);
  const number = (value) => (typeof value === 'number' && isFinite(value) ? value : 0);
  const read = (make) => {
    try {
      return make();
    } catch {
      return 0;
    }
  };
  let taken = 0;
  let wasSeen = false;
  let tracked = 0;
  const trackOf = new RealMap();
  const of = (object) => apply(mapGet, trackOf, [object]);

  function track(object) {
    let found = of(object);
    if (!found && tracked < MAX_TRACKED) {
      found = { __proto__: null, object, seen: list(), xs: list(), ys: list(), colors: list(), from: -1, since: lifecycle.frames(), first: null, last: null };
      tracked += 1;
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
    const said = uses.className(object) === 'Star' ? abs(number(read(say))) : drawn;
    return drawn >= 0.8 * said && drawn <= said + 1 ? said : drawn;
  }

  // Keeps where an object was drawn. `seen` is told what could be seen of it, if the frame is a picture.
  function note(entry, isPicture, seen) {
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
    seen(`${uses.className(entry.object)}|${round(entry.box[0])}|${round(entry.box[1])}|${round(entry.box[2])}|${round(entry.box[3])}|${color}|${text}`);
    for (let one = entry; one; one = one.parent) {
      const outer = track(one.object) || found;
      if (outer.seen[outer.seen.length - 1] !== taken) outer.seen[outer.seen.length] = taken;
      if (outer.from < 0) outer.from = lifecycle.frames();
    }
  }

  // Whether an object could be seen in most pictures since the first one with it.
  function lasts(object) {
    const found = of(object);
    if (!found || found.seen.length === 0) return false;
    if (lifecycle.frames() - found.from < min(SHORTEST, (lifecycle.frames() - 1) / 4)) return false;
    return found.seen.length >= LASTING * (taken - found.seen[0] + 1) && found.seen.length >= min(2, taken);
  }

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

  return {
    __proto__: null,
    of,
    note,
    lasts,
    speed,
    acceleration,
    reach,
    maxColors: MAX_COLORS,
    wasSeen: () => wasSeen,
    takePicture() {
      taken += 1;
    },
  };
})
