class Main extends Phaser.Scene {
  constructor() { super({ key: 'main', active: false }); }
  preload() {}
  create() { this.add.graphics(); this.add.text(1, 1, 'x'); }
  update() {}
}
const game = new Phaser.Game({ width: 100, height: 100 });
game.scene.add('main', Main, false);
