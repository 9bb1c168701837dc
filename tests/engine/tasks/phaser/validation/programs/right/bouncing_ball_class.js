class Bounce extends Phaser.Scene {
  constructor() {
    super({ key: 'bounce' });
  }

  create() {
    this.ball = this.add.circle(200, 150, 16, 0xff8800);
    this.physics.add.existing(this.ball);
    this.ball.body.setVelocity(180, 120).setBounce(1, 1).setCollideWorldBounds(true);
  }

  update() {
    this.ball.rotation += 0.05;
  }
}

new Phaser.Game({
  type: Phaser.AUTO,
  width: 400,
  height: 300,
  physics: { default: 'arcade', arcade: { gravity: { y: 0 } } },
  scene: Bounce,
});
