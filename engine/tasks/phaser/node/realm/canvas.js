// A 2D canvas without a screen: what it says of itself, and methods that draw nothing. What is drawn is followed by drawing.js.
(function () {
  'use strict';
  const { defineProperty, ownKeys } = Reflect;
  const { floor, max } = Math;
  const { parseFloat } = Number;
  const MAX_READ_PIXELS = 1 << 22;

  class ImageData {
    constructor(...args) {
      if (typeof args[0] === 'object') [this.data, this.width, this.height = args[0].length / 4 / args[1]] = args;
      else {
        [this.width, this.height] = args;
        if (!(this.width * this.height <= MAX_READ_PIXELS)) throw new RangeError('too many pixels');
        this.data = new Uint8ClampedArray(this.width * this.height * 4);
      }
    }
  }

  class CanvasGradient {
    addColorStop(offset, color) {
      this.color = color; // of the last stop
    }
  }
  class CanvasPattern {
    constructor(image) {
      this.image = image;
    }
    setTransform() {}
  }
  class CanvasRenderingContext2D {
    #canvas;
    constructor(canvas) {
      this.#canvas = canvas;
      this.globalAlpha = this.lineWidth = 1;
      this.globalCompositeOperation = 'source-over';
      this.fillStyle = this.strokeStyle = this.shadowColor = '#000000';
      this.font = '10px sans-serif';
      this.textAlign = 'start';
      this.textBaseline = 'alphabetic';
      this.lineCap = 'butt';
      this.lineJoin = 'miter';
      this.miterLimit = 10;
      this.imageSmoothingEnabled = true;
      this.shadowBlur = this.shadowOffsetX = this.shadowOffsetY = this.lineDashOffset = 0;
      this.filter = 'none';
      for (const name of ownKeys(this)) defineProperty(this, name, { __proto__: null, configurable: false });
    }
    get canvas() {
      return this.#canvas;
    }
    measureText(text) {
      const size = parseFloat((/([\d.]+)px/.exec(this.font) || [0, 10])[1]);
      const width = String(text).length * size * 0.55;
      return {
        width,
        actualBoundingBoxLeft: 0,
        actualBoundingBoxRight: width,
        actualBoundingBoxAscent: size * 0.8,
        actualBoundingBoxDescent: size * 0.2,
        fontBoundingBoxAscent: size * 0.9,
        fontBoundingBoxDescent: size * 0.25,
      };
    }
    getImageData(x, y, width, height) {
      return new ImageData(max(1, floor(width)), max(1, floor(height)));
    }
    createImageData(width, height) {
      return typeof width === 'object' ? new ImageData(width.width, width.height) : new ImageData(width, height);
    }
    createLinearGradient() {
      return new CanvasGradient();
    }
    createRadialGradient() {
      return new CanvasGradient();
    }
    createConicGradient() {
      return new CanvasGradient();
    }
    createPattern(image) {
      return new CanvasPattern(image);
    }
    getLineDash() {
      return [];
    }
    getTransform() {
      return { a: 1, b: 0, c: 0, d: 1, e: 0, f: 0 };
    }
    isPointInPath() {
      return false;
    }
    isPointInStroke() {
      return false;
    }
    getContextAttributes() {
      return { alpha: true };
    }
  }
  for (const name of (
    'arc arcTo beginPath bezierCurveTo clearRect clip closePath drawImage ellipse fill fillRect fillText lineTo moveTo ' +
    'putImageData quadraticCurveTo rect reset resetTransform restore rotate roundRect save scale setLineDash ' +
    'setTransform stroke strokeRect strokeText transform translate drawFocusIfNeeded'
  ).split(' ')) {
    defineProperty(CanvasRenderingContext2D.prototype, name, {
      __proto__: null, value: { [name]() {} }[name], writable: true, configurable: true,
    });
  }

  return { __proto__: null, ImageData, CanvasGradient, CanvasPattern, CanvasRenderingContext2D };
})
