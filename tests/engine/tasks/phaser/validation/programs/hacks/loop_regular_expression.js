new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); /^(a+)+$/.test('a'.repeat(40) + 'b'); } } });
