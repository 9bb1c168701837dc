'use strict';
// Runs games in Chromium, each in a fresh context of one browser, and reports what a person could see. Pictures, errors
// and processor time come from the protocol of the browser, not from the page.
// Usage: node browser.js PATH_OF_CHROMIUM
const fs = require('node:fs');
const path = require('node:path');
const { chromium } = require('playwright-core');
const { Picture, areDifferent, isBlank, namedColors } = require('./pictures.js');
const { isPhaser } = require('./parse.js');
const { receive, send } = require('./wire.js');

// The limit of the heap is that of a process of a page; the driver sees a process that passes it crash. WebGL needs a GPU
// that the processor emulates. The pictures of a page are put together without it, in a tenth of its time.
const ARGUMENTS = ['--disable-dev-shm-usage', '--enable-unsafe-swiftshader', '--use-angle=swiftshader', '--disable-gpu-compositing', '--js-flags=--max-old-space-size=512', '--autoplay-policy=no-user-gesture-required'];
const ORIGIN = 'http://localhost/';
// Besides the network, which the sandbox has not: no code from strings, no workers, no frames, no WebAssembly.
const POLICY = "default-src 'none'; script-src * 'unsafe-inline' blob: data:; style-src 'unsafe-inline'; img-src data: blob:; media-src data: blob:; font-src data:; connect-src data: blob:; worker-src 'none'";
const page = (isModule) =>
  '<!doctype html><html><head><meta charset="utf-8"><script type="importmap">{"imports":{"phaser":"/module/phaser.js"}}</script></head>' +
  `<body style="margin:0"><script src="phaser.js"></script><script ${isModule ? 'type="module" ' : ''}src="game.js"></script></body></html>`;
const VIEWPORT = { width: 1024, height: 768 };
const BOOT_FRAMES = 120;
const SILENT_FRAMES = 15;
const LOAD_MS = 10000;
const LOADING_MS = 2000; // in all frames of a run
const CLOSE_MS = 2000;
const POLL_MS = 200;
const CALL_LIMIT_S = 2; // of processor time, for one frame or event
const BUSY_FACTOR = 15; // wall-clock seconds that a second of processor time may take
const MAX_RUNS = 200;
const MAX_LOGS = 50;
const MAX_TEXT = 300;

const phaserSource = fs.readFileSync(require.resolve('phaser/dist/phaser.min.js'), 'utf8');
const pageSource = fs.readFileSync(path.join(__dirname, 'page.js'), 'utf8');
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Each key of a usual game held for four frames, then clicks and a drag; places are shares of the canvas.
const INPUTS = [];
['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'Space', 'a', 'd', 'w', 's', 'Enter'].forEach((key, index) => {
  INPUTS.push({ frame: 10 + 2 * index, act: (page) => page.keyboard.down(key) }, { frame: 14 + 2 * index, act: (page) => page.keyboard.up(key) });
});
for (const [frame, kind, x, y] of [[34, 'move', 0.5, 0.5], [36, 'down'], [38, 'move', 0.6, 0.6], [40, 'move', 0.65, 0.6], [42, 'up'], [43, 'move', 0.25, 0.5], [44, 'down'], [46, 'up']]) {
  INPUTS.push({ frame, act: (page, box) => (kind === 'move' ? page.mouse.move(box.x + x * box.width, box.y + y * box.height) : page.mouse[kind]()) });
}

// The end of a run. `name` is one of RuntimeOutcome.
class Ended extends Error {
  constructor(name, message, frame) {
    super(`${message}`.slice(0, MAX_TEXT));
    Object.assign(this, { name, frame });
  }
}
class Crash extends Error {}

// Rejects when the processes of pages have used too much processor time, or the browser has crashed.
class Watch {
  constructor(browser, session, limitS) {
    Object.assign(this, { browser, session, limitS, started: Date.now(), before: null, calls: 0 });
    this.failed = new Promise((resolve, reject) => { this.fail = reject; });
    this.failed.catch(() => {});
    this.onGone = () => this.fail(new Crash('the browser crashed'));
    browser.once('disconnected', this.onGone);
  }

