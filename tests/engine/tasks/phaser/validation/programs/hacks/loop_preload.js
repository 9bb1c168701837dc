new Phaser.Game({ scene: { preload() { while (true) {} }, create() { this.add.text(1, 1, 'x'); } } });
