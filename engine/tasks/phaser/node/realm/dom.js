// The part of a browser that Phaser and small games need, without a screen: events and the window, with the elements, the
// canvas and the requests of other files. Built inside the realm of a program, so that the program holds no object of
// another realm. Returns functions that dispatch events.
(function (clock, canvas, network, elements, visibility, global) {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply, defineProperty, ownKeys } = Reflect;
  const list = () => setPrototypeOf([], null);
  const MAX_LOG_LINES = 50;
  const BROWSER = '5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';
  const CLOSED = (
    'Window WebGLRenderingContext WebGL2RenderingContext CSSStyleDeclaration DOMTokenList NodeList HTMLCollection ' +
    'HTMLScriptElement HTMLBodyElement HTMLHeadElement HTMLStyleElement TextMetrics PluginArray Plugin Crypto'
  ).split(' ');
  const { ImageData, CanvasGradient, CanvasPattern, CanvasRenderingContext2D } = canvas;
  const logs = list();
  const requests = list();
  const listenersOf = new WeakMap();
  const { get: weakGet, set: weakSet } = WeakMap.prototype;

  const publish = (name, value) => {
    clock.hideSource(value);
    defineProperty(global, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });
  };
  const later = (callback) => clock.addTimer(callback, 1, [], false);
  const noop = () => {};

  class Event {
    constructor(type, init) {
      this.type = String(type);
      this.defaultPrevented = false;
      this.cancelable = true;
      this.isTrusted = false;
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

  class Observer {
    observe() {}
    unobserve() {}
    disconnect() {}
    takeRecords() {
      return [];
    }
  }

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

  const events = { Event, EventTarget, MouseEvent, dispatch, later, requests };
  const { XMLHttpRequest, Blob, FileReader, BLANK_PNG, store, atob, btoa } = network(events);
  const { Node, HTMLElement, HTMLCanvasElement, HTMLImageElement, HTMLDocument, WIDTH, HEIGHT, matches, find, onResize } =
    elements(events, { Blob, BLANK_PNG }, CanvasRenderingContext2D, global);

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
  const onWindow = (name) => ({
    [name](...args) {
      return apply(EventTarget.prototype[name], windowTarget, args);
    },
  })[name];
  const document = new HTMLDocument();
  publish('document', document);
  document.documentElement = document.appendChild(new HTMLElement('html'));
  document.head = document.documentElement.appendChild(new HTMLElement('head'));
  document.body = document.documentElement.appendChild(new HTMLElement('body'));
  document.readyState = 'complete';
  document.compatMode = 'CSS1Compat';
  document.characterSet = 'UTF-8';
  document.referrer = '';
  document.nodeType = 9;
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
    screen: { width: WIDTH, height: HEIGHT, availWidth: WIDTH, availHeight: HEIGHT, colorDepth: 24, pixelDepth: 24, orientation: { type: 'landscape-primary', angle: 0, addEventListener: noop, removeEventListener: noop } },
    navigator: { userAgent: `Mozilla/${BROWSER}`, appVersion: BROWSER, platform: 'Linux x86_64', language: 'en-US',
      languages: ['en-US'], maxTouchPoints: 0, onLine: true, vendor: 'Google Inc.', hardwareConcurrency: 2,
      webdriver: false, cookieEnabled: true, plugins: [], mediaDevices: {}, getGamepads: () => [null, null, null, null] },
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
  // Classes of a browser of which a program can make no object.
  const tag = (target, name) => defineProperty(target, Symbol.toStringTag, { __proto__: null, value: name, configurable: true });
  const closed = (name, object) => {
    const face = { [name]: class { constructor() { throw new TypeError('Illegal constructor'); } } }[name];
    tag(face.prototype, name);
    if (object) setPrototypeOf(object, face.prototype);
    values[name] = face;
  };
  for (const name of CLOSED) closed(name);
  closed('Navigator', values.navigator);
  closed('Screen', values.screen);
  closed('Location', location);
  closed('History', values.history);
  closed('Storage', values.localStorage);
  setPrototypeOf(values.sessionStorage, values.Storage.prototype);
  for (const name of ['MutationObserver', 'ResizeObserver', 'IntersectionObserver', 'PerformanceObserver']) {
    values[name] = { [name]: class extends Observer {} }[name];
  }
  for (const name of ['Event', 'EventTarget', 'Node', 'HTMLElement', 'HTMLCanvasElement', 'HTMLImageElement', 'HTMLDocument', 'CanvasRenderingContext2D']) {
    tag(values[name].prototype, name);
  }
  tag(global, 'Window');
  values.Document = HTMLDocument;
  location.toString = () => location.href;
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
    onResize,
    // Phaser.WEBGL, AUTO and HEADLESS become CANVAS: there is no WebGL, and HEADLESS cannot make textures.
    renderType: (asked, canvas) => canvas,
    key(type, code, name) {
      dispatch(windowTarget, new KeyboardEvent(type, { keyCode: code, which: code, key: name, code: name, ctrlKey: false,
        altKey: false, shiftKey: false, metaKey: false, repeat: false, location: 0, isTrusted: true }));
    },
    pointer(type, canvas, x, y, buttons, deltaY) {
      const init = { pageX: x, pageY: y, clientX: x, clientY: y, x, y, offsetX: x, offsetY: y, button: 0, buttons, deltaX: 0,
        deltaY, deltaZ: 0, deltaMode: 0, movementX: 0, movementY: 0, ctrlKey: false, altKey: false, shiftKey: false,
        metaKey: false, pointerType: 'mouse', target: canvas, isTrusted: true };
      dispatch(canvas, new MouseEvent(type, init));
    },
  };
})
