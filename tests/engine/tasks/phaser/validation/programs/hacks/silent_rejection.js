new Phaser.Game({ scene: { async create() { this.add.text(1, 1, 'x'); await Promise.reject(new Error('failed')); } } });
