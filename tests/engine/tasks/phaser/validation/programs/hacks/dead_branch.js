const on = 0;
if (on > 0) {
  new Phaser.Game({ scene: { preload() {}, create() { this.add.text(1, 1, 'x'); }, update() {} } });
}
