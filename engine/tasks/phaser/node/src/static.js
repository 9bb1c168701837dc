'use strict';
// The stages that only read a program: parse, safety, signals, ESLint, API. Nothing of the program runs here.
// Usage: node static.js PHASER_API_JSONL
const walk = require('acorn-walk');
const { ApiTypes } = require('./api_types.js');
const { Inference } = require('./infer.js');
const { Liveness } = require('./liveness.js');
const { parse } = require('./parse.js');
const { checkSafety, literal, propertyName } = require('./safety.js');
const { sourceSignals } = require('./signals.js');
const { lint } = require('./lint.js');
const { receive, send } = require('./wire.js');

const MAX_USES = 300;
const WEBGL_NAMES = /^(?:preFX|postFX|setPostPipeline|setPipeline|addPostPipeline|pipelines|addGLTexture)$/;
const INPUT_NAMES = /^(?:input|addEventListener|on(?:key|mouse|pointer|touch|click)\w*)$/;
const LISTEN = new Set(['on', 'once', 'addListener']);

function declaredNames(ast) {
  const names = new Set();
  const pattern = (node) => {
    if (!node) return;
    if (node.type === 'Identifier') names.add(node.name);
    else walk.full(node, (each) => each.type === 'Identifier' && names.add(each.name));
  };
  walk.full(ast, (node) => {
    if (node.type === 'VariableDeclarator') pattern(node.id);
    else if (/Function|^Class/.test(node.type)) {
      if (node.id) names.add(node.id.name);
      (node.params || []).forEach(pattern);
    } else if (/^Import.*Specifier$/.test(node.type)) names.add(node.local.name);
  });
  return names;
}

const place = (node) => ({ line: node.loc.start.line, column: node.loc.start.column });

function listenedEvents(ast, live) {
  const events = new Set();
  walk.full(ast, (node) => {
    if (node.type === 'CallExpression' && live.has(node) && LISTEN.has(propertyName(node.callee)) && typeof literal(node.arguments[0]) === 'string') events.add(literal(node.arguments[0]));
  });
  return events;
}

function someLive(ast, live, matches) {
  let found = false;
  walk.full(ast, (node) => {
    found = found || (live.has(node) && matches(node));
  });
  return found;
}

// Effects, shaders and pipelines, which a canvas does not have.
const needsWebgl = (node) => WEBGL_NAMES.test(propertyName(node) || '') || (propertyName(node) === 'shader' && propertyName(node.object) === 'add');

// What may listen for keys or the pointer: anything named input, or a listener of the page.
const readsInput = (node) => INPUT_NAMES.test(propertyName(node) || (node.type === 'Property' && node.key.name) || '');

function apiUsage(ast, code, types, live) {
  const inference = new Inference(ast, types);
  const hits = new Map();
  const misses = new Map();
  const uses = [];
  const games = new Set();
  for (const { row, id, raw, node, type } of inference.uses(code)) {
    const shown = { symbol_id: id, raw, ...place(node) };
    if (row) {
      if (live.has(node)) {
        if (!hits.has(id)) hits.set(id, shown);
        const returned = row.kind === 'method' || row.kind === 'function' ? types.parse(row.returns.type, null) : null;
        uses.push({ row, owner: (type && type.of) || null, returned: returned && returned.of });
      }
    } else if (!misses.has(id)) misses.set(id, shown);
  }
  walk.full(ast, (node) => {
    if (node.type !== 'NewExpression') return;
    const type = inference.typeOf(node, inference.scopes.get(node));
    if (!type) return;
    const base = type.own ? inference.phaserBase(type.own) : type.of;
    if (base === 'Phaser.Game') games.add(node);
    if (type.of && live.has(node) && types.rows.has(type.of)) uses.push({ row: types.rows.get(type.of), owner: null, returned: type.of });
  });
  return { hits: [...hits.values()], misses: [...misses.values()], uses, games };
}

// Symbols of older versions of Phaser that prompts still name.
const RENAMED = {
  'Phaser.GameObjects.Particles.ParticleEmitterManager': 'Phaser.GameObjects.Particles.ParticleEmitter',
  'Phaser.Time.TimePlugin': 'Phaser.Time.Clock',
};

// The row that a prompt means: a method may be written with a dot.
function rowOf(types, symbol) {
  const name = RENAMED[symbol] || symbol;
  const direct = types.rows.get(name);
  if (direct) return direct;
  const match = /^(.*)[#.](\w+)$/.exec(name);
  return match ? types.member(match[1], match[2]) : null;
}

// Whether a use in live code is a use of the symbol.
function isUsed(types, symbol, uses, listeners) {
  const row = rowOf(types, symbol);
  if (!row) return false;
  if (row.kind === 'event' && listeners.has(row.value)) return true;
  return uses.some(({ row: used, owner, returned }) => {
    if (used.symbol_id === row.symbol_id) return true;
    if (row.kind === 'class') {
      return (returned && types.lineage(returned).includes(row.symbol_id)) || (owner && types.lineage(owner).includes(row.symbol_id) && used.kind !== 'property');
    }
    return row.kind === 'namespace' && (used.owner === row.symbol_id || used.symbol_id.startsWith(`${row.symbol_id}.`));
  });
}

function analyse(job, types) {
  const parsed = parse(job.code);
  if (parsed.error) return { parse_error: parsed.error };
  const { ast, isModule } = parsed;
  if (ast.body.every((node) => node.type === 'EmptyStatement' || node.directive !== undefined)) {
    return { parse_error: { message: 'there is no code', line: 1, column: 0 } };
  }
  const declared = declaredNames(ast);
  const safety = checkSafety(ast, declared);
  const live = new Liveness(ast);
  const { hits, misses, uses, games } = apiUsage(ast, job.code, types, live);
  const signals = sourceSignals(ast, live, games);
  const messages = job.skip_eslint ? null : lint(job.code, isModule);
  const listeners = listenedEvents(ast, live);
  return {
    safety,
    signals,
    eslint: messages,
    hits: hits.slice(0, MAX_USES),
    misses: misses.slice(0, MAX_USES),
    must_use_unknown: job.must_use.filter((symbol) => !rowOf(types, symbol)),
    must_use: job.must_use.filter((symbol) => isUsed(types, symbol, uses, listeners)),
    needs_webgl: someLive(ast, live, needsWebgl),
    is_module: isModule,
    reads_input: someLive(ast, live, readsInput),
  };
}

function main(indexFile) {
  const types = new ApiTypes(indexFile);
  send({ ready: process.version });
  for (let job = receive(); job !== null; job = receive()) {
    let result;
    try {
      result = analyse(job, types);
    } catch (error) {
      result = { failed: error instanceof RangeError ? 'too_complex' : `${error.stack}`.slice(0, 600) };
    }
    send(result);
  }
}

main(process.argv[2]);
