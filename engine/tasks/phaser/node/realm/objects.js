// The objects of a game that a frame draws: where each is drawn, in which colours, and which words it shows.
(function (geometry, pictures) {
  'use strict';
  const { widened, boundsOf } = geometry;
  const { finite, isMain, mix, begin, addSeenColors, isCovered, cellArea } = pictures;
  const { setPrototypeOf } = Object;
  const { apply, defineProperty, getOwnPropertyDescriptor } = Reflect;
  const { get: mapGet, set: mapSet } = Map.prototype;
  const { get: mapSize } = getOwnPropertyDescriptor(Map.prototype, 'size');
  const { atan2, cos, sin } = Math;
  const RealMap = Map;
  const list = () => setPrototypeOf([], null);
  const record = (fields) => setPrototypeOf(fields, null);
  const MAX_OBJECTS = 2000;
  const IDENTITY = [1, 0, 0, 1, 0, 0];
  let recording = false; // whether drawing on the canvas of the game is noted
  let current = null; // the entry of the object that is being drawn
  let ids = list(); // entries of the frame that is recorded, by id - 1
  let entries = new RealMap(); // object -> entry, of that frame

  const addColor = (colors, color, weight) => apply(mapSet, colors, [color, (apply(mapGet, colors, [color]) || 0) + weight]);

  // Where and how the current object was drawn: its box on the canvas, and its box along its own axes.
  function note(context, rings, matrix, color, area) {
    if (noted(context.canvas) === null) return;
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

  // The object that is being drawn on a canvas, if it is that of the game.
  const owner = (canvas) => (isMain(canvas) ? current : null);
  const noted = (canvas) => (recording ? owner(canvas) : null);

  // The colour of an image with the tint of its object, which WebGL shows and a 2D canvas does not.
  function tinted(color, object) {
    const { tintTopLeft = object.particleTint, tintFill } = object;
    if (typeof tintTopLeft !== 'number' || tintTopLeft === 0xffffff) return color;
    return tintFill ? tintTopLeft & 0xffffff : mix(color, tintTopLeft & 0xffffff, 1, 'multiply');
  }

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

  function start(canvas, isPainted) {
    if (!canvas) return;
    recording = true;
    current = null;
    ids = list();
    entries = new RealMap();
    begin(canvas, isPainted, ids);
  }

  // What was drawn since `start`: entries with their texts, and with the area of them that can be seen, in square pixels,
  // if it was painted.
  function end() {
    const found = ids;
    const area = cellArea();
    let hasSeveral = false; // whether an object was painted in several colours, of which it may show only some
    for (let i = 0; i < found.length && !hasSeveral; i++) hasSeveral = found[i].cells > 0 && apply(mapSize, found[i].colors, []) > 1;
    if (area && hasSeveral) addSeenColors(addColor);
    for (let i = 0; i < found.length; i++) {
      const { words, cells, faint } = found[i];
      found[i].shown = (cells + faint) * area;
      for (let j = 0; j < words.length; j++) {
        if (!area || !isCovered(words[j].box, found[i].id)) found[i].text += `${found[i].text && ' '}${words[j].text}`;
      }
    }
    recording = false;
    pictures.end();
    current = null;
    return found;
  }

  return { __proto__: null, note, addColor, owner, noted, tinted, watchObjects, start, end, ground: pictures.ground };
})
