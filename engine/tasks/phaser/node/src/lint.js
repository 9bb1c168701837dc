'use strict';
// ESLint with a configuration of its own; the code cannot change it by comments.
const { Linter } = require('eslint');

const GLOBALS = (
  'Phaser window document self globalThis console setTimeout setInterval clearTimeout clearInterval requestAnimationFrame ' +
  'cancelAnimationFrame performance navigator location localStorage sessionStorage Image Audio HTMLElement HTMLCanvasElement ' +
  'Event KeyboardEvent MouseEvent CustomEvent alert confirm prompt fetch URL Blob FileReader XMLHttpRequest atob btoa ' +
  'queueMicrotask structuredClone innerWidth innerHeight devicePixelRatio screen matchMedia addEventListener removeEventListener ' +
  'ImageData getComputedStyle history TextEncoder TextDecoder crypto'
).split(' ');

const RULES = {
  'no-undef': 'error',
  'no-eval': 'error',
  'no-implied-eval': 'error',
  'no-new-func': 'error',
  'no-with': 'error',
  'no-const-assign': 'error',
  'no-dupe-keys': 'error',
  'no-dupe-class-members': 'error',
  'no-this-before-super': 'error',
  'constructor-super': 'error',
  'no-unreachable': 'warn',
  'no-unused-vars': 'warn',
};

function configuration(isModule) {
  return [{
    languageOptions: {
      ecmaVersion: 2023,
      sourceType: isModule ? 'module' : 'script',
      globals: Object.fromEntries(GLOBALS.map((name) => [name, name === 'Phaser' ? 'readonly' : 'writable'])),
    },
    linterOptions: { noInlineConfig: true, reportUnusedDisableDirectives: 'off' },
    rules: RULES,
  }];
}

const linter = new Linter({ configType: 'flat' });
const MAX_MESSAGES = 50;

function lint(code, isModule) {
  return linter.verify(code, configuration(isModule), { filename: 'game.js' }).slice(0, MAX_MESSAGES).map((message) => ({
    code: message.ruleId || 'eslint',
    message: message.message.split('\n')[0].slice(0, 200),
    severity: message.severity === 2 ? 'error' : 'warning',
    line: message.line || 1,
    column: Math.max(0, (message.column || 1) - 1),
  }));
}

module.exports = { lint };
