class Field extends Phaser.Scene {
  constructor() {
    super('field');
  }

  create() {
    this.ball = this.add.circle(20, 60, 8, 0xffffff);
    this.time.delayedCall(200, () => {
      this.scene.pause();
      this.scene.launch('pause');
    });
  }

  update() {
    this.ball.x += 1;
  }
}

class Pause extends Phaser.Scene {
  constructor() {
    super('pause');
  }

  create() {
    this.add.text(60, 50, 'Paused');
    this.time.delayedCall(300, () => {
      this.scene.resume('field');
      this.scene.stop();
    });
  }
}

new Phaser.Game({ width: 200, height: 120, scene: [Field, Pause] });
