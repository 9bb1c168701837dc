class Paint extends Phaser.Scene {
  preload() {
    const g = this.make.graphics({ add: false });
    g.fillStyle(0xff00ff).fillCircle(8, 8, 8).generateTexture('brush', 16, 16);
  }

  create() {
    this.surface = this.add.renderTexture(150, 100, 300, 200);
    this.surface.fill(0x101010);
    this.strokes = 0;
    this.input.on('pointermove', (pointer) => {
      if (pointer.isDown) {
        this.surface.draw('brush', pointer.x, pointer.y);
        this.strokes += 1;
        window.__signals__ = { strokes: this.strokes };
      }
    });
  }
}

new Phaser.Game({ width: 300, height: 200, scene: Paint });
