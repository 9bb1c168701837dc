const game = new Phaser.Game({ width: 200, height: 150, scene: [] });

class Late extends Phaser.Scene {
  create(data) {
    this.add.text(10, 10, data.message);
  }
}

game.scene.add('late', Late, true, { message: 'added later' });
