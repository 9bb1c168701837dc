'use strict';
// The syntax tree of a program, as a script or as a module.
const acorn = require('acorn');

const OPTIONS = { ecmaVersion: 2023, locations: true, allowHashBang: true };
const MAX_DEPTH = 400;

function depthOf(code) {
  let depth = 0;
  let deepest = 0;
  for (const letter of code) {
    if (letter === '(' || letter === '[' || letter === '{') deepest = Math.max(deepest, ++depth);
    else if (letter === ')' || letter === ']' || letter === '}') depth -= 1;
  }
  return deepest;
}

// Returns { ast, isModule } or { error: { message, line, column } }.
function parse(code) {
  if (depthOf(code) > MAX_DEPTH) return { error: { message: 'the code is nested too deeply', line: 1, column: 0 } };
  const failures = [];
  for (const sourceType of ['script', 'module']) {
    try {
      const ast = acorn.parse(code, { ...OPTIONS, sourceType });
      return { ast, isModule: sourceType === 'module' };
    } catch (error) {
      if (!(error instanceof SyntaxError)) return { error: { message: 'the code is too complex to parse', line: 1, column: 0 } };
      failures.push(error);
    }
  }
  const isModule = /'import' and 'export'|import\.meta|top level|'await'/.test(failures[0].message);
  const { message, loc } = failures[isModule ? 1 : 0];
  return { error: { message: message.replace(/ \(\d+:\d+\)$/, ''), line: loc.line, column: loc.column } };
}

const isPhaser = (source) => /^(?:phaser|.*\/phaser(?:@[\w.]+)?(?:\.esm)?(?:\.min)?\.js)$/.test(source);

module.exports = { parse, isPhaser };
