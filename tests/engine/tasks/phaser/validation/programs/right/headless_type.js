class Quiet extends Phaser.Scene {
  create() {
    const g = this.add.graphics();
    g.fillStyle(0xffffff, 1);
    g.fillRect(0, 0, 8, 8);
    g.generateTexture('pixel', 8, 8);
    this.dots = this.add.group();
    for (let i = 0; i < 10; i++) this.dots.add(this.add.image(20 + i * 20, 50, 'pixel'));
  }

  update() {
    Phaser.Actions.IncXY(this.dots.getChildren(), 0, 0.5);
  }
}

new Phaser.Game({ type: Phaser.HEADLESS, width: 240, height: 160, scene: Quiet });
