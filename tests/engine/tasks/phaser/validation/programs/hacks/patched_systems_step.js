try {
  Phaser.Scenes.Systems.prototype.step = function () {};
} finally {
  new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); }, update() { null.x; } } });
}
