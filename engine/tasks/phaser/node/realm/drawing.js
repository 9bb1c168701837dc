// What a 2D canvas shows: calls of drawing contexts are painted into small pictures, and noted for the object that is drawn.
// In the realm of runtime.js there is no other canvas; nothing is painted but these pictures.
(function (cssColor, geometry, writing, pictures, objects) {
  'use strict';
  const { parseColor: parseText } = cssColor;
  const { multiply, corners, boundsOf, areaOf, point, arc, curve } = geometry;
  const { isInside, addLine, copyWords, dropWords } = writing;
  const {
    OPAQUE, finite, surfaceOf, knownSurface, forget, allocate, isMain, isPaintedOn, isSpent, differ, own, paintCell, fillSpan, paintSpan,
    eraseAround, eachSpan, ink, maskOf,
  } = pictures;
  const { note, addColor, owner, noted, tinted, watchObjects } = objects;
  const { setPrototypeOf } = Object;
  const { apply, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const { get: weakGet, set: weakSet } = WeakMap.prototype;
  const { abs, cos, floor, hypot, imul, max, min, round, sin, sqrt } = Math;
  const { slice } = String.prototype;
  const { exec } = RegExp.prototype;
  const list = () => setPrototypeOf([], null);
  const record = (fields) => setPrototypeOf(fields, null);
  const MAX_POINTS = 4000;
  const FAINT = 0.08;
  const IDENTITY = [1, 0, 0, 1, 0, 0];
  const FADES = /(?:opacity|brightness|contrast)\(\s*(?:0*(?:\.0\d*)?|0*\d(?:\.\d*)?%)\s*\)/; // a filter
  const states = new WeakMap(); // context -> state
  let measure = null; // the method of contexts that measures texts

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
      const [color, share] = ink(knownSurface(style.image)); // a pattern
      return color < 0 ? [0, 0] : [color, share];
    }
    return parseText(style);
  }

  // Paints the area that the rings enclose.
  function paintRings(context, rings, color, alpha, clip) {
    const { canvas, globalCompositeOperation: mode } = context;
    if (!canvas || !isPaintedOn(canvas)) return;
    const surface = surfaceOf(canvas);
    allocate(surface);
    eraseAround(context, surface);
    const entry = owner(canvas);
    eachSpan(surface, rings, clip, (row, first, last) => paintSpan(surface, row, first, last, color, alpha, entry, mode, clip && clip.mask));
  }

  const alphaOf = ({ globalAlpha, filter }) =>
    (typeof filter === 'string' && filter !== 'none' && apply(exec, FADES, [filter]) ? 0 : max(0, min(1, finite(globalAlpha))));

  function fillRings(context, state, rings, style) {
    const found = parseColor(style);
    if (!found || rings.length === 0) return;
    const alpha = alphaOf(context) * found[1];
    if (alpha < FAINT) return;
    if (alpha >= OPAQUE && context.canvas && !isMain(context.canvas)) dropWords(surfaceOf(context.canvas), boundsOf(rings));
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
    const source = knownSurface(image);
    const isCanvas = typeof image.getContext === 'function';
    if (isCanvas && !(source && source.colors) && !(source && source.words.length)) return; // nothing is drawn on it
    const ring = corners(state.matrix, dx, dy, dw, dh);
    const { matrix: m } = state;
    const entry = noted(canvas);
    note(context, [ring], m, -1, areaOf([ring]));
    if (isCanvas && source) {
      const isShown = (at) => entry === null || (isInside(at, [0, 0, canvas.width, canvas.height]) && (!state.clip || isInside(at, state.clip)));
      copyWords(source.words, entry ? entry.words : surfaceOf(canvas).words, m, [sx, sy, sw, sh], [dx, dy, dw, dh], isShown);
    }
    if (!isPaintedOn(canvas)) return;
    const surface = surfaceOf(canvas);
    allocate(surface);
    eraseAround(context, surface);
    const { step } = surface;
    let box = boundsOf([ring]);
    if (state.clip) box = [max(box[0], state.clip[0]), max(box[1], state.clip[1]), min(box[2], state.clip[2]), min(box[3], state.clip[3])];
    const painter = owner(canvas);
    const mask = state.clip && state.clip.mask;
    const determinant = m[0] * m[3] - m[1] * m[2];
    if (abs(determinant) < 1e-9) return;
    const firstRow = max(0, floor(box[1] / step));
    const lastRow = min(surface.rows - 1, floor((box[3] - 1e-6) / step));
    const firstColumn = max(0, floor(box[0] / step));
    const lastColumn = min(surface.columns - 1, floor((box[2] - 1e-6) / step));
    if (isSpent(max(0, lastRow - firstRow + 1) * max(0, lastColumn - firstColumn + 1))) return;
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
        if (entry) {
          color = tinted(color, entry.object);
          addColor(entry.colors, color, step * step);
        }
        paintCell(surface, row * surface.columns + column, color, alpha, painter, context.globalCompositeOperation);
      }
    }
  }

  function readPixels(canvas, { data, width, height }, x, y) {
    const surface = knownSurface(canvas);
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
    const entry = noted(canvas);
    const { width, actualBoundingBoxAscent: above, actualBoundingBoxDescent: below } = apply(measure, context, [words]);
    const { textAlign: align, direction } = context;
    const endsAt = align === 'right' || align === (direction === 'rtl' ? 'start' : 'end');
    const left = align === 'center' ? x - width / 2 : endsAt ? x - width : x;
    const top = context.textBaseline === 'top' ? y : y - above;
    const ring = corners(state.matrix, left, top, width, above + below);
    const box = boundsOf([ring]);
    note(context, [ring], state.matrix, found[0], areaOf([ring]) / 2);
    const addWords = () => addLine(entry ? entry.words : surface.words, apply(slice, words, [0, 200]), state.matrix, left, top, width, above + below);
    if (!isPaintedOn(canvas)) {
      addWords();
      return;
    }
    allocate(surface);
    const alpha = alphaOf(context) * found[1];
    const [x1, y1, x2, y2] = box;
    const painter = owner(canvas);
    let isReadable = false; // whether it has another colour than what is below it
    for (let row = max(0, floor(y1 / surface.step)); row <= min(surface.rows - 1, floor(y2 / surface.step)); row++) {
      for (let column = max(0, floor(x1 / surface.step)); column <= min(surface.columns - 1, floor(x2 / surface.step)); column++) {
        if (!isInk(column * surface.step, row * surface.step)) continue;
        const place = row * surface.columns + column;
        isReadable ||= !surface.colors[place] || differ(surface.colors[place] - 1, found[0]);
        paintCell(surface, place, found[0], alpha, painter, context.globalCompositeOperation);
      }
    }
    if (isReadable) addWords();
    isSpent((y2 - y1) * (x2 - x1) / surface.step);
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
    if (isMain(canvas) && isPaintedOn(canvas) && areaOf(rings) < 0.95 * whole) {
      const surface = surfaceOf(canvas);
      const mask = maskOf(surface);
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

  // Follow the drawing calls of all contexts, and the objects of these classes. The contexts of a browser draw, too.
  function watch({ Context: { prototype }, drawsItself, onResize }, prototypes, hideSource) {
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
    const { getImageData: blank } = prototype;
    if (!drawsItself) {
      prototype.getImageData = function getImageData(...numbers) {
        const image = apply(blank, this, numbers);
        readPixels(apply(canvasOf, this, []), image, finite(numbers[0]), finite(numbers[1]));
        return image;
      };
      hideSource(prototype.getImageData);
    }
    for (let i = 0; i < prototypes.length; i++) watchObjects(prototypes[i]);
    onResize(forget); // it is empty then
  }

  return { __proto__: null, watch };
})
