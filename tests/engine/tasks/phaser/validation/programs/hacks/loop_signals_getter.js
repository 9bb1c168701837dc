Object.defineProperty(window, '__signals__', { get() { for (;;) {} } });
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); } } });
