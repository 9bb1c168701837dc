const game = new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); }, update() { null.x; } } });
game.scene.scenes = new Proxy([], { get(target, name) { return name === 'length' ? 0 : target[name]; } });
game.scene.update = () => {};
game.loop.callback = () => {};
