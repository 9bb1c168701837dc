new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); throw undefined; } } });
