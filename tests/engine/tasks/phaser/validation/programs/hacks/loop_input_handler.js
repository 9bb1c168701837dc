new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); this.input.on('pointerdown', () => { for (;;) {} }); } } });