  async start() {
    this.before = await this.times();
    let [call, atCall] = [0, 0];
    this.timer = setInterval(async () => {
      const times = await this.times().catch(() => null);
      if (!times) return;
      let used = 0;
      for (const [id, time] of times) used += Math.max(0, time - (this.before.get(id) || 0));
      if (call !== this.calls) [call, atCall] = [this.calls, used];
      if (used > this.limitS || used - atCall > CALL_LIMIT_S) this.fail(new Ended('timeout', `it took more than ${used > this.limitS ? this.limitS : CALL_LIMIT_S} s of processor time`));
      else if (Date.now() - this.started > 1000 * BUSY_FACTOR * this.limitS) this.fail(new Error('the machine is too busy'));
    }, POLL_MS);
  }

  async times() {
    const { processInfo } = await this.session.send('SystemInfo.getProcessInfo');
    return new Map(processInfo.filter(({ type }) => type === 'renderer').map(({ id, cpuTime }) => [id, cpuTime]));
  }

  within(promise) {
    this.calls += 1;
    return Promise.race([promise, this.failed]);
  }

  stop() {
    clearInterval(this.timer);
    this.browser.off('disconnected', this.onGone);
  }
}

// One run of a program in a page.
class Run {
  constructor(browser, watch, job) {
    Object.assign(this, { browser, watch, job, errors: [], logs: [], requests: [], frame: -1, waited: 0, state: { phase: 'script' } });
  }

  async open() {
    this.context = await this.browser.newContext({ viewport: VIEWPORT });
    this.page = await this.context.newPage();
    this.page.once('crash', () => this.watch.fail(new Crash('the page crashed')));
    this.page.on('dialog', (dialog) => dialog.dismiss().catch(() => {}));
    this.session = await this.context.newCDPSession(this.page);
    this.session.on('Runtime.exceptionThrown', ({ exceptionDetails }) => this.errors.push(errorText(exceptionDetails)));
    this.session.on('Runtime.consoleAPICalled', ({ args }) => {
      if (this.logs.length < MAX_LOGS) this.logs.push(args.map(({ value, description }) => `${value ?? description ?? ''}`).join(' ').slice(0, MAX_TEXT));
    });
    await this.session.send('Runtime.enable');
    const files = {
      '': () => ({ contentType: 'text/html', body: page(this.job.is_module), headers: { 'Content-Security-Policy': POLICY } }),
      'phaser.js': async () => {
        const { result } = await this.session.send('Runtime.evaluate', { expression: pageSource });
        this.objectId = result.objectId;
        await this.call('prepare', this.job.seed, this.job.webgl);
        return { contentType: 'text/javascript', body: `${phaserSource}\nphaserLoaded();` };
      },
      'game.js': () => ({ contentType: 'text/javascript; charset=utf-8', body: this.job.code }),
    };
    // Each file is sent once: a page that loads itself again does not start again.
    const answer = async (route) => {
      const url = route.request().url();
      const name = url.slice(ORIGIN.length);
      const file = files[name] || (isPhaser(url) && (() => this.phaserModule()));
      delete files[name];
      if (!file) this.requests.push(url.slice(0, MAX_TEXT));
      if (file) await route.fulfill(await file());
      else await route.abort();
    };
    await this.context.route('**/*', (route) => answer(route).catch((error) => this.watch.fail(error)));
    await this.page.goto(ORIGIN, { timeout: 0, waitUntil: 'domcontentloaded' });
    await this.page.waitForLoadState('load', { timeout: LOAD_MS }).catch(() => {}); // a program can open its document again
  }

