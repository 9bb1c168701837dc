class Masked extends Phaser.Scene {
  create() {
    const layer = this.add.layer();
    for (let i = 0; i < 8; i++) layer.add(this.add.rectangle(40 * i + 20, 100, 30, 160, 0x5577aa + i * 0x10));
    this.shape = this.make.graphics({ add: false });
    this.shape.fillStyle(0xffffff).fillCircle(0, 0, 70);
    this.shape.setPosition(160, 100);
    layer.setMask(this.shape.createGeometryMask());
  }

  update(time) {
    this.shape.x = 160 + Math.sin(time / 200) * 60;
  }
}

new Phaser.Game({ width: 320, height: 200, scene: Masked });
