'use strict';
// Frames over an inherited descriptor, by default 3: four bytes of length, big-endian, then JSON.
const fs = require('node:fs');

const CHANNEL = Number(process.env.PHASER_CHANNEL || 3);

function readExactly(size) {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at < size; ) {
    const count = fs.readSync(CHANNEL, bytes, at, size - at, null);
    if (count === 0) return null;
    at += count;
  }
  return bytes;
}

// The next message; null when the other side has closed the channel.
function receive() {
  const head = readExactly(4);
  const body = head && readExactly(head.readUInt32BE(0));
  return body && JSON.parse(body.toString('utf8'));
}

function send(message) {
  const body = Buffer.from(JSON.stringify(message), 'utf8');
  const frame = Buffer.alloc(4 + body.length);
  frame.writeUInt32BE(body.length, 0);
  body.copy(frame, 4);
  for (let at = 0; at < frame.length; ) at += fs.writeSync(CHANNEL, frame, at);
}

module.exports = { receive, send };
