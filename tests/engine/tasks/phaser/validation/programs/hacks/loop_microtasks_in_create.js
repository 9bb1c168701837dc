new Phaser.Game({ scene: { async create() { this.add.text(1, 1, 'x'); for (;;) await null; } } });
