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
const { isUsed, rowOf } = require('./must_use.js');
const { lint, configHash } = require('./lint.js');
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

// Whether there are effects, shaders or pipelines, which a canvas does not have.
function needsWebgl(ast, live) {
  let needs = false;
  walk.full(ast, (node) => {
    const name = live.has(node) ? propertyName(node) : null;
    needs = needs || WEBGL_NAMES.test(name || '') || (name === 'shader' && propertyName(node.object) === 'add');
  });
  return needs;
}

// Whether a program may listen for keys or the pointer: anything named input, or a listener of the page.
function readsInput(ast, live) {
  let reads = false;
  walk.full(ast, (node) => {
    reads = reads || (live.has(node) && INPUT_NAMES.test(propertyName(node) || (node.type === 'Property' && node.key.name) || ''));
  });
  return reads;
}

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

function analyse(job, types) {
  const seconds = {};
  let mark = process.hrtime.bigint();
  const lap = (stage) => {
    const now = process.hrtime.bigint();
    seconds[stage] = Number(now - mark) / 1e9;
    mark = now;
  };
  const parsed = parse(job.code);
  lap('parse');
  if (parsed.error) return { parse_error: parsed.error, seconds };
  const { ast, isModule } = parsed;
  if (ast.body.every((node) => node.type === 'EmptyStatement' || node.directive !== undefined)) {
    return { parse_error: { message: 'there is no code', line: 1, column: 0 }, seconds };
  }
  const declared = declaredNames(ast);
  const safety = checkSafety(ast, declared);
  lap('safety');
  const live = new Liveness(ast);
  const { hits, misses, uses, games } = apiUsage(ast, job.code, types, live);
  lap('api');
  const signals = sourceSignals(ast, live, games);
  lap('signals');
  const messages = job.skip_eslint ? null : lint(job.code, isModule);
  lap('eslint');
  const listeners = listenedEvents(ast, live);
  return {
    safety,
    signals,
    eslint: messages,
    hits: hits.slice(0, MAX_USES),
    misses: misses.slice(0, MAX_USES),
    must_use_unknown: job.must_use.filter((symbol) => !rowOf(types, symbol)),
    must_use: job.must_use.filter((symbol) => isUsed(types, symbol, uses, listeners)),
    needs_webgl: needsWebgl(ast, live),
    is_module: isModule,
    reads_input: readsInput(ast, live),
    seconds,
  };
}

function main(indexFile) {
  const types = new ApiTypes(indexFile);
  send({ ready: process.version, eslint_config: configHash() });
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