  // What an import of Phaser gives, wherever it is imported from.
  async phaserModule() {
    const { result } = await this.session.send('Runtime.evaluate', { expression: 'Object.keys(Phaser).join()' });
    const body = `const { Phaser } = globalThis; export default Phaser; export const { ${result.value} } = Phaser; export { Phaser };`;
    return { contentType: 'text/javascript', body, headers: { 'Access-Control-Allow-Origin': '*' } };
  }

  // Call a method of the object in the page. An error of the game's code, which it runs, ends the run.
  async call(method, ...args) {
    const { result, exceptionDetails } = await this.session
      .send('Runtime.callFunctionOn', {
        objectId: this.objectId, functionDeclaration: `function (...args) { return this.${method}(...args); }`, arguments: args.map((value) => ({ value })), returnByValue: true,
      })
      .catch((error) => {
        throw /find (?:context|object)|destroyed|navigated/i.test(error.message) ? new Ended('tampered', 'the program left its page') : error;
      });
    if (exceptionDetails) this.errors.push(errorText(exceptionDetails));
    return result.value;
  }

  // Ends the run after an error. The page says in which phase it was.
  async check(text) {
    if (this.errors.length) {
      const { phase } = JSON.parse(await this.call('state'));
      throw new Ended(`${phase}_error`, this.errors[0], this.frame);
    }
    this.state = JSON.parse(text);
    const { missing, created } = this.state;
    if (missing) throw new Ended(created ? 'update_error' : 'create_error', missing, this.frame);
  }

  async step() {
    for (; this.state.loading > 0 && this.waited < LOADING_MS; this.waited++) {
      await pause(1);
      await this.check(await this.call('state'));
    }
    await this.check(await this.call('step'));
  }

  async play(withInput) {
    const within = (promise) => this.watch.within(promise);
    await within(this.open());
    await within(this.call('state').then((text) => this.check(text)));
    for (let i = 0; i < BOOT_FRAMES && !this.state.created; i++) await within(this.step());
    if (!this.state.games) throw new Ended('no_game', 'no game was started with new Phaser.Game');
    if (!this.state.created) throw new Ended('no_scene', 'no scene of the program reached create');
    const inputs = withInput ? [...INPUTS] : [];
    const { frames } = this.job;
    const shown = new Set([1, 2, 3].map((third) => Math.max(1, Math.round((frames * third) / 3))));
    const pictures = [];
    let [steps, silent] = [this.state.steps, 0];
    for (this.frame = 0; this.frame < frames; ) {
      for (; inputs.length && inputs[0].frame <= this.frame; inputs.shift()) {
        const box = await within(this.canvasBox());
        if (box) await within(inputs[0].act(this.page, box));
      }
      await within(this.step());
      this.frame += 1;
      silent = this.state.steps === steps ? silent + 1 : 0;
      ({ steps } = this.state);
      if (silent > SILENT_FRAMES) throw new Ended('stopped', 'the program stopped the game loop', this.frame - silent);
      if (shown.has(this.frame)) pictures.push(await within(this.picture()));
    }
    await within(this.call('state').then((text) => this.check(text)));
    return pictures.filter(Boolean);
  }

  // The place of the largest canvas in the window; null if there is none.
  async canvasBox() {
    const { root } = await this.session.send('DOM.getDocument', { depth: 0 });
    const { nodeIds } = await this.session.send('DOM.querySelectorAll', { nodeId: root.nodeId, selector: 'canvas' });
    let largest = null;
    for (const nodeId of nodeIds) {
      const { model } = await this.session.send('DOM.getBoxModel', { nodeId }).catch(() => ({ model: null }));
      if (!model) continue;
      const [left, top, , , right, bottom] = model.content;
      const [x, y] = [Math.max(0, left), Math.max(0, top)];
      const box = { x, y, width: Math.min(VIEWPORT.width, right) - x, height: Math.min(VIEWPORT.height, bottom) - y };
      if (box.width >= 1 && box.height >= 1 && (!largest || box.width * box.height > largest.width * largest.height)) largest = box;
    }
    return largest;
  }

