class Geometry extends Phaser.Scene {
  create() {
    this.area = new Phaser.Geom.Rectangle(50, 50, 200, 120);
    this.pen = this.add.graphics();
    this.points = Array.from({ length: 30 }, () => this.area.getRandomPoint());
    const distance = Phaser.Math.Distance.Between(0, 0, 3, 4);
    const angle = Phaser.Math.Angle.Between(0, 0, 1, 1);
    window.__signals__ = { distance, angle: Phaser.Math.RadToDeg(angle), inside: this.area.contains(100, 100) };
  }

  update(time) {
    this.pen.clear().lineStyle(1, 0xffffff).strokeRectShape(this.area);
    Phaser.Geom.Rectangle.Offset(this.area, Math.sin(time / 200), 0);
    this.pen.fillStyle(0xffcc00);
    for (const point of this.points) this.pen.fillPoint(point.x, point.y, 3);
  }
}

new Phaser.Game({ width: 320, height: 240, scene: Geometry });
