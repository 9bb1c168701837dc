// Whether an element is in the page, and nothing hides it: its styles, those of its parents, style sheets, a cover.
(function (document, matches, find, getBoundingClientRect) {
  'use strict';
  const { apply, ownKeys } = Reflect;
  const { toLowerCase } = String.prototype;
  const SMALLEST = 16; // pixels, of a canvas that can be seen
  const HIDING = new RegExp(
    '[;{]\\s*(?:-webkit-)?(?:' + [
      'display\\s*:\\s*none', '(?:content-)?visibility\\s*:\\s*(?:hidden|collapse)', 'opacity\\s*:\\s*(?:0+|0*\\.0\\d*|0*\\d(?:\\.\\d*)?%)\\s*(?:[;}!]|$)',
      '(?:left|top|right|bottom)\\s*:\\s*-\\d{3,}', '(?:left|top|right|bottom|inset|margin[a-z-]*|translate|transform|object-position)\\s*:[^;}]*\\d{4,}',
      '(?:scale|zoom)\\s*:\\s*0', 'transform\\s*:[^;}]*scale\\w*\\(\\s*0', '(?:mask|mask-image|clip|clip-path|object-view-box)\\s*:\\s*(?!none|auto)\\S',
      '(?:max-)?(?:width|height)\\s*:\\s*\\d(?:\\.\\d*)?(?:px)?\\s*(?:[;}!]|$)', 'mix-blend-mode\\s*:\\s*(?!normal)\\S',
      'filter\\s*:[^;}]*(?:opacity|brightness|contrast)\\(\\s*(?:0*(?:\\.0\\d*)?|0*\\d(?:\\.\\d*)?%)\\s*\\)',
    ].join('|') + ')',
  );
  const { test, exec, [Symbol.replace]: replaceIn } = RegExp.prototype;
  // The styles of an element as the text of a style sheet has them.
  function cssOf({ style, attributes }) {
    let text = `;${attributes.style || ''}`;
    const names = ownKeys(style);
    for (let i = 0; i < names.length; i++) {
      const [name, value] = [`${names[i]}`, style[names[i]]];
      if (typeof value !== 'function') text += name === 'cssText' ? `;${value}` : `;${apply(replaceIn, /[A-Z]/g, [name, '-$&'])}:${value}`;
    }
    return apply(toLowerCase, text, []);
  }
  const hides = (element) => apply(test, HIDING, [cssOf(element)]) || Boolean(element.hidden) || 'hidden' in element.attributes;
  // Whether the last part of a selector, such as `#game > canvas.big:hover`, fits an element.
  function selects(selector, element) {
    const parts = apply(exec, /([\w#.*-]+)(?:::?[\w-]+)?\s*$/, [selector]);
    if (!parts) return false;
    const each = /\*|[#.]?[\w-]+/g;
    for (let part = apply(exec, each, [parts[1]]); part; part = apply(exec, each, [parts[1]])) if (part[0] !== '*' && !matches(element, part[0])) return false;
    return true;
  }
  function isHiddenBySheet(sheet, element) {
    let text = apply(toLowerCase, sheet.textContent, []);
    for (let i = 0; i < sheet.childNodes.length; i++) text += apply(toLowerCase, `${sheet.childNodes[i].textContent}`, []);
    const rules = /([^{}]+)(\{[^}]*)/g;
    for (let rule = apply(exec, rules, [text]); rule; rule = apply(exec, rules, [text])) {
      if (!apply(test, HIDING, [rule[2]])) continue;
      const selectors = /[^,]+/g;
      for (let one = apply(exec, selectors, [rule[1]]); one; one = apply(exec, selectors, [rule[1]])) if (selects(one[0], element)) return true;
    }
    return false;
  }
  // A box without a size of its own is as large as what is in it.
  function covers(element, box) {
    const text = cssOf(element);
    if (!/[;]\s*position\s*:\s*(?:absolute|fixed)/.test(text) || hides(element)) return false;
    const isPainted = /^(?:CANVAS|IMG|VIDEO)$/.test(element.tagName) || /[;]\s*(?:background(?:-color|-image)?|border)\s*:\s*(?!transparent|none|0\b|[^;]*rgba\([^)]*,\s*0?\.\d+\s*\))[^;\s]/.test(text);
    const isSized = /[;]\s*(?:inset|width|height)\s*:/.test(text) || !(element.textContent || element.childNodes.length);
    const { width, height } = apply(getBoundingClientRect, element, []);
    return isPainted && isSized && width * height >= 0.5 * box.width * box.height;
  }
  function isShown(element) {
    const sheets = find(document, (node) => node.tagName === 'STYLE', []);
    for (let node = element; node !== document; node = node.parentNode) {
      if (!node || hides(node)) return false;
      for (let i = 0; i < sheets.length; i++) if (isHiddenBySheet(sheets[i], node)) return false;
    }
    const box = apply(getBoundingClientRect, element, []);
    const all = find(document, (other) => other !== element && !other.contains(element), []);
    for (let i = 0; i < all.length; i++) if (covers(all[i], box)) return false;
    return box.width >= SMALLEST && box.height >= SMALLEST;
  }

  return isShown;
})
