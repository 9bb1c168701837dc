// Small pictures of canvases, in which each cell knows its colour and the game object that painted it. An object is in the
// picture as far as it has cells that nothing painted over.
(function () {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply, getPrototypeOf } = Reflect;
  const { get: weakGet, set: weakSet } = WeakMap.prototype;
  const { get: mapGet, set: mapSet } = Map.prototype;
  const { abs, ceil, floor, max, min, round, sqrt } = Math;
  const { isFinite } = Number;
  const { fill: fillArray } = getPrototypeOf(Uint32Array.prototype);
  const Colors = Uint32Array;
  const Ids = Uint16Array;
  const Shares = Float32Array;
  const RealMap = Map;
  const list = () => setPrototypeOf([], null);
  const record = (fields) => setPrototypeOf(fields, null);
  const MAX_CELLS = 1 << 19;
  const MAX_PAINTED = 60e6; // cells of one run
  const COVERED = 0.8; // of the box of a word
  const GROUND_SHARE = 0.1;
  const OPAQUE = 0.5;
  const COVERED_CELL = 0.2;
  // What globalCompositeOperation does in a cell that is empty, and in one that is not: nothing, P(aint) or E(rase).
  const COMPOSITE = {
    __proto__: null, 'source-atop': ' P', 'source-in': ' P', 'destination-over': 'P ', 'destination-in': '  ',
    'destination-atop': 'P ', 'destination-out': ' E', 'source-out': 'PE', xor: 'PE',
  };
  // Those that also erase all that is outside of what they paint.
  const ERASING = { __proto__: null, 'source-in': true, 'source-out': true, 'destination-in': true, 'destination-atop': true, copy: true };
  const BLENDS = {
    __proto__: null, multiply: (below, above) => (below * above) / 255, darken: min, lighten: max,
    screen: (below, above) => 255 - ((255 - below) * (255 - above)) / 255, lighter: (below, above) => min(255, below + above),
    difference: (below, above) => abs(below - above),
  };
  const surfaces = new WeakMap(); // canvas -> surface
  let main = null; // the canvas of the game
  let painting = false; // whether it is painted
  let pictured = null; // its surface in the last picture
  let painted = 0;
  let entries = list(); // of the objects that are drawn in this frame, by id - 1

  const finite = (value) => (typeof value === 'number' && isFinite(value) ? value : 0);
  const knownSurface = (canvas) => apply(weakGet, surfaces, [canvas]);
  const forget = (canvas) => apply(weakSet, surfaces, [canvas, undefined]);
  const isMain = (canvas) => canvas === main;

  function surfaceOf(canvas) {
    const width = max(1, finite(canvas.width));
    const height = max(1, finite(canvas.height));
    let surface = knownSurface(canvas);
    if (surface && surface.width === width && surface.height === height) return surface;
    const step = max(1, ceil(sqrt((width * height) / MAX_CELLS)), canvas === main ? 3 : 1);
    const columns = ceil(width / step);
    const rows = ceil(height / step);
    surface = record({ width, height, step, columns, rows, colors: null, ids: null, inks: null, through: null, words: list(), wordColor: -1, solid: -1 });
    apply(weakSet, surfaces, [canvas, surface]);
    return surface;
  }

  function allocate(surface) {
    if (surface.colors) return;
    surface.colors = new Colors(surface.columns * surface.rows); // 0: transparent, else 1 + colour
    surface.ids = new Ids(surface.columns * surface.rows);
  }

  function allocateOwned(surface) {
    surface.inks = new Colors(surface.columns * surface.rows); // colours that the owners have, without what is below
    surface.through = new Shares(surface.columns * surface.rows); // of the owner's light, by translucent objects on it; 0: all
  }

  const mix = (below, above, alpha, mode) => {
    const blend = BLENDS[mode];
    const part = (shift) => {
      const [one, other] = [(below >> shift) & 255, (above >> shift) & 255];
      return round(one * (1 - alpha) + (blend ? blend(one, other) : other) * alpha) << shift;
    };
    return part(16) | part(8) | part(0);
  };
  const differ = (one, other) =>
    abs((one >> 16) - (other >> 16)) + abs(((one >> 8) & 255) - ((other >> 8) & 255)) + abs((one & 255) - (other & 255)) > 24;

  // Makes an object, or the ground (0), the owner of a cell.
  function own(owners, place, id) {
    const before = owners[place];
    if (before === id) return;
    if (before > 0 && before <= entries.length) entries[before - 1].cells -= 1;
    if (id > 0) entries[id - 1].cells += 1;
    owners[place] = id;
  }

  // One cell. A translucent colour lets what is below be seen; a colour like that of the ground cannot be seen.
  function paintCell(surface, place, color, alpha, entry, mode) {
    const { colors, ids: owners } = surface;
    const before = colors[place];
    const action = COMPOSITE[mode] ? COMPOSITE[mode][before ? 1 : 0] : 'P';
    if (action === 'E') {
      own(owners, place, 0);
      colors[place] = 0;
    }
    if (action !== 'P') return;
    const next = before && (alpha < 0.99 || BLENDS[mode]) ? mix(before - 1, color, alpha, mode) : color;
    if (entry) {
      if (before && owners[place] === 0 && !differ(next, before - 1)) return;
      if (!surface.inks) allocateOwned(surface);
      const { through, inks } = surface;
      const isOver = alpha < OPAQUE && owners[place] !== 0 && owners[place] !== entry.id;
      const left = isOver ? (1 - alpha) * (through[place] || 1) : 0;
      through[place] = left < COVERED_CELL ? 0 : left;
      if (left < COVERED_CELL) {
        own(owners, place, entry.id);
        inks[place] = color;
      } else entry.faint += 1;
    } else if (alpha >= OPAQUE) {
      own(owners, place, 0);
    }
    colors[place] = next + 1;
  }

  // Counts cells that are painted; whether a run has painted as many as it may.
  function isSpent(cells) {
    painted += cells;
    return painted > MAX_PAINTED;
  }

  function fillSpan(surface, from, to, value) {
    const { colors, ids: owners } = surface;
    apply(fillArray, colors, [value, from, to]);
    if (surface !== pictured || entries.length === 0) apply(fillArray, owners, [0, from, to]);
    else for (let place = from; place < to; place++) own(owners, place, 0);
  }

  function paintSpan(surface, row, from, to, color, alpha, entry, mode, mask) {
    if (row < 0 || row >= surface.rows) return;
    const first = max(0, from);
    const last = min(surface.columns - 1, to);
    if (last < first) return;
    if (isSpent(last - first + 1)) return;
    const start = row * surface.columns;
    if (!entry && alpha >= 0.99 && !mask && !COMPOSITE[mode] && !BLENDS[mode]) {
      fillSpan(surface, start + first, start + last + 1, color + 1);
      return;
    }
    for (let column = first; column <= last; column++) {
      if (!mask || mask[start + column]) paintCell(surface, start + column, color, alpha, entry, mode);
    }
  }

  // The canvas of a game shows nothing that such an operation leaves outside. On other canvases it is a means to draw.
  function eraseAround({ canvas, globalCompositeOperation: mode }, surface) {
    if (canvas === main && ERASING[mode]) fillSpan(surface, 0, surface.colors.length, 0);
  }

  const isPaintedOn = (canvas) => canvas !== main || painting;

  // Calls visit(row, first, last) for the cells in the area that the rings, lists of points in pixels, enclose by the
  // nonzero rule.
  function eachSpan(surface, rings, clip, visit) {
    const { step } = surface;
    let top = Infinity;
    let bottom = -Infinity;
    for (let i = 0; i < rings.length; i++) {
      for (let j = 1; j < rings[i].length; j += 2) {
        top = min(top, rings[i][j]);
        bottom = max(bottom, rings[i][j]);
      }
    }
    if (clip) {
      top = max(top, clip[1]);
      bottom = min(bottom, clip[3]);
    }
    const firstRow = max(0, floor(top / step));
    const lastRow = min(surface.rows - 1, floor(bottom / step));
    for (let row = firstRow; row <= lastRow; row++) {
      let y = (row + 0.5) * step;
      if (bottom - top < step) y = (top + bottom) / 2; // lower than a cell
      else if (y < top || y > bottom) continue;
      const crossings = list();
      for (let i = 0; i < rings.length; i++) {
        const ring = rings[i];
        const size = ring.length;
        for (let j = 0; j < size; j += 2) {
          const x1 = ring[j];
          const y1 = ring[j + 1];
          const x2 = ring[(j + 2) % size];
          const y2 = ring[(j + 3) % size];
          if (y1 <= y === y2 <= y) continue;
          let at = crossings.length;
          const x = x1 + ((y - y1) / (y2 - y1)) * (x2 - x1);
          for (; at > 0 && crossings[at - 1][0] > x; at--) crossings[at] = crossings[at - 1];
          crossings[at] = [x, y1 <= y ? 1 : -1];
        }
      }
      let winding = 0;
      for (let i = 0; i + 1 < crossings.length; i++) {
        winding += crossings[i][1];
        if (winding === 0) continue;
        let from = crossings[i][0];
        let to = crossings[i + 1][0];
        if (clip) {
          from = max(from, clip[0]);
          to = min(to, clip[2]);
        }
        if (to < from) continue;
        let first = ceil(from / step - 0.5);
        let last = ceil(to / step - 0.5) - 1;
        if (last < first) first = last = floor((from + to) / 2 / step); // narrower than a cell
        visit(row, first, last);
      }
    }
  }

  // The colour that most cells of a picture have, -1 if it is empty, and the share of its cells that have a colour. The
  // ground is what no object has painted.
  function ink(surface, isGround) {
    if (!surface || !surface.colors) return [-1, 0];
    const counts = new RealMap();
    let best = -1;
    let most = 0;
    let all = 0;
    const stride = max(1, floor(surface.colors.length / 4096));
    for (let i = 0; i < surface.colors.length; i += stride) {
      const value = surface.colors[i];
      if (!value || (isGround && surface.ids[i] !== 0)) continue;
      all += 1;
      const count = (apply(mapGet, counts, [value]) || 0) + 1;
      apply(mapSet, counts, [value, count]);
      if (count > most) [best, most] = [value - 1, count];
    }
    return [best, (all * stride) / surface.colors.length];
  }

  // Whether objects that were drawn later than one lie on a box.
  function isCovered([left, top, right, bottom], id) {
    const { step, columns, rows, ids: owners } = pictured;
    let [all, others] = [0, 0];
    for (let row = max(0, floor(top / step)); row < min(rows, bottom / step); row++) {
      for (let column = max(0, floor(left / step)); column < min(columns, right / step); column++) {
        all += 1;
        if (owners[row * columns + column] > id) others += 1;
      }
    }
    return others > COVERED * all;
  }

  const maskOf = (surface) => new Shares(surface.columns * surface.rows);

  // The colour of most of the ground of the last picture, if enough of it can be seen.
  function ground() {
    const [color, share] = ink(pictured, true);
    return share < GROUND_SHARE ? -1 : color;
  }

  // Adds to each object the colours that it shows in the picture, by their cells.
  function addSeenColors(addColor) {
    const { ids: owners, inks } = pictured;
    for (let i = 0, next = 0; i < owners.length; i = next) {
      const id = owners[i];
      for (next = i + 1; next < owners.length && owners[next] === id && (id === 0 || inks[next] === inks[i]); ) next += 1;
      if (id > 0 && id <= entries.length) addColor((entries[id - 1].seen ||= new RealMap()), inks[i], next - i);
    }
  }

  // Begins a frame of the canvas of the game, whose objects get their entries in a list.
  function begin(canvas, isPainted, objects) {
    if (main !== canvas) forget(canvas);
    main = canvas;
    painting = isPainted;
    entries = objects;
    if (!isPainted) return;
    pictured = surfaceOf(canvas);
    allocate(pictured);
    apply(fillArray, pictured.ids, [0, 0, pictured.ids.length]);
  }

  return {
    __proto__: null,
    OPAQUE, finite, surfaceOf, knownSurface, forget, allocate, isMain, isPaintedOn, isSpent, mix, differ, own, paintCell, fillSpan, paintSpan,
    eraseAround, eachSpan, ink, maskOf, begin, addSeenColors, isCovered, ground,
    // The area of a cell of the picture in square pixels; 0 if the canvas of the game is not painted.
    cellArea: () => (painting && pictured ? pictured.step * pictured.step : 0),
    end() {
      painting = false;
    },
  };
})
