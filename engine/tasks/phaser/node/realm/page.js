// The counterpart of dom.js in a real page: events of the simulated input, what was printed and asked for, and errors
// that the page reports as uncaught.
(function (clock, global) {
  'use strict';
  const { setPrototypeOf } = Object;
  const { apply, defineProperty } = Reflect;
  const { slice } = String.prototype;
  const list = () => setPrototypeOf([], null);
  const { KeyboardEvent, MouseEvent, WheelEvent, CanvasRenderingContext2D, getComputedStyle, innerWidth, innerHeight } = global;
  const elementFromPoint = global.document.elementFromPoint.bind(global.document);
  const { dispatchEvent } = global.EventTarget.prototype;
  const { getBoundingClientRect } = global.Element.prototype;
  const MAX_LOG_LINES = 50;
  const logs = list();
  const requests = list();

  for (const name of ['log', 'info', 'warn', 'error', 'debug']) {
    const noted = {
      [name](...values) {
        if (logs.length < MAX_LOG_LINES) logs[logs.length] = apply(slice, `${values.map((value) => `${value}`).join(' ')}`, [0, 300]);
      },
    };
    clock.hideSource(noted);
    global.console[name] = noted[name];
  }
  global.alert = global.print = () => {};
  global.confirm = () => true;
  global.prompt = () => null;
  global.addEventListener('error', (event) => {
    if (event instanceof global.ErrorEvent) clock.raise(event.error);
  });
  for (const name of ['WebAssembly', 'SharedArrayBuffer', 'Atomics', 'Worker', 'SharedWorker']) delete global[name];
  for (const name of ['alert', 'print', 'confirm', 'prompt']) clock.hideSource(global[name]);
  const { open: openOriginal } = global.XMLHttpRequest.prototype;
  const opened = function open(method, url, ...rest) {
    requests[requests.length] = `${url}`;
    return apply(openOriginal, this, [method, url, ...rest]);
  };
  clock.hideSource(opened);
  defineProperty(global.XMLHttpRequest.prototype, 'open', {
    __proto__: null, configurable: true, writable: true, value: opened,
  });

  return {
    __proto__: null,
    logs,
    requests,
    Context: CanvasRenderingContext2D,
    drawsItself: true,
    onResize() {},
    // In the page, in the window, and nothing hides it or lies on it.
    isShown(element) {
      if (!element.isConnected) return false;
      for (let node = element; node; node = node.parentElement) {
        const { display, visibility, opacity } = getComputedStyle(node);
        if (display === 'none' || visibility !== 'visible' || +opacity < 0.1) return false;
      }
      const { left, top, right, bottom } = apply(getBoundingClientRect, element, []);
      const [x1, y1, x2, y2] = [Math.max(0, left), Math.max(0, top), Math.min(innerWidth, right), Math.min(innerHeight, bottom)];
      return x2 - x1 > 1 && y2 - y1 > 1 && elementFromPoint((x1 + x2) / 2, (y1 + y2) / 2) === element;
    },
    // All but Phaser.WEBGL become CANVAS, whose drawing can be followed; HEADLESS cannot make textures.
    renderType: (asked, canvas) => (asked === 2 ? asked : canvas),
    key(type, code, name) {
      apply(dispatchEvent, global, [new KeyboardEvent(type, { keyCode: code, which: code, key: name, code: name, bubbles: true, cancelable: true })]);
    },
    pointer(type, canvas, x, y, buttons, deltaY) {
      const { left, top } = apply(getBoundingClientRect, canvas, []);
      const init = { clientX: left + x, clientY: top + y, button: 0, buttons, bubbles: true, cancelable: true, view: global };
      const event = type === 'wheel' ? new WheelEvent(type, { ...init, deltaY }) : new MouseEvent(type, init);
      apply(dispatchEvent, canvas, [event]);
    },
  };
})
