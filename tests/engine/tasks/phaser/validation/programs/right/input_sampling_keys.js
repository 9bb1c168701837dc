class Sampler extends Phaser.Scene {
  create() {
    this.jumps = 0;
    this.space = this.input.keyboard.addKey(Phaser.Input.Keyboard.KeyCodes.SPACE);
    this.pointerText = this.add.text(10, 10, '');
    this.input.keyboard.on('keyup-ENTER', () => {
      this.jumps = 0;
    });
  }

  update() {
    if (Phaser.Input.Keyboard.JustDown(this.space)) this.jumps += 1;
    const { x, y, isDown } = this.input.activePointer;
    this.pointerText.setText(`${Math.round(x)} ${Math.round(y)} ${isDown} ${this.jumps}`);
  }
}

new Phaser.Game({ width: 260, height: 120, scene: Sampler });
