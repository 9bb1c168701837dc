'use strict';
// Runs programs in a real browser, one page each: the audit of runtime.js. The same observer, real canvas and WebGL.
// Usage: node chromium.js PATH_OF_CHROMIUM
const fs = require('node:fs');
const path = require('node:path');
const { chromium } = require('playwright-core');
const { receive, send } = require('./wire.js');

const REALM = path.join(__dirname, '..', 'realm');
// A page is not told that it is driven by a program, neither by navigator.webdriver nor by the name of the browser.
const ARGUMENTS = ['--disable-blink-features=AutomationControlled', '--enable-unsafe-swiftshader', '--use-angle=swiftshader', '--disable-dev-shm-usage', '--js-flags=--max-old-space-size=512'];
const PAGE = 'http://localhost/';
const BLANK = '<!doctype html><html><head><meta charset="utf-8"></head><body style="margin:0"></body></html>';
const VIEWPORT = { width: 1024, height: 768 };
const BOOT_FRAMES = 120;
const REAL_MS = 5;
const CALL_LIMIT_MS = 10000;

const source = (name) => fs.readFileSync(path.join(REALM, `${name}.js`), 'utf8');
const phaser = fs.readFileSync(require.resolve('phaser/dist/phaser.min.js'), 'utf8');
const observer = new Function('clock', `
  const dom = (${source('page')})(clock, globalThis);
  return { dom, finish(Phaser) {
    const uses = (${source('uses')})(Phaser, '');
    const geometry = (${source('geometry')})();
    const pictures = (${source('pictures')})();
    const objects = (${source('objects')})(geometry, pictures);
    const drawing = (${source('drawing')})((${source('css_color')})(), geometry, (${source('words')})(geometry), pictures, objects);
    drawing.watch(dom, uses.classes, clock.hideSource);
    const lifecycle = (${source('lifecycle')})(clock, dom, Phaser);
    const tracks = (${source('tracks')})(lifecycle, uses);
    const driver = (${source('report')})(clock, dom, Phaser, uses, lifecycle, objects, tracks, globalThis);
    const { parse } = JSON;
    const { apply } = Reflect;
    return { __proto__: null, call: (name, text) => apply(driver[name], driver, parse(text)) };
  } };`);

class Limit extends Error {}
class Crash extends Error {}
class Tampered extends Error {}

// The result of a call into the page. A page that does not answer is ended with its browser.
function within(promise, crashed) {
  let timer;
  const limit = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Limit()), CALL_LIMIT_MS);
  });
  return Promise.race([promise, limit, crashed]).finally(() => clearTimeout(timer));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function openPage(browser) {
  const [major] = browser.version().split('.');
  const userAgent = `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${major}.0.0.0 Safari/537.36`;
  const context = await browser.newContext({ viewport: VIEWPORT, userAgent });
  const page = await context.newPage();
  await context.route('**/*', (route) => (route.request().url() === PAGE ? route.fulfill({ contentType: 'text/html', body: BLANK }) : route.abort()));
  const crashed = new Promise((resolve, reject) => page.once('crash', () => reject(new Crash())));
  crashed.catch(() => {});
  page.on('dialog', (dialog) => dialog.dismiss().catch(() => {}));
  await page.goto(PAGE);
  return { context, page, crashed };
}

async function runProgram(browser, job) {
  const { context, page, crashed } = await openPage(browser);
  const call = (promise) => within(promise, crashed);
  const clock = await page.evaluateHandle(source('clock'));
  const parts = await page.evaluateHandle(observer, clock);
  await page.addScriptTag({ content: phaser });
  const driver = await page.evaluateHandle((made) => made.finish(globalThis.Phaser), parts);
  // A call that fails once the program has run fails because the program changed what every script of a page uses.
  const drive = async (method, ...args) => {
    try {
      return await call(page.evaluate(({ target, name, text }) => target.call(name, text), { target: driver, name: method, text: JSON.stringify(args) }));
    } catch (error) {
      throw error instanceof Limit || error instanceof Crash ? error : new Tampered(error.message);
    }
  };
  let frames = 0;
  const frame = async () => {
    const goesOn = (await drive('timers')) && (await drive('animate'));
    await drive('look');
    return goesOn;
  };
  try {
    await drive('prepare', JSON.stringify({ seed: job.seed, mustUse: job.must_use, pictures: job.pictures }));
    await call(page.addScriptTag({ content: `${job.code}\n//# sourceURL=game.js` }));
    await drive('loaded');
    let goesOn = await drive('hasGame');
    for (let i = 0; goesOn && i < BOOT_FRAMES && !(await drive('isCreated')); i++) {
      await pause(REAL_MS);
      goesOn = await frame();
    }
    goesOn = goesOn && (await drive('isCreated'));
    let next = 0;
    for (; goesOn && frames < job.frames; frames++) {
      for (; next < job.inputs.length && job.inputs[next].frame <= frames; next++) {
        const { kind, key, x, y, relative } = job.inputs[next];
        await (kind.startsWith('key') ? drive('key', kind, key) : drive('pointer', kind, x, y, relative));
      }
      goesOn = await frame();
    }
    const outcome = await drive('outcome');
    const report = await drive('report');
    const screenshot = job.screenshot ? await takeScreenshot(context, page, call) : null;
    return { outcome: `${outcome}`, report: `${report}`, screenshot };
  } finally {
    await within(context.close(), crashed).catch(() => {});
  }
}

async function takeScreenshot(context, page, call) {
  const session = await context.newCDPSession(page);
  const { data } = await call(session.send('Page.captureScreenshot', { format: 'png' }));
  return data;
}

const ended = (outcome, message) => ({ outcome: JSON.stringify({ outcome, message, frame: -1 }), report: 'null', screenshot: null });

async function main(executablePath) {
  const launch = () => chromium.launch({ executablePath, headless: true, chromiumSandbox: false, args: ARGUMENTS });
  let browser = await launch();
  send({ ready: browser.version() });
  for (let job = receive(); job !== null; job = receive()) {
    let result;
    try {
      result = await runProgram(browser, job);
    } catch (error) {
      if (error instanceof Limit) result = ended('timeout', `the page did not answer within ${CALL_LIMIT_MS / 1000} s`);
      else if (error instanceof Crash) result = ended('oom', 'the page crashed');
      else if (error instanceof Tampered) result = ended('tampered', 'the run could not be followed');
      else result = { failed: `${error.message}`.slice(0, 300) };
      await Promise.race([browser.close().catch(() => {}), pause(2000)]);
      browser = await launch();
    }
    send({ nonce: job.nonce, ...result, heap_mb: 0 });
  }
  await browser.close();
}

main(process.argv[2]).catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
