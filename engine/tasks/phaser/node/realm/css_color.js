// CSS colours, as the styles of a drawing context have them.
(function () {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply } = Reflect;
  const { abs, max, min, round } = Math;
  const { parseInt } = Number;
  const { exec } = RegExp.prototype;
  const { toLowerCase, slice } = String.prototype;
  const record = (fields) => setPrototypeOf(fields, null);
  const HSL = /^hsla?\(\s*([\d.+-]+)(?:deg)?[\s,]+([\d.]+)%[\s,]+([\d.]+)%(?:[\s,/]+([\d.]+)(%?))?\s*\)$/;
  const RGB = /^rgba?\(\s*([\d.]+)[\s,]+([\d.]+)[\s,]+([\d.]+)(?:[\s,/]+([\d.]+)(%?))?\s*\)$/;
  const HEX = /^#([\da-f]{3,8})$/;
  const NAMES = record({
    black: 0, white: 0xffffff, red: 0xff0000, green: 0x008000, lime: 0x00ff00, blue: 0x0000ff, yellow: 0xffff00,
    orange: 0xffa500, purple: 0x800080, pink: 0xffc0cb, brown: 0xa52a2a, gray: 0x808080, grey: 0x808080,
    cyan: 0x00ffff, aqua: 0x00ffff, magenta: 0xff00ff, fuchsia: 0xff00ff, turquoise: 0x40e0d0, gold: 0xffd700,
    silver: 0xc0c0c0, navy: 0x000080, teal: 0x008080, maroon: 0x800000, olive: 0x808000, crimson: 0xdc143c,
    tomato: 0xff6347, violet: 0xee82ee, indigo: 0x4b0082, skyblue: 0x87ceeb, darkgreen: 0x006400, darkred: 0x8b0000,
  });

  // A CSS colour as [0xRRGGBB, alpha]; null for what is none.
  function parseColor(style) {
    if (typeof style !== 'string') return null;
    const text = apply(toLowerCase, style, []);
    if (text === 'transparent') return [0, 0];
    if (NAMES[text] !== undefined) return [NAMES[text], 1];
    let found = apply(exec, HEX, [text]);
    if (found) {
      const digits = found[1];
      const wide = digits.length > 4;
      const part = (i) => (wide ? apply(slice, digits, [2 * i, 2 * i + 2]) : digits[i] && digits[i] + digits[i]);
      const value = (i) => parseInt(part(i), 16);
      const alpha = digits.length === 4 || digits.length === 8 ? value(3) / 255 : 1;
      return [value(0) * 65536 + value(1) * 256 + value(2), alpha];
    }
    const alphaOf = (value, percent) => (value === undefined ? 1 : min(1, percent ? value / 100 : +value));
    found = apply(exec, RGB, [text]);
    if (found) {
      const byte = (value) => min(255, round(+value));
      return [byte(found[1]) * 65536 + byte(found[2]) * 256 + byte(found[3]), alphaOf(found[4], found[5])];
    }
    found = apply(exec, HSL, [text]);
    if (found) {
      const [hue, saturation, light] = [((+found[1] % 360) + 360) % 360, found[2] / 100, found[3] / 100];
      const chroma = (1 - abs(2 * light - 1)) * saturation;
      const channel = (shift) => {
        const k = (shift + hue / 30) % 12;
        return round(255 * (light - (chroma / 2) * max(-1, min(k - 3, 9 - k, 1))));
      };
      return [channel(0) * 65536 + channel(8) * 256 + channel(4), alphaOf(found[4], found[5])];
    }
    return null;
  }

  return { __proto__: null, parseColor };
})