  async picture() {
    const box = await this.canvasBox();
    if (!box) return null;
    const { data } = await this.session.send('Page.captureScreenshot', { format: 'png', optimizeForSpeed: true, clip: { ...box, scale: 1 } });
    this.screenshot = data;
    return new Picture(data);
  }

  async report() {
    return { frames: Math.max(0, this.frame), scenes: JSON.parse(await this.call('scenes')), console: this.logs, requests: this.requests.slice(0, MAX_LOGS) };
  }
}

function errorText({ text, exception }) {
  const { className, description, value } = exception || {};
  const shown = description || (value === undefined ? className : `${value}`) || text;
  const place = /game\.js:(\d+)/.exec(description || '');
  return `${`${shown}`.split('\n')[0].slice(0, MAX_TEXT - 20)}${place ? ` (line ${place[1]})` : ''}`;
}

// A run without input, and one with keys and clicks if the program listens for any.
async function play(browser, cdp, job) {
  const watch = new Watch(browser, cdp, job.limit_s);
  const runs = [];
  const seen = { shows: false, moves: false, reacts: null, colors: [], renderer: job.webgl ? 'webgl' : 'canvas' };
  let ended = { name: 'ok', message: '', frame: -1 };
  try {
    await watch.start();
    let still = [];
    for (const withInput of job.reads_input ? [false, true] : [false]) {
      const run = new Run(browser, watch, job);
      runs.push(run);
      const pictures = await run.play(withInput);
      seen.shows = seen.shows || pictures.some((picture) => !isBlank(picture));
      if (!withInput) {
        still = pictures;
        seen.moves = pictures.some((picture) => areDifferent(picture, pictures[0]));
        if (pictures.length) seen.colors = namedColors(pictures[pictures.length - 1]);
      } else {
        seen.reacts = pictures.length !== still.length || pictures.some((picture, i) => areDifferent(picture, still[i]));
      }
    }
    if (!seen.shows) ended = { name: 'nothing_shown', message: 'the picture of the game has one colour only', frame: -1 };
  } catch (error) {
    if (!(error instanceof Ended)) {
      watch.stop();
      throw error;
    }
    ended = error;
  }
  const last = runs[runs.length - 1];
  const facts = await watch.within(last.report()).catch(() => ({}));
  watch.stop();
  const result = { outcome: ended.name, message: ended.message, frame: ended.frame ?? last.frame, observed: { ...seen, ...facts }, screenshot: last.screenshot || null };
  const closed = Promise.all(runs.map(({ context }) => context && context.close())).then(() => true, () => false);
  return { result, isClosed: await Promise.race([closed, pause(CLOSE_MS)]) };
}

async function main(executablePath) {
  let [browser, cdp, runs] = [null, null, 0];
  const launch = async () => {
    if (browser) await Promise.race([browser.close().catch(() => {}), pause(CLOSE_MS)]);
    browser = await chromium.launch({ executablePath, headless: true, chromiumSandbox: false, args: ARGUMENTS });
    cdp = await browser.newBrowserCDPSession();
    runs = 0;
  };
  // A game that crashes the browser runs once more in a new one. If that crashes too, it is the game's fault.
  const answer = async (job) => {
    for (const attempt of [1, 2]) {
      try {
        const { result, isClosed } = await play(browser, cdp, job);
        runs += 1;
        if (!isClosed || runs >= MAX_RUNS) await launch();
        return result;
      } catch (error) {
        await launch();
        if (!(error instanceof Crash) && !/crash|closed/i.test(error.message)) return { failed: `${error.message}`.slice(0, MAX_TEXT) };
        if (attempt === 2) return { outcome: 'oom', message: 'the page crashed twice: out of memory?', frame: -1, observed: null, screenshot: null };
      }
    }
    throw new Error('unreachable');
  };
  await launch();
  send({ ready: browser.version() });
  for (let job = receive(); job !== null; job = receive()) send(await answer(job));
  await browser.close();
}

main(process.argv[2]).catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
