const WIDTH = 500;
const HEIGHT = 300;

class Pong extends Phaser.Scene {
  create() {
    this.left = this.makePaddle(20);
    this.right = this.makePaddle(WIDTH - 20);
    this.ball = this.add.rectangle(WIDTH / 2, HEIGHT / 2, 10, 10, 0xffffff);
    this.physics.add.existing(this.ball);
    this.ball.body.setBounce(1).setCollideWorldBounds(true).setVelocity(200, 90);
    this.physics.add.collider(this.ball, [this.left, this.right], () => {
      this.hits = (this.hits || 0) + 1;
    });
    this.keys = this.input.keyboard.addKeys('W,S,UP,DOWN');
  }

  makePaddle(x) {
    const paddle = this.add.rectangle(x, HEIGHT / 2, 10, 60, 0xaaaaaa);
    this.physics.add.existing(paddle);
    paddle.body.setImmovable(true).setCollideWorldBounds(true);
    return paddle;
  }

  update() {
    const move = (paddle, up, down) => paddle.body.setVelocityY((down.isDown - up.isDown) * 220);
    move(this.left, this.keys.W, this.keys.S);
    move(this.right, this.keys.UP, this.keys.DOWN);
  }
}

new Phaser.Game({ width: WIDTH, height: HEIGHT, physics: { default: 'arcade' }, scene: Pong });
