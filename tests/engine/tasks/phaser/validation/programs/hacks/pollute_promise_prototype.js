const base = Object.getPrototypeOf(Promise.resolve());
Reflect.set(base, 'then', function () { return this; });
new Phaser.Game({ scene: { async create() { this.add.text(1, 1, 'x'); await null; null.x; } } });
