// What a 2D canvas shows: calls of drawing contexts are painted into small pictures, in which each cell knows its colour
// and the game object that painted it. An object is in the picture as far as it has cells that nothing painted over.
// In the realm of runtime.js there is no other canvas; nothing is painted but these pictures.
(function (cssColor, geometry, writing) {
  'use strict';
  const { parseColor: parseText } = cssColor;
  const { multiply, corners, boundsOf, widened, areaOf, point, arc, curve } = geometry;
  const { isInside, addLine, copyWords, dropWords } = writing;
  const { setPrototypeOf } = Object;
  const { apply, defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
  const { get: weakGet, set: weakSet } = WeakMap.prototype;
  const { get: mapGet, set: mapSet } = Map.prototype;
  const { get: mapSize } = getOwnPropertyDescriptor(Map.prototype, 'size');
  const { abs, atan2, ceil, cos, floor, hypot, imul, max, min, round, sin, sqrt } = Math;
  const { isFinite } = Number;
  const { fill: fillArray } = getPrototypeOf(Uint32Array.prototype);
  const { slice } = String.prototype;
  const { exec } = RegExp.prototype;
  const Colors = Uint32Array;
  const Ids = Uint16Array;
  const Shares = Float32Array;
  const RealMap = Map;
  const list = () => setPrototypeOf([], null);
  const record = (fields) => setPrototypeOf(fields, null);
  const MAX_CELLS = 1 << 19;
  const MAX_PAINTED = 60e6; // cells of one run
  const MAX_OBJECTS = 2000;
  const MAX_POINTS = 4000;
  const COVERED = 0.8; // of the box of a word
  const GROUND_SHARE = 0.1;
  const OPAQUE = 0.5;
  const FAINT = 0.08;
  const COVERED_CELL = 0.2;
  const IDENTITY = [1, 0, 0, 1, 0, 0];
  const FADES = /(?:opacity|brightness|contrast)\(\s*(?:0*(?:\.0\d*)?|0*\d(?:\.\d*)?%)\s*\)/; // a filter
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
  const states = new WeakMap(); // context -> state
  let measure = null; // the method of contexts that measures texts
  let main = null; // the canvas of the game
  let recording = false; // whether drawing on it is noted
  let painting = false; // and whether it is painted, too
  let pictured = null; // its surface in the last picture
  let painted = 0;
  let current = null; // the entry of the object that is being drawn
  let ids = list(); // entries of the frame that is recorded, by id - 1
  let entries = new RealMap(); // object -> entry, of that frame

  const finite = (value) => (typeof value === 'number' && isFinite(value) ? value : 0);

  function surfaceOf(canvas) {
    const width = max(1, finite(canvas.width));
    const height = max(1, finite(canvas.height));
    let surface = apply(weakGet, surfaces, [canvas]);
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

  function stateOf(context) {
    let state = apply(weakGet, states, [context]);
    if (!state) {
      state = record({ matrix: IDENTITY, clip: null, saved: list(), rings: list() });
      apply(weakSet, states, [context, state]);
    }
    return state;
  }

  // A style as [0xRRGGBB, alpha]; null for what has no colour.
  function parseColor(style) {
    if (style && typeof style === 'object') {
      if (typeof style.color === 'string') return parseColor(style.color); // a gradient
      const [color, share] = ink(apply(weakGet, surfaces, [style.image])); // a pattern
      return color < 0 ? [0, 0] : [color, share];
    }
    return parseText(style);
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
    if (before > 0 && before <= ids.length) ids[before - 1].cells -= 1;
    if (id > 0) ids[id - 1].cells += 1;
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

  function fillSpan(surface, from, to, value) {
    const { colors, ids: owners } = surface;
    apply(fillArray, colors, [value, from, to]);
    if (surface !== pictured || ids.length === 0) apply(fillArray, owners, [0, from, to]);
    else for (let place = from; place < to; place++) own(owners, place, 0);
  }

  function paintSpan(surface, row, from, to, color, alpha, entry, mode, mask) {
    if (row < 0 || row >= surface.rows) return;
    const first = max(0, from);
    const last = min(surface.columns - 1, to);
    if (last < first) return;
    painted += last - first + 1;
    if (painted > MAX_PAINTED) return;
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

  // Paints the area that the rings enclose.
  function paintRings(context, rings, color, alpha, clip) {
    const { canvas, globalCompositeOperation: mode } = context;
    if (!canvas || !isPaintedOn(canvas)) return;
    const surface = surfaceOf(canvas);
    allocate(surface);
    eraseAround(context, surface);
    const owner = canvas === main ? current : null;
    eachSpan(surface, rings, clip, (row, first, last) => paintSpan(surface, row, first, last, color, alpha, owner, mode, clip && clip.mask));
  }

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

  const addColor = (colors, color, weight) => apply(mapSet, colors, [color, (apply(mapGet, colors, [color]) || 0) + weight]);

  // Where and how the current object was drawn: its box on the canvas, and its box along its own axes.
  function note(context, rings, matrix, color, area) {
    if (!current || !recording || context.canvas !== main) return;
    current.area += area;
    for (let entry = current; entry; entry = entry.parent) entry.box = widened(entry.box, boundsOf(rings));
    if (current.draws === 0) current.angle = atan2(matrix[1], matrix[0]);
    current.draws += 1;
    const along = cos(current.angle);
    const across = sin(current.angle);
    for (let i = 0; i < rings.length; i++) {
      for (let j = 0; j < rings[i].length; j += 2) {
        const u = rings[i][j] * along + rings[i][j + 1] * across;
        const v = rings[i][j + 1] * along - rings[i][j] * across;
        current.local = widened(current.local, [u, v, u, v]);
      }
    }
    if (color >= 0) addColor(current.colors, color, area + 1);
  }

  const alphaOf = ({ globalAlpha, filter }) =>
    (typeof filter === 'string' && filter !== 'none' && apply(exec, FADES, [filter]) ? 0 : max(0, min(1, finite(globalAlpha))));

  function fillRings(context, state, rings, style) {
    const found = parseColor(style);
    if (!found || rings.length === 0) return;
    const alpha = alphaOf(context) * found[1];
    if (alpha < FAINT) return;
    if (alpha >= OPAQUE && context.canvas && context.canvas !== main) dropWords(surfaceOf(context.canvas), boundsOf(rings));
    note(context, rings, state.matrix, found[0], areaOf(rings));
    paintRings(context, rings, found[0], alpha, state.clip);
  }

  function clearBox(context, state, x, y, w, h) {
    const { canvas } = context;
    if (!canvas || !isPaintedOn(canvas)) return;
    const surface = surfaceOf(canvas);
    const box = boundsOf([corners(state.matrix, x, y, w, h)]);
    dropWords(surface, box);
    if (!surface.colors) return;
    const [left, top, right, bottom] = box;
    for (let row = max(0, round(top / surface.step)); row < min(surface.rows, round(bottom / surface.step)); row++) {
      const start = row * surface.columns;
      const from = start + max(0, round(left / surface.step));
      const to = start + min(surface.columns, round(right / surface.step));
      if (from < to) fillSpan(surface, from, to, 0);
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

  // The colour of an image with the tint of its object, which WebGL shows and a 2D canvas does not.
  function tinted(color, object) {
    const { tintTopLeft = object.particleTint, tintFill } = object;
    if (typeof tintTopLeft !== 'number' || tintTopLeft === 0xffffff) return color;
    return tintFill ? tintTopLeft & 0xffffff : mix(color, tintTopLeft & 0xffffff, 1, 'multiply');
  }

  function drawImage(context, state, image, numbers) {
    const { canvas } = context;
    if (!image || !canvas) return;
    const width = max(1, finite(image.width));
    const height = max(1, finite(image.height));
    const given = numbers.length;
    const [sx, sy, sw, sh] = given === 8 ? numbers : [0, 0, width, height];
    const [dx, dy] = given === 8 ? [numbers[4], numbers[5]] : numbers;
    const [dw, dh] = given === 8 ? [numbers[6], numbers[7]] : given === 4 ? [numbers[2], numbers[3]] : [width, height];
    const alpha = alphaOf(context);
    if (alpha < FAINT || !(dw !== 0 && dh !== 0) || !(sw > 0 && sh > 0)) return;
    const source = apply(weakGet, surfaces, [image]);
    const isCanvas = typeof image.getContext === 'function';
    if (isCanvas && !(source && source.colors) && !(source && source.words.length)) return; // nothing is drawn on it
    const ring = corners(state.matrix, dx, dy, dw, dh);
    const { matrix: m } = state;
    const isNoted = current !== null && recording && canvas === main;
    note(context, [ring], m, -1, areaOf([ring]));
    if (isCanvas && source) {
      const isShown = (at) => !isNoted || (isInside(at, [0, 0, canvas.width, canvas.height]) && (!state.clip || isInside(at, state.clip)));
      copyWords(source.words, isNoted ? current.words : surfaceOf(canvas).words, m, [sx, sy, sw, sh], [dx, dy, dw, dh], isShown);
    }
    if (!isPaintedOn(canvas)) return;
    const surface = surfaceOf(canvas);
    allocate(surface);
    eraseAround(context, surface);
    const { step } = surface;
    let box = boundsOf([ring]);
    if (state.clip) box = [max(box[0], state.clip[0]), max(box[1], state.clip[1]), min(box[2], state.clip[2]), min(box[3], state.clip[3])];
    const owner = canvas === main ? current : null;
    const mask = state.clip && state.clip.mask;
    const determinant = m[0] * m[3] - m[1] * m[2];
    if (abs(determinant) < 1e-9) return;
    const firstRow = max(0, floor(box[1] / step));
    const lastRow = min(surface.rows - 1, floor((box[3] - 1e-6) / step));
    const firstColumn = max(0, floor(box[0] / step));
    const lastColumn = min(surface.columns - 1, floor((box[2] - 1e-6) / step));
    painted += max(0, lastRow - firstRow + 1) * max(0, lastColumn - firstColumn + 1);
    if (painted > MAX_PAINTED) return;
    for (let row = firstRow; row <= lastRow; row++) {
      for (let column = firstColumn; column <= lastColumn; column++) {
        const x = max(box[0], min(box[2] - 1e-6, (column + 0.5) * step)) - m[4];
        const y = max(box[1], min(box[3] - 1e-6, (row + 0.5) * step)) - m[5];
        const u = (m[3] * x - m[2] * y) / determinant;
        const v = (m[0] * y - m[1] * x) / determinant;
        const [across, down] = [(u - dx) / dw, (v - dy) / dh];
        if (across < 0 || across >= 1 || down < 0 || down >= 1) continue;
        let color = 0xffffff; // of an image that was decoded, which only the defaults of Phaser are
        if (isCanvas) {
          const place =
            floor((sy + down * sh) / source.step) * source.columns + floor((sx + across * sw) / source.step);
          color = source.colors[place] - 1;
          if (!(color >= 0)) continue;
        }
        if (mask && !mask[row * surface.columns + column]) continue;
        if (isNoted) color = tinted(color, current.object);
        if (isNoted) addColor(current.colors, color, step * step);
        paintCell(surface, row * surface.columns + column, color, alpha, owner, context.globalCompositeOperation);
      }
    }
  }

  function readPixels(canvas, { data, width, height }, x, y) {
    const surface = apply(weakGet, surfaces, [canvas]);
    if (!surface || !surface.colors) return;
    const { step, columns, rows, colors } = surface;
    for (let down = 0; down < height; down++) {
      const row = floor((y + down) / step);
      for (let across = 0; across < width; across++) {
        const column = floor((x + across) / step);
        const value = row >= 0 && row < rows && column >= 0 && column < columns ? colors[row * columns + column] : 0;
        const at = 4 * (down * width + across);
        if (value) [data[at], data[at + 1], data[at + 2], data[at + 3]] = [(value - 1) >> 16, ((value - 1) >> 8) & 255, (value - 1) & 255, 255];
      }
    }
  }

  function putPixels(canvas, image, x, y) {
    if (!canvas || !image || !isPaintedOn(canvas)) return;
    const surface = surfaceOf(canvas);
    allocate(surface);
    const { data, width, height } = image;
    dropWords(surface, [x, y, x + width, y + height]);
    const { step, columns, rows } = surface;
    for (let row = max(0, floor(y / step)); row < min(rows, (y + height) / step); row++) {
      for (let column = max(0, floor(x / step)); column < min(columns, (x + width) / step); column++) {
        const [across, down] = [max(0, floor((column + 0.5) * step - x)), max(0, floor((row + 0.5) * step - y))];
        const at = 4 * (min(height - 1, down) * width + min(width - 1, across));
        const place = row * columns + column;
        const value = data[at + 3] < 255 * OPAQUE ? 0 : 1 + finite(data[at] * 65536 + data[at + 1] * 256 + data[at + 2]);
        if (surface.colors[place] === value) continue;
        own(surface.ids, place, 0);
        surface.colors[place] = value;
      }
    }
  }

  // Glyphs are not known: of the box of a text, about every second square of 2 x 2 pixels is painted. They are chosen by
  // a hash, as a regular pattern can vanish where a canvas is drawn at half of its size.
  const isInk = (x, y) => (((imul(x >> 1, 73856093) ^ imul(y >> 1, 19349663)) >>> 4) & 1) === 1;

  function drawText(context, state, text, x, y, style) {
    const { canvas } = context;
    const words = `${text}`;
    const found = parseColor(style);
    if (!canvas || !found || alphaOf(context) * found[1] < FAINT || words.length === 0) return;
    const surface = surfaceOf(canvas);
    const isNoted = current !== null && recording && canvas === main;
    const { width, actualBoundingBoxAscent: above, actualBoundingBoxDescent: below } = apply(measure, context, [words]);
    const { textAlign: align, direction } = context;
    const endsAt = align === 'right' || align === (direction === 'rtl' ? 'start' : 'end');
    const left = align === 'center' ? x - width / 2 : endsAt ? x - width : x;
    const top = context.textBaseline === 'top' ? y : y - above;
    const ring = corners(state.matrix, left, top, width, above + below);
    const box = boundsOf([ring]);
    note(context, [ring], state.matrix, found[0], areaOf([ring]) / 2);
    const addWords = () => addLine(isNoted ? current.words : surface.words, apply(slice, words, [0, 200]), state.matrix, left, top, width, above + below);
    if (!isPaintedOn(canvas)) {
      addWords();
      return;
    }
    allocate(surface);
    const alpha = alphaOf(context) * found[1];
    const [x1, y1, x2, y2] = box;
    let isReadable = false; // whether it has another colour than what is below it
    for (let row = max(0, floor(y1 / surface.step)); row <= min(surface.rows - 1, floor(y2 / surface.step)); row++) {
      for (let column = max(0, floor(x1 / surface.step)); column <= min(surface.columns - 1, floor(x2 / surface.step)); column++) {
        if (!isInk(column * surface.step, row * surface.step)) continue;
        const place = row * surface.columns + column;
        isReadable ||= !surface.colors[place] || differ(surface.colors[place] - 1, found[0]);
        paintCell(surface, place, found[0], alpha, canvas === main ? current : null, context.globalCompositeOperation);
      }
    }
    if (isReadable) addWords();
    painted += (y2 - y1) * (x2 - x1) / surface.step;
  }

  // A line as one quadrangle for each of its parts.
  function strokeRings(context, state, style) {
    const width = max(0.5, finite(context.lineWidth)) * sqrt(abs(state.matrix[0] * state.matrix[3] - state.matrix[1] * state.matrix[2]));
    const found = parseColor(style);
    if (!found) return;
    const alpha = alphaOf(context) * found[1];
    if (alpha < FAINT) return;
    const parts = list();
    for (let i = 0; i < state.rings.length; i++) {
      const ring = state.rings[i];
      const end = ring.closed ? ring.length : ring.length - 2;
      for (let j = 0; j < end && parts.length < MAX_POINTS; j += 2) {
        const x1 = ring[j];
        const y1 = ring[j + 1];
        const x2 = ring[(j + 2) % ring.length];
        const y2 = ring[(j + 3) % ring.length];
        const length = hypot(x2 - x1, y2 - y1);
        if (length === 0) continue;
        const ox = (-(y2 - y1) / length) * (width / 2);
        const oy = ((x2 - x1) / length) * (width / 2);
        parts[parts.length] = setPrototypeOf([x1 + ox, y1 + oy, x2 + ox, y2 + oy, x2 - ox, y2 - oy, x1 - ox, y1 - oy], null);
      }
    }
    if (parts.length === 0) return;
    note(context, state.rings, state.matrix, found[0], areaOf(parts));
    for (let i = 0; i < parts.length; i++) paintRings(context, [parts[i]], found[0], alpha, state.clip);
  }

  // A clip is a box. A path that fills its box only in part also has a mask of cells, on the canvas of the game.
  function clipBy({ canvas }, state) {
    const { rings, clip } = state;
    let box = boundsOf(rings);
    const whole = (box[2] - box[0]) * (box[3] - box[1]);
    if (clip) box = [max(box[0], clip[0]), max(box[1], clip[1]), min(box[2], clip[2]), min(box[3], clip[3])];
    if (clip && clip.mask) box.mask = clip.mask;
    if (canvas === main && painting && areaOf(rings) < 0.95 * whole) {
      const surface = surfaceOf(canvas);
      const mask = new Shares(surface.columns * surface.rows);
      eachSpan(surface, rings, box, (row, first, last) => {
        for (let column = max(0, first); column <= min(surface.columns - 1, last); column++) {
          const place = row * surface.columns + column;
          mask[place] = box.mask ? box.mask[place] : 1;
        }
      });
      box.mask = mask;
    }
    state.clip = box;
  }

  const KEPT = [
    'globalAlpha', 'lineWidth', 'globalCompositeOperation', 'fillStyle', 'strokeStyle', 'font', 'textAlign', 'textBaseline',
    'lineCap', 'lineJoin', 'miterLimit', 'imageSmoothingEnabled', 'shadowBlur', 'shadowOffsetX', 'shadowOffsetY', 'filter',
  ];
  const ACTIONS = {
    __proto__: null,
    save(context, state) {
      const values = list();
      for (let i = 0; i < KEPT.length; i++) values[i] = context[KEPT[i]];
      if (state.saved.length < 1000) state.saved[state.saved.length] = record({ matrix: state.matrix, clip: state.clip, values });
    },
    restore(context, state) {
      const { length } = state.saved;
      if (length === 0) return;
      const { matrix, clip, values } = state.saved[length - 1];
      state.saved.length = length - 1;
      state.matrix = matrix;
      state.clip = clip;
      for (let i = 0; i < KEPT.length; i++) context[KEPT[i]] = values[i];
    },
    setTransform(context, state, a, b, c, d, e, f) {
      state.matrix = a !== null && typeof a === 'object' ? [a.a, a.b, a.c, a.d, a.e, a.f] : [a, b, c, d, e, f];
    },
    resetTransform(context, state) {
      state.matrix = IDENTITY;
    },
    reset(context, state) {
      clearBox(context, record({ matrix: IDENTITY }), 0, 0, context.canvas.width, context.canvas.height);
      state.matrix = IDENTITY;
      state.clip = null;
      state.saved = list();
      state.rings = list();
    },
    transform(context, state, a, b, c, d, e, f) {
      state.matrix = multiply(state.matrix, a, b, c, d, e, f);
    },
    translate(context, state, x, y) {
      state.matrix = multiply(state.matrix, 1, 0, 0, 1, x, y);
    },
    scale(context, state, x, y) {
      state.matrix = multiply(state.matrix, x, 0, 0, y, 0, 0);
    },
    rotate(context, state, angle) {
      state.matrix = multiply(state.matrix, cos(angle), sin(angle), -sin(angle), cos(angle), 0, 0);
    },
    beginPath(context, state) {
      state.rings = list();
    },
    closePath(context, state) {
      const ring = state.rings[state.rings.length - 1];
      if (ring) ring.closed = true;
    },
    moveTo: (context, state, x, y) => point(state, x, y, true),
    lineTo: (context, state, x, y) => point(state, x, y, false),
    quadraticCurveTo: (context, state, ...numbers) => curve(state, numbers),
    bezierCurveTo: (context, state, ...numbers) => curve(state, numbers),
    arcTo: (context, state, x1, y1, x2, y2) => curve(state, [x1, y1, x2, y2]),
    arc: (context, state, x, y, radius, from, to, back) => arc(state, x, y, radius, radius, 0, from, to, back),
    ellipse: (context, state, x, y, radiusX, radiusY, rotation, from, to, back) => arc(state, x, y, radiusX, radiusY, rotation, from, to, back),
    rect(context, state, x, y, w, h) {
      point(state, x, y, true);
      point(state, x + w, y, false);
      point(state, x + w, y + h, false);
      point(state, x, y + h, false);
      ACTIONS.closePath(context, state);
    },
    roundRect: (context, state, x, y, w, h) => ACTIONS.rect(context, state, x, y, w, h),
    fill(context, state) {
      fillRings(context, state, state.rings, context.fillStyle);
    },
    stroke: (context, state) => strokeRings(context, state, context.strokeStyle),
    clip: (context, state) => clipBy(context, state),
    fillRect: (context, state, x, y, w, h) => fillRings(context, state, [corners(state.matrix, x, y, w, h)], context.fillStyle),
    strokeRect(context, state, x, y, w, h) {
      const { rings } = state;
      state.rings = list();
      ACTIONS.rect(context, state, x, y, w, h);
      strokeRings(context, state, context.strokeStyle);
      state.rings = rings;
    },
    clearRect: (context, state, x, y, w, h) => clearBox(context, state, x, y, w, h),
    fillText: (context, state, text, x, y) => drawText(context, state, text, x, y, context.fillStyle),
    strokeText: (context, state, text, x, y) => drawText(context, state, text, x, y, context.strokeStyle),
    drawImage: (context, state, image, ...numbers) => drawImage(context, state, image, numbers),
    putImageData: (context, state, image, x, y) => putPixels(context.canvas, image, finite(x), finite(y)),
  };

  // Objects of the display list are drawn by their method renderCanvas; those in a container within that of the container.
  function watchObjects(prototype) {
    const found = getOwnPropertyDescriptor(prototype, 'renderCanvas');
    if (!found || typeof found.value !== 'function') return;
    const original = found.value;
    const renderCanvas = function (renderer, object, camera, ...rest) {
      if (!recording) return apply(original, this, [renderer, object, camera, ...rest]);
      const before = current;
      current = entryOf(object, before, camera);
      try {
        return apply(original, this, [renderer, object, camera, ...rest]);
      } finally {
        current = before;
      }
    };
    defineProperty(prototype, 'renderCanvas', { __proto__: null, ...found, value: renderCanvas });
  }

  // The matrix of a camera and what it scrolled, while it draws.
  function viewOf(camera) {
    const { matrix, scrollX, scrollY } = camera || {};
    const numbers = (matrix && matrix.matrix) || IDENTITY;
    const view = list();
    for (let i = 0; i < 6; i++) view[i] = finite(numbers[i]);
    return [view[0], view[1], view[2], view[3], view[4], view[5], finite(scrollX), finite(scrollY)];
  }

  function entryOf(object, parent, camera) {
    const known = apply(mapGet, entries, [object]);
    if (known) return known;
    if (ids.length >= MAX_OBJECTS) return null;
    const entry = record({
      id: ids.length + 1, object, parent, view: viewOf(camera), cells: 0, faint: 0, shown: 0, box: null, local: null, angle: 0, draws: 0,
      colors: new RealMap(), seen: null, words: list(), text: '', area: 0,
    });
    ids[ids.length] = entry;
    apply(mapSet, entries, [object, entry]);
    return entry;
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

  return {
    __proto__: null,
    // Follow the drawing calls of all contexts, and the objects of these classes. The contexts of a browser draw, too.
    watch({ Context: { prototype }, drawsItself, onResize }, prototypes, hideSource) {
      // A context that says that another canvas is its own is not followed.
      const { get: canvasOf } = getOwnPropertyDescriptor(prototype, 'canvas');
      measure = prototype.measureText;
      for (const name in ACTIONS) {
        const action = ACTIONS[name];
        const original = drawsItself ? prototype[name] : null;
        const value = {
          [name](...numbers) {
            const canvas = apply(canvasOf, this, []);
            const result = original ? apply(original, this, numbers) : undefined;
            if (numbers.length <= 12 && canvas === this.canvas) action(this, stateOf(this), ...numbers);
            return result;
          },
        }[name];
        hideSource(value);
        defineProperty(prototype, name, { __proto__: null, writable: true, configurable: true, value });
      }
      const { getImageData } = prototype;
      if (!drawsItself) {
        prototype.getImageData = function (...numbers) {
          const image = apply(getImageData, this, numbers);
          readPixels(apply(canvasOf, this, []), image, finite(numbers[0]), finite(numbers[1]));
          return image;
        };
      }
      for (let i = 0; i < prototypes.length; i++) watchObjects(prototypes[i]);
      onResize((canvas) => apply(weakSet, surfaces, [canvas, undefined])); // it is empty then
    },
    start(canvas, isPainted) {
      if (!canvas) return;
      if (main !== canvas) apply(weakSet, surfaces, [canvas, undefined]);
      main = canvas;
      recording = true;
      painting = isPainted;
      current = null;
      ids = list();
      entries = new RealMap();
      if (!isPainted) return;
      pictured = surfaceOf(canvas);
      allocate(pictured);
      apply(fillArray, pictured.ids, [0, 0, pictured.ids.length]);
    },
    // The colour of most of the ground of the last picture, if enough of it can be seen.
    ground() {
      const [color, share] = ink(pictured, true);
      return share < GROUND_SHARE ? -1 : color;
    },
    // What was drawn since `start`: entries with their texts, and with the area of them that can be seen, in square pixels,
    // if it was painted.
    end() {
      const found = ids;
      const isPainted = painting && pictured;
      let hasSeveral = false; // whether an object was painted in several colours, of which it may show only some
      for (let i = 0; i < found.length && !hasSeveral; i++) hasSeveral = found[i].cells > 0 && apply(mapSize, found[i].colors, []) > 1;
      if (isPainted && hasSeveral) {
        const { ids: owners, inks } = pictured;
        for (let i = 0, next = 0; i < owners.length; i = next) {
          const id = owners[i];
          for (next = i + 1; next < owners.length && owners[next] === id && (id === 0 || inks[next] === inks[i]); ) next += 1;
          if (id > 0 && id <= found.length) addColor((found[id - 1].seen ||= new RealMap()), inks[i], next - i);
        }
      }
      const area = isPainted ? pictured.step * pictured.step : 0;
      for (let i = 0; i < found.length; i++) {
        const { words, cells, faint } = found[i];
        found[i].shown = (cells + faint) * area;
        for (let j = 0; j < words.length; j++) {
          if (!isPainted || !isCovered(words[j].box, found[i].id)) found[i].text += `${found[i].text && ' '}${words[j].text}`;
        }
      }
      recording = painting = false;
      current = null;
      return found;
    },
  };
})
