// The words that are drawn on a canvas, with their boxes and the size of their letters, to know which of them can be read.
(function (geometry) {
  'use strict';
  const { corners, boundsOf, widened } = geometry;
  const { setPrototypeOf } = Object;
  const { apply } = Reflect;
  const { abs, hypot, min } = Math;
  const { slice } = String.prototype;
  const MAX_WORDS = 60;
  const SMALLEST_LETTER = 5; // pixels
  const list = () => setPrototypeOf([], null);
  const record = (fields) => setPrototypeOf(fields, null);

  const middle = ([left, top, right, bottom]) => [(left + right) / 2, (top + bottom) / 2];
  const isInside = ([x, y], [left, top, right, bottom]) => x >= left && x <= right && y >= top && y <= bottom;

  // A text that is stroked and filled is there once. Letters that are drawn one by one are one word.
  function addWord(words, text, box, size) {
    if (!(size >= SMALLEST_LETTER)) return;
    for (let i = 0; i < words.length; i++) if (words[i].text === text && words[i].box[0] === box[0] && words[i].box[1] === box[1]) return;
    const last = words[words.length - 1];
    if (text.length === 1 && last && last.box[1] === box[1] && box[0] >= last.tail && box[0] - last.box[2] < 0.7 * (box[2] - box[0])) {
      if (box[0] > last.tail) [last.text, last.box] = [last.text + text, widened(last.box, box)];
      last.tail = box[0];
    } else if (words.length < MAX_WORDS) {
      words[words.length] = record({ text, box, size, tail: text.length === 1 ? box[0] : Infinity });
    }
  }

  function dropWords(surface, box) {
    const kept = list();
    const { words } = surface;
    for (let i = 0; i < words.length; i++) if (!isInside(middle(words[i].box), box)) kept[kept.length] = words[i];
    surface.words = kept;
  }

  // The words of a line of text.
  function addLine(words, text, matrix, x, y, width, height) {
    const letter = width / text.length;
    const size = min(height * hypot(matrix[2], matrix[3]), 2 * letter * hypot(matrix[0], matrix[1]));
    for (let start = 0, end = 0; start < text.length; start = end + 1) {
      for (end = start; end < text.length && text[end] !== ' '; ) end += 1;
      const box = boundsOf([corners(matrix, x + letter * start, y, letter * (end - start), height)]);
      if (end > start) addWord(words, apply(slice, text, [start, end]), box, size);
    }
  }

  // The words of a part of a canvas that is drawn on another one, in the matrix of the latter.
  function copyWords(from, words, matrix, [sx, sy, sw, sh], [dx, dy, dw, dh], isShown) {
    const [across, down] = [dw / sw, dh / sh];
    const scale = min(hypot(matrix[0], matrix[1]) * abs(across), hypot(matrix[2], matrix[3]) * abs(down));
    for (let i = 0; i < from.length; i++) {
      const { text, box: [left, top, right, bottom], size } = from[i];
      if (!isInside(middle(from[i].box), [sx, sy, sx + sw, sy + sh])) continue;
      const ring = corners(matrix, dx + (left - sx) * across, dy + (top - sy) * down, (right - left) * across, (bottom - top) * down);
      const box = boundsOf([ring]);
      if (isShown(middle(box))) addWord(words, text, box, size * scale);
    }
  }

  return { __proto__: null, isInside, addLine, copyWords, dropWords };
})
