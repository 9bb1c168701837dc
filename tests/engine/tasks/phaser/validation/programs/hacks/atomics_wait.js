const lock = new Int32Array(new SharedArrayBuffer(4));
Atomics.wait(lock, 0, 0);
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); } } });
