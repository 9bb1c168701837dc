class Rain extends Phaser.Scene {
  create() {
    this.drops = this.add.group({ defaultKey: '__WHITE', maxSize: 40 });
    this.time.addEvent({ delay: 50, loop: true, callback: this.spawn, callbackScope: this });
  }

  spawn() {
    const drop = this.drops.get(Phaser.Math.RND.between(0, 300), -10);
    if (!drop) return;
    drop.setActive(true).setVisible(true).setDisplaySize(2, 10);
  }

  update(time, delta) {
    this.drops.children.each((drop) => {
      if (!drop.active) return;
      drop.y += delta * 0.3;
      if (drop.y > 210) this.drops.killAndHide(drop);
    });
    window.__signals__ = { active: this.drops.countActive() };
  }
}

new Phaser.Game({ width: 300, height: 200, scene: Rain });
