new Phaser.Game({ scene: { create() { const t = this.add.text(1, 1, 'x'); this.tweens.add({ targets: t, x: 9, duration: 50, onComplete: () => { for (;;) {} } }); } } });
