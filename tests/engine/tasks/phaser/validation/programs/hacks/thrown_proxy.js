const trap = new Proxy({}, { get(target, name) { return name === 'message' ? 'ok' : () => 'ok'; }, getPrototypeOf() { throw trap; } });
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); throw trap; } } });
