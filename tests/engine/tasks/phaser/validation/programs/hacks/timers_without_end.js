const spin = () => { setTimeout(spin, 0); for (let i = 0; i < 3e6; i++); };
for (let i = 0; i < 200; i++) spin();
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); } } });
