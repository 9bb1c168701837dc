class Panels extends Phaser.Scene {
  create() {
    this.add.grid(160, 100, 320, 200, 20, 20, 0x222222, 1, 0x333333);
    this.add.ellipse(80, 100, 60, 30, 0xaa55aa);
    this.add.polygon(200, 100, [0, 40, 20, 0, 40, 40], 0x55aa55);
    this.add.line(0, 0, 10, 180, 310, 180, 0xffffff).setOrigin(0);
    this.add.triangle(280, 60, 0, 30, 30, 30, 15, 0, 0xdddd44);
    this.add.isobox(260, 150, 40, 20, 0x88aaff, 0x6688dd, 0x4466bb);
    this.add.curve(40, 40, new Phaser.Curves.Ellipse(0, 0, 20));
  }
}

new Phaser.Game({ width: 320, height: 200, scene: [Panels] });
