// The elements of a page without a screen, and its document. An element has no layout: its size is that of its style.
(function (events, files, CanvasRenderingContext2D, global) {
  'use strict';
  const { Event, EventTarget, MouseEvent, dispatch, later, requests } = events;
  const { Blob, BLANK_PNG } = files;
  const { floor, max, min } = Math;
  const { parseFloat } = Number;
  const WIDTH = 1024;
  const HEIGHT = 768;
  const MAX_CANVAS_SIDE = 8192;

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
    get isConnected() {
      return global.document.contains(this);
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
  let resized = () => {};
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

  return {
    __proto__: null,
    Node, HTMLElement, HTMLCanvasElement, HTMLImageElement, HTMLDocument, WIDTH, HEIGHT, matches, find,
    onResize(callback) {
      resized = callback;
    },
  };
})
