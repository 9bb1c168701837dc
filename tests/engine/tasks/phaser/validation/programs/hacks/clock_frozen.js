window.requestAnimationFrame = () => 1;
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); }, update() { null.x; } } });
