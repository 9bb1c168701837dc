const code = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]);
new WebAssembly.Instance(new WebAssembly.Module(code));
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); } } });
