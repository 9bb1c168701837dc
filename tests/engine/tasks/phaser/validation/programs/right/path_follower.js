class Follow extends Phaser.Scene {
  create() {
    const path = new Phaser.Curves.Path(50, 250);
    path.lineTo(150, 60);
    path.splineTo([200, 120, 260, 60, 350, 200]);
    const lines = this.add.graphics();
    lines.lineStyle(2, 0xffffff, 0.5);
    path.draw(lines, 64);
    this.follower = { t: 0, point: new Phaser.Math.Vector2() };
    this.tweens.add({ targets: this.follower, t: 1, duration: 900, repeat: -1 });
    this.marker = this.add.circle(0, 0, 8, 0xff66aa);
    this.path = path;
  }

  update() {
    this.path.getPoint(this.follower.t, this.follower.point);
    this.marker.setPosition(this.follower.point.x, this.follower.point.y);
  }
}

new Phaser.Game({ width: 400, height: 300, scene: Follow });
