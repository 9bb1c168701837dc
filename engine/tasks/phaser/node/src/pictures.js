'use strict';
// What a person could see in pictures of a canvas.
const { PNG } = require('pngjs');

const SEEN_DIFFERENCE = 16; // of 255: a fainter difference cannot be seen
const SEEN_PIXELS = 8;
const MAX_COLORS = 8;
const LEAST_SHARE = 0.001; // of a colour that is named

// A picture in PNG, as base64. Most pictures of a game equal the one before: pixels are decoded when they are asked for.
class Picture {
  constructor(png) {
    this.png = png;
  }

  get pixels() {
    this.decoded = this.decoded || PNG.sync.read(Buffer.from(this.png, 'base64'));
    return this.decoded;
  }
}

const differs = (a, i, b, j) =>
  Math.abs(a[i] - b[j]) >= SEEN_DIFFERENCE || Math.abs(a[i + 1] - b[j + 1]) >= SEEN_DIFFERENCE || Math.abs(a[i + 2] - b[j + 2]) >= SEEN_DIFFERENCE;

// The colours by the number of their pixels, the commonest first: [[0xRRGGBB, pixels]].
function colorsOf({ data }) {
  const counts = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const color = (data[i] << 16) | (data[i + 1] << 8) | data[i + 2];
    counts.set(color, (counts.get(color) || 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

// Whether no pixel differs visibly from the commonest colour.
function isBlank({ pixels }) {
  const { data } = pixels;
  const [[ground]] = colorsOf(pixels);
  const pixel = [ground >> 16, (ground >> 8) & 255, ground & 255];
  let seen = 0;
  for (let i = 0; i < data.length && seen < SEEN_PIXELS; i += 4) if (differs(data, i, pixel, 0)) seen += 1;
  return seen < SEEN_PIXELS;
}

function areDifferent(first, second) {
  if (first.png === second.png) return false;
  const [one, two] = [first.pixels, second.pixels];
  if (one.width !== two.width || one.height !== two.height) return true;
  let seen = 0;
  for (let i = 0; i < one.data.length && seen < SEEN_PIXELS; i += 4) if (differs(one.data, i, two.data, i)) seen += 1;
  return seen >= SEEN_PIXELS;
}

function namedColors({ pixels }) {
  const common = colorsOf(pixels).filter(([, count]) => count >= (LEAST_SHARE * pixels.data.length) / 4);
  return common.slice(0, MAX_COLORS).map(([color]) => `#${color.toString(16).padStart(6, '0')}`);
}

module.exports = { Picture, areDifferent, isBlank, namedColors };
