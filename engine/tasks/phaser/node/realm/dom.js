// The part of a browser that Phaser and small games need, without a screen: every element, a 2D canvas whose drawing
// drawing.js follows, images that load, requests that fail. Built inside the realm of a program, so that the program holds no
// object of another realm. Returns a function that dispatches events.
(function (clock, canvas, visibility, global) {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply, defineProperty, ownKeys } = Reflect;
  const { floor, max, min } = Math;
  const list = () => setPrototypeOf([], null);
  const WIDTH = 1024;
  const HEIGHT = 768;
  const MAX_CANVAS_SIDE = 8192;
  const MAX_LOG_LINES = 50;
  const { ImageData, CanvasGradient, CanvasPattern, CanvasRenderingContext2D } = canvas;
  const { parseFloat } = Number;
  const logs = list();
  const requests = list();
  const listenersOf = new WeakMap();
  const { get: weakGet, set: weakSet } = WeakMap.prototype;

  const publish = (name, value) =>
    defineProperty(global, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
  const later = (callback) => clock.addTimer(callback, 1, [], false);
  const noop = () => {};

  class Event {
    constructor(type, init) {
      this.type = String(type);
      this.defaultPrevented = false;
      this.cancelable = true;
      this.bubbles = false;
      this.timeStamp = clock.now();
      this.target = null;
      this.currentTarget = null;
      if (init) for (const key of ownKeys(init)) this[key] = init[key];
    }
    preventDefault() {
      this.defaultPrevented = true;
    }
    stopPropagation() {}
    stopImmediatePropagation() {}
    composedPath() {
      return this.target ? [this.target] : [];
    }
  }
  class UIEvent extends Event {}
  class MouseEvent extends UIEvent {}
  class PointerEvent extends MouseEvent {}
  class WheelEvent extends MouseEvent {}
  class KeyboardEvent extends UIEvent {
    getModifierState() {
      return false;
    }
  }
  class TouchEvent extends UIEvent {}
  class CustomEvent extends Event {}

  class EventTarget {
    addEventListener(type, listener, options) {
      if (!listener) return;
      let all = apply(weakGet, listenersOf, [this]);
      if (!all) {
        all = list();
        apply(weakSet, listenersOf, [this, all]);
      }
      for (let i = 0; i < all.length; i++) if (all[i].type === type && all[i].listener === listener) return;
      all[all.length] = { __proto__: null, type: `${type}`, listener, once: Boolean(options && options.once) };
    }
    removeEventListener(type, listener) {
      const all = apply(weakGet, listenersOf, [this]);
      for (let i = 0; all && i < all.length; i++) if (all[i].type === type && all[i].listener === listener) all[i].type = '';
    }
    dispatchEvent(event) {
      return dispatch(this, event);
    }
  }

  // Errors of a listener are passed on, as an uncaught error of a page is.
  function dispatch(target, event) {
    event.target = event.target || target;
    event.currentTarget = target;
    const all = apply(weakGet, listenersOf, [target]) || list();
    const count = all.length;
    for (let i = 0; i < count; i++) {
      const entry = all[i];
      if (entry.type !== event.type) continue;
      if (entry.once) entry.type = '';
      if (typeof entry.listener === 'function') apply(entry.listener, target, [event]);
      else if (entry.listener && typeof entry.listener.handleEvent === 'function') entry.listener.handleEvent(event);
    }
    const owner = target === windowTarget ? global : target;
    const handler = owner[`on${event.type}`];
    if (typeof handler === 'function') apply(handler, owner, [event]);
    return !event.defaultPrevented;
  }

  const pixels = (text) => {
    const value = parseFloat(text);
    return value >= 0 ? value : 0;
  };

  class Node extends EventTarget {
    #children = [];
    #parent = null;
    constructor() {
      super();
      this.ownerDocument = global.document;
    }
    get childNodes() {
      return this.#children;
    }
    get parentNode() {
      return this.#parent;
    }
    get children() {
      return this.#children;
    }
    get parentElement() {
      return this.#parent;
    }
    get firstChild() {
      return this.childNodes[0] || null;
    }
    get lastChild() {
      return this.childNodes[this.childNodes.length - 1] || null;
    }
    appendChild(child) {
      if (child.#parent) child.#parent.removeChild(child);
      child.#parent = this;
      this.#children.push(child);
      return child;
    }
    append(...children) {
      for (const child of children) if (child instanceof Node) this.appendChild(child);
    }
    prepend(...children) {
      this.append(...children);
    }
    insertBefore(child) {
      return this.appendChild(child);
    }
    removeChild(child) {
      this.#children = this.#children.filter((other) => other !== child);
      child.#parent = null;
      return child;
    }
    replaceChildren(...children) {
      for (const child of this.#children) child.#parent = null;
      this.#children = [];
      this.append(...children);
    }
    remove() {
      if (this.parentNode) this.parentNode.removeChild(this);
    }
    contains(other) {
      for (let node = other; node; node = node.parentNode) if (node === this) return true;
      return false;
    }
    hasChildNodes() {
      return this.childNodes.length > 0;
    }
  }

  class HTMLElement extends Node {
    #text = '';
    #style;
    constructor(tag = 'div') {
      super();
      this.tagName = this.nodeName = String(tag).toUpperCase();
      this.id = this.className = this.value = '';
      this.dataset = {};
      this.attributes = {};
      this.scrollTop = this.scrollLeft = 0;
      const classes = new Set();
      this.classList = {
        add: (...names) => names.forEach((name) => classes.add(name)),
        remove: (...names) => names.forEach((name) => classes.delete(name)),
        toggle: (name) => (classes.has(name) ? !classes.delete(name) : Boolean(classes.add(name))),
        contains: (name) => classes.has(name),
      };
      this.#style = {
        setProperty(name, value) {
          this[name] = value;
        },
        getPropertyValue(name) {
          return this[name] || '';
        },
        removeProperty(name) {
          delete this[name];
        },
      };
    }
    get style() {
      return this.#style;
    }
    set style(text) {
      this.#style.cssText = `${text}`;
    }
    get textContent() {
      return this.#text;
    }
    set textContent(text) {
      this.replaceChildren();
      this.#text = `${text}`;
    }
    get innerHTML() {
      return this.#text;
    }
    set innerHTML(text) {
      this.textContent = text;
    }
    get innerText() {
      return this.#text;
    }
    set innerText(text) {
      this.textContent = text;
    }
    get clientWidth() {
      return this.getBoundingClientRect().width;
    }
    get clientHeight() {
      return this.getBoundingClientRect().height;
    }
    get offsetWidth() {
      return this.clientWidth;
    }
    get offsetHeight() {
      return this.clientHeight;
    }
    getBoundingClientRect() {
      const width = pixels(this.style.width) || this._naturalWidth();
      const height = pixels(this.style.height) || this._naturalHeight();
      return { x: 0, y: 0, left: 0, top: 0, right: width, bottom: height, width, height };
    }
    _naturalWidth() {
      return WIDTH;
    }
    _naturalHeight() {
      return HEIGHT;
    }
    setAttribute(name, value) {
      this.attributes[name] = String(value);
      if (name === 'id') this.id = String(value);
    }
    getAttribute(name) {
      return name in this.attributes ? this.attributes[name] : null;
    }
    hasAttribute(name) {
      return name in this.attributes;
    }
    removeAttribute(name) {
      delete this.attributes[name];
    }
    matches(selector) {
      return matches(this, selector);
    }
    closest(selector) {
      for (let node = this; node; node = node.parentNode) if (node.tagName && matches(node, selector)) return node;
      return null;
    }
    querySelector(selector) {
      return find(this, (node) => matches(node, selector), [])[0] || null;
    }
    querySelectorAll(selector) {
      return find(this, (node) => matches(node, selector), []);
    }
    getElementsByTagName(tag) {
      return find(this, (node) => tag === '*' || node.tagName === String(tag).toUpperCase(), []);
    }
    click() {
      dispatch(this, new MouseEvent('click'));
    }
    focus() {}
    blur() {}
    insertAdjacentHTML() {}
    requestFullscreen() {
      return Promise.resolve();
    }
    setPointerCapture() {}
    releasePointerCapture() {}
  }

  // Selectors of one part: tag, #id, .class. Others match nothing.
  function matches(node, selector) {
    const text = String(selector).trim();
    if (text[0] === '#') return node.id === text.slice(1);
    if (text[0] === '.') return node.classList.contains(text.slice(1)) || ` ${node.className} `.includes(` ${text.slice(1)} `);
    return node.tagName === text.toUpperCase();
  }

  function find(node, accepts, found) {
    for (const child of node.childNodes) {
      if (child.tagName && accepts(child)) found.push(child);
      find(child, accepts, found);
    }
    return found;
  }

  const side = (value) => min(MAX_CANVAS_SIDE, max(0, floor(+value || 0)));
  const BLANK_PNG =
    'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

  let resized = noop;
  class HTMLCanvasElement extends HTMLElement {
    #width = 300;
    #height = 150;
    #context = null;
    constructor() {
      super('canvas');
    }
    get width() {
      return this.#width;
    }
    set width(value) {
      this.#width = side(value);
      resized(this);
    }
    get height() {
      return this.#height;
    }
    set height(value) {
      this.#height = side(value);
      resized(this);
    }
    _naturalWidth() {
      return this.#width;
    }
    _naturalHeight() {
      return this.#height;
    }
    getContext(kind) {
      if (kind !== '2d') return null;
      this.#context = this.#context || new CanvasRenderingContext2D(this);
      return this.#context;
    }
    toDataURL() {
      return BLANK_PNG;
    }
    toBlob(callback) {
      later(() => callback(new Blob([''], { type: 'image/png' })));
    }
  }

  // An image from a data URI or an object URL loads; any other address fails, because there is no network.
  class HTMLImageElement extends HTMLElement {
    #src = '';
    constructor(width, height) {
      super('img');
      this.width = this.naturalWidth = width || 0;
      this.height = this.naturalHeight = height || 0;
      this.complete = false;
      this.onload = this.onerror = null;
    }
    get src() {
      return this.#src;
    }
    set src(value) {
      this.#src = String(value);
      const loads = /^(data|blob):/.test(this.#src);
      if (!loads) requests[requests.length] = this.#src;
      later(() => {
        this.complete = true;
        if (loads) {
          const [width, height] = imageSize(this.#src);
          this.width = this.naturalWidth = width;
          this.height = this.naturalHeight = height;
        }
        dispatch(this, new Event(loads ? 'load' : 'error'));
      });
    }
    decode() {
      return Promise.resolve();
    }
  }

  // The size in the header of a PNG; 32 x 32 for other formats.
  function imageSize(source) {
    const match = /^data:image\/png;base64,([\w+/=]{44})/.exec(source);
    if (!match) return [32, 32];
    const bytes = global.atob(match[1]);
    const number = (at) =>
      bytes.charCodeAt(at) * 16777216 + bytes.charCodeAt(at + 1) * 65536 + bytes.charCodeAt(at + 2) * 256 + bytes.charCodeAt(at + 3);
    return [number(16), number(20)];
  }

  class XMLHttpRequest extends EventTarget {
    constructor() {
      super();
      this.readyState = this.status = 0;
      this.statusText = this.responseText = this.responseType = '';
      this.response = null;
      this.responseURL = '';
    }
    open(method, url) {
      this.readyState = 1;
      this.responseURL = String(url);
    }
    setRequestHeader() {}
    overrideMimeType() {}
    getResponseHeader() {
      return null;
    }
    getAllResponseHeaders() {
      return '';
    }
    abort() {}
    send() {
      requests[requests.length] = this.responseURL;
      later(() => {
        this.readyState = 4;
        dispatch(this, new Event('error'));
        dispatch(this, new Event('loadend'));
      });
    }
  }

  class Blob {
    constructor(parts = [], options = {}) {
      this.type = options.type || '';
      this._text = parts.map(String).join('');
      this.size = this._text.length;
    }
    text() {
      return Promise.resolve(this._text);
    }
  }
  class FileReader extends EventTarget {
    readAsDataURL(blob) {
      this.result = BLANK_PNG;
      later(() => dispatch(this, new Event('load')), blob);
    }
    readAsText(blob) {
      this.result = blob._text;
      later(() => dispatch(this, new Event('load')));
    }
  }

  const store = () => {
    const values = new Map();
    return {
      getItem: (key) => (values.has(String(key)) ? values.get(String(key)) : null),
      setItem: (key, value) => void values.set(String(key), String(value)),
      removeItem: (key) => void values.delete(String(key)),
      clear: () => values.clear(),
      key: (index) => [...values.keys()][index] || null,
      get length() {
        return values.size;
      },
    };
  };

  const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  function atob(text) {
    let bits = 0;
    let held = 0;
    let bytes = '';
    for (const letter of String(text).replace(/[\s=]+/g, '')) {
      const value = ALPHABET.indexOf(letter);
      if (value < 0) throw new Error('not base64');
      held = (held << 6) | value;
      bits += 6;
      if (bits >= 8) bytes += String.fromCharCode((held >> (bits -= 8)) & 255);
    }
    return bytes;
  }
  function btoa(text) {
    let result = '';
    const source = String(text);
    for (let i = 0; i < source.length; i += 3) {
      const three = (source.charCodeAt(i) << 16) | ((source.charCodeAt(i + 1) || 0) << 8) | (source.charCodeAt(i + 2) || 0);
      result += ALPHABET[three >> 18] + ALPHABET[(three >> 12) & 63];
      result += i + 1 < source.length ? ALPHABET[(three >> 6) & 63] : '=';
      result += i + 2 < source.length ? ALPHABET[three & 63] : '=';
    }
    return result;
  }

  const shown = (value) => {
    try {
      if (typeof value === 'string') return value;
      if (value instanceof Error) return `${value.name}: ${value.message}`;
      return typeof value === 'object' ? JSON.stringify(value) : String(value);
    } catch {
      return '?';
    }
  };
  const log = (...values) => {
    if (logs.length < MAX_LOG_LINES) logs[logs.length] = `${values.map(shown).join(' ')}`.slice(0, 300);
  };
  const console = {};
  for (const name of 'log info warn error debug trace dir table group groupCollapsed'.split(' ')) console[name] = log;
  for (const name of 'groupEnd time timeEnd timeLog count countReset clear assert'.split(' ')) console[name] = noop;

  // The window is the global object: the event methods work on it although it is no EventTarget.
  const windowTarget = new EventTarget();
  const onWindow = (name) =>
    function (...args) {
      return apply(EventTarget.prototype[name], windowTarget, args);
    };
  class HTMLDocument extends Node {
    createElement(tag) {
      const name = String(tag).toLowerCase();
      if (name === 'canvas') return new HTMLCanvasElement();
      if (name === 'img') return new HTMLImageElement();
      return new HTMLElement(name);
    }
    createElementNS(space, tag) {
      return this.createElement(tag);
    }
    createTextNode(text) {
      const node = new Node();
      node.textContent = String(text);
      return node;
    }
    createDocumentFragment() {
      return new HTMLElement('fragment');
    }
    createEvent() {
      return new Event('');
    }
    getElementById(id) {
      return find(this, (node) => node.id === String(id), [])[0] || null;
    }
    querySelector(selector) {
      return find(this, (node) => matches(node, selector), [])[0] || null;
    }
    querySelectorAll(selector) {
      return find(this, (node) => matches(node, selector), []);
    }
    getElementsByTagName(tag) {
      return find(this, (node) => node.tagName === String(tag).toUpperCase(), []);
    }
    elementFromPoint() {
      return this.getElementsByTagName('canvas')[0] || this.body;
    }
    hasFocus() {
      return true;
    }
    exitPointerLock() {}
    exitFullscreen() {
      return Promise.resolve();
    }
  }

  const document = new HTMLDocument();
  publish('document', document);
  document.documentElement = document.appendChild(new HTMLElement('html'));
  document.head = document.documentElement.appendChild(new HTMLElement('head'));
  document.body = document.documentElement.appendChild(new HTMLElement('body'));
  document.readyState = 'complete';
  document.hidden = false;
  document.visibilityState = 'visible';
  document.title = document.cookie = '';
  document.fonts = { ready: Promise.resolve(), load: () => Promise.resolve([]), add: noop, check: () => true };
  document.fullscreenElement = document.pointerLockElement = null;
  document.defaultView = global;
  const location = { href: 'http://localhost/', protocol: 'http:', host: 'localhost', hostname: 'localhost', port: '',
    pathname: '/', search: '', hash: '', origin: 'http://localhost', reload: noop, assign: noop, replace: noop };
  document.location = location;

  const values = {
    console, location, Event, UIEvent, MouseEvent, PointerEvent, WheelEvent, KeyboardEvent, TouchEvent, CustomEvent,
    EventTarget, Node, Element: HTMLElement, HTMLElement, HTMLDivElement: HTMLElement, HTMLCanvasElement, ImageData,
    HTMLImageElement, Image: HTMLImageElement, HTMLVideoElement: class HTMLVideoElement extends HTMLElement {},
    CanvasRenderingContext2D, CanvasGradient, CanvasPattern, XMLHttpRequest, Blob, FileReader, HTMLDocument, atob, btoa,
    window: global, self: global, top: global, parent: global, frames: global, closed: false,
    innerWidth: WIDTH, innerHeight: HEIGHT, outerWidth: WIDTH, outerHeight: HEIGHT, devicePixelRatio: 1,
    pageXOffset: 0, pageYOffset: 0, scrollX: 0, scrollY: 0, isSecureContext: true,
    screen: { width: WIDTH, height: HEIGHT, availWidth: WIDTH, availHeight: HEIGHT, orientation: { type: 'landscape-primary', angle: 0, addEventListener: noop, removeEventListener: noop } },
    navigator: { userAgent: 'Mozilla/5.0 (X11; Linux x86_64) Chrome/120.0', appVersion: '5.0', platform: 'Linux x86_64',
      language: 'en', languages: ['en'], maxTouchPoints: 0, onLine: true, vendor: '', hardwareConcurrency: 2 },
    history: { pushState: noop, replaceState: noop, back: noop, length: 1 },
    localStorage: store(), sessionStorage: store(),
    URL: { createObjectURL: () => 'blob:http://localhost/0', revokeObjectURL: noop },
    matchMedia: () => ({ matches: false, addListener: noop, removeListener: noop, addEventListener: noop, removeEventListener: noop }),
    getComputedStyle: (element) => element.style,
    alert: noop, confirm: () => true, prompt: () => null, focus: noop, blur: noop, open: () => null, close: noop,
    print: noop, scrollTo: noop, postMessage: noop, getSelection: () => null,
    fetch(url) {
      requests[requests.length] = `${url}`;
      return Promise.reject(new TypeError('Failed to fetch'));
    },
    addEventListener: onWindow('addEventListener'),
    removeEventListener: onWindow('removeEventListener'),
    dispatchEvent: onWindow('dispatchEvent'),
    queueMicrotask: (callback) => void Promise.resolve().then(callback),
  };
  for (const name of ownKeys(values)) publish(name, values[name]);
  // Nothing here needs native code or shared memory.
  for (const name of ['WebAssembly', 'SharedArrayBuffer', 'Atomics']) delete global[name];

  return {
    __proto__: null,
    logs,
    requests,
    isShown: visibility(document, matches, find, HTMLElement.prototype.getBoundingClientRect),
    Context: CanvasRenderingContext2D,
    drawsItself: false,
    onResize(callback) {
      resized = callback;
    },
    // Phaser.WEBGL, AUTO and HEADLESS become CANVAS: there is no WebGL, and HEADLESS cannot make textures.
    renderType: (asked, canvas) => canvas,
    key(type, code, name) {
      dispatch(windowTarget, new KeyboardEvent(type, { keyCode: code, which: code, key: name, code: name, ctrlKey: false,
        altKey: false, shiftKey: false, metaKey: false, repeat: false, location: 0 }));
    },
    pointer(type, canvas, x, y, buttons, deltaY) {
      const init = { pageX: x, pageY: y, clientX: x, clientY: y, x, y, offsetX: x, offsetY: y, button: 0, buttons, deltaX: 0,
        deltaY, deltaZ: 0, deltaMode: 0, movementX: 0, movementY: 0, ctrlKey: false, altKey: false, shiftKey: false,
        metaKey: false, pointerType: 'mouse', target: canvas };
      dispatch(canvas, new MouseEvent(type, init));
    },
  };
})
