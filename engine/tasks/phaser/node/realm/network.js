// Requests, which fail as there is no network; files, storage and base64.
(function (events) {
  'use strict';
  const { Event, EventTarget, dispatch, later, requests } = events;
  const BLANK_PNG =
    'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

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

  return { __proto__: null, XMLHttpRequest, Blob, FileReader, BLANK_PNG, store, atob, btoa };
})
