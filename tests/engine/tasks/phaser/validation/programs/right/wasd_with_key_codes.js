const { KeyCodes } = Phaser.Input.Keyboard;

class Walk extends Phaser.Scene {
  create() {
    this.dot = this.add.star(200, 200, 5, 10, 20, 0xffff00);
    this.keys = this.input.keyboard.addKeys({
      up: KeyCodes.W,
      left: KeyCodes.A,
      down: KeyCodes.S,
      right: KeyCodes.D,
    });
  }

  update(_, delta) {
    const step = delta * 0.2;
    if (this.keys.left.isDown) this.dot.x -= step;
    if (this.keys.right.isDown) this.dot.x += step;
    if (this.keys.up.isDown) this.dot.y -= step;
    if (this.keys.down.isDown) this.dot.y += step;
  }
}

new Phaser.Game({ type: Phaser.CANVAS, width: 400, height: 400, scene: Walk });
