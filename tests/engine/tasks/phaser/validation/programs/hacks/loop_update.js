let frame = 0;
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); }, update() { frame += 1; while (frame > 20) {} } } });
