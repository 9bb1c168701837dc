const target = Object.getPrototypeOf({});
Reflect.defineProperty(target, 'frame', { get: () => 60, set() {} });
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); null.x; } } });
