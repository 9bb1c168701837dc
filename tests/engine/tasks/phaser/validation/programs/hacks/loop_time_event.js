new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); this.time.delayedCall(100, () => { for (;;) {} }); } } });
