class Main extends Phaser.Scene {
  init() { this.sys.game.destroy(true); }
  create() { this.add.text(1, 1, 'x'); }
  update() { null.x; }
}
new Phaser.Game({ scene: Main });
