'use strict';
// Runs programs, one realm each. It reports facts; the verdict is formed by the process that started it.
const v8 = require('node:v8');
const { receive, send } = require('./wire.js');
const { RealmFactory } = require('./realm.js');

const BOOT_FRAMES = 120;
const PROGRESS_FRAMES = 10;

function dispatch(driver, event) {
  if (event.kind === 'keydown' || event.kind === 'keyup') driver.key(event.kind, event.key);
  else driver.pointer(event.kind, event.x, event.y, event.relative);
}

// The driver does not throw. If it does, the program has changed what it relies on; what was thrown is the program's, and
// is not looked at.
function runProgram(realm, job) {
  try {
    return facts(realm, job);
  } catch {
    return { nonce: job.nonce, outcome: '{"outcome":"tampered","message":"the run could not be followed","frame":-1}', report: 'null' };
  }
}

function facts(realm, job) {
  const { driver } = realm;
  const progress = (phase, frame) => send({ nonce: job.nonce, phase, frame });
  driver.prepare(JSON.stringify({ seed: job.seed, mustUse: job.must_use, pictures: job.pictures }));
  progress('script', 0);
  try {
    realm.run(job.code);
  } catch (error) {
    driver.scriptError(error);
  }
  realm.drain();
  driver.loaded();
  progress('boot', 0);
  const frame = () => {
    let goesOn = driver.timers();
    realm.drain();
    goesOn = goesOn && driver.animate();
    realm.drain();
    driver.look();
    return goesOn;
  };
  let goesOn = driver.hasGame();
  for (let i = 0; goesOn && i < BOOT_FRAMES && !driver.isCreated(); i++) goesOn = frame();
  goesOn = goesOn && driver.isCreated();
  let next = 0;
  for (let number = 0; goesOn && number < job.frames; number++) {
    if (number % PROGRESS_FRAMES === 0) progress('update', number);
    for (; next < job.inputs.length && job.inputs[next].frame <= number; next++) dispatch(driver, job.inputs[next]);
    goesOn = frame();
  }
  progress('report', 0);
  return { nonce: job.nonce, outcome: `${driver.outcome()}`, report: `${driver.report()}` };
}

function main() {
  const factory = new RealmFactory();
  let realm = factory.make();
  send({ ready: process.version });
  for (let job = receive(); job !== null; job = receive()) {
    const result = runProgram(realm, job);
    const { user, system } = process.cpuUsage();
    const { used_heap_size: heap, external_memory: external } = v8.getHeapStatistics();
    send({ ...result, cpu_s: (user + system) / 1e6, heap_mb: (heap + external) / 2 ** 20 });
    realm = factory.make();
  }
}

main();
