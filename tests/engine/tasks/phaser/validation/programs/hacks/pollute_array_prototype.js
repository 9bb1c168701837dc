const list = Object.getPrototypeOf([]);
Reflect.set(list, 'push', function () { return 0; });
Reflect.defineProperty(list, 0, { set() {}, get: () => 'forged', configurable: true });
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); null.x; } } });
