class Breakout extends Phaser.Scene {
  preload() {
    const g = this.make.graphics({ add: false });
    g.fillStyle(0xffffff).fillRect(0, 0, 40, 12).generateTexture('brick', 40, 12).clear();
    g.fillStyle(0xffee88).fillCircle(6, 6, 6).generateTexture('ball', 12, 12).clear();
    g.fillStyle(0x66aaff).fillRect(0, 0, 70, 10).generateTexture('paddle', 70, 10).destroy();
  }

  create() {
    this.physics.world.setBoundsCollision(true, true, true, false);
    this.bricks = this.physics.add.staticGroup({
      key: 'brick',
      frameQuantity: 24,
      gridAlign: { width: 8, height: 3, cellWidth: 48, cellHeight: 20, x: 40, y: 40 },
    });
    this.ball = this.physics.add.image(200, 250, 'ball').setCollideWorldBounds(true).setBounce(1);
    this.ball.setVelocity(90, -220);
    this.paddle = this.physics.add.image(200, 280, 'paddle').setImmovable();
    this.physics.add.collider(this.ball, this.bricks, (ball, brick) => brick.disableBody(true, true));
    this.physics.add.collider(this.ball, this.paddle, this.bounce, null, this);
    this.input.on('pointermove', ({ x }) => {
      this.paddle.x = Phaser.Math.Clamp(x, 35, 365);
    });
  }

  bounce(ball, paddle) {
    ball.setVelocityX(8 * (ball.x - paddle.x));
  }

  update() {
    if (this.ball.y > 300) this.ball.setPosition(200, 250);
    window.__signals__ = { bricks: this.bricks.countActive(true) };
  }
}

new Phaser.Game({ type: Phaser.WEBGL, width: 400, height: 300, physics: { default: 'arcade' }, scene: [Breakout] });
