'use strict';
// Parsing, and the form in which a program is run: a classic script. Modules are rewritten, because a realm has no
// module loader: imports of Phaser become the global Phaser, exports are dropped, other imports throw.
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

function importText(node) {
  const source = String(node.source.value);
  if (!isPhaser(source)) return `throw new Error(${JSON.stringify(`module not found: ${source}`)});`;
  return node.specifiers
    .map(({ type, local, imported }) => {
      const takesMember = type === 'ImportSpecifier' && imported.name !== 'default';
      if (!takesMember) return local.name === 'Phaser' ? '' : `const ${local.name} = globalThis.Phaser;`;
      return `const ${local.name} = globalThis.Phaser.${imported.name};`;
    })
    .join(' ');
}

function exportText(node, code) {
  const { declaration, source } = node;
  if (source) return importText({ source, specifiers: [] });
  if (!declaration) return '';
  const text = code.slice(declaration.start, declaration.end);
  const isNamed = declaration.id || /^(?:Variable|Function|Class)Declaration$/.test(declaration.type);
  if (node.type === 'ExportNamedDeclaration' || (isNamed && declaration.id)) return text;
  return `void (${text});`;
}

// The same lines, so that the positions in error messages are those of the source.
function runnable(code, ast, isModule) {
  if (!isModule) return code.replace(/^#!.*/, '');
  let text = '';
  let at = 0;
  for (const node of ast.body) {
    let replacement = null;
    if (node.type === 'ImportDeclaration') replacement = importText(node);
    else if (node.type === 'ExportAllDeclaration') replacement = importText({ source: node.source, specifiers: [] });
    else if (node.type === 'ExportNamedDeclaration' || node.type === 'ExportDefaultDeclaration') replacement = exportText(node, code);
    if (replacement === null) continue;
    const lines = code.slice(node.start, node.end).split('\n').length - replacement.split('\n').length;
    text += code.slice(at, node.start) + replacement + '\n'.repeat(Math.max(0, lines));
    at = node.end;
  }
  text += code.slice(at);
  const isAsync = hasTopLevelAwait(ast);
  return `(${isAsync ? 'async ' : ''}() => { 'use strict'; ${text}\n})();`;
}

function hasTopLevelAwait(node) {
  if (!node || typeof node !== 'object') return false;
  if (Array.isArray(node)) return node.some(hasTopLevelAwait);
  if (/Function/.test(node.type || '')) return false;
  if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) return true;
  return Object.keys(node).some((key) => key !== 'loc' && hasTopLevelAwait(node[key]));
}

module.exports = { parse, runnable, isPhaser };
