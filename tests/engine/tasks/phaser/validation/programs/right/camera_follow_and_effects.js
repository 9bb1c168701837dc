class World extends Phaser.Scene {
  create() {
    for (let i = 0; i < 40; i++) {
      this.add.rectangle(Phaser.Math.Between(0, 1600), Phaser.Math.Between(0, 1200), 20, 20, 0x446688);
    }
    this.target = this.add.circle(400, 300, 14, 0xffaa00);
    const camera = this.cameras.main;
    camera.setBounds(0, 0, 1600, 1200);
    camera.startFollow(this.target, true, 0.1, 0.1);
    camera.fadeIn(300);
    this.time.delayedCall(500, () => camera.shake(100, 0.01));
    this.minimap = this.cameras.add(300, 10, 90, 70).setZoom(0.1).setName('mini');
    this.minimap.setBackgroundColor(0x002244);
  }

  update(time) {
    this.target.x = 400 + time / 4;
    this.cameras.main.zoom = 1 + Math.sin(time / 500) * 0.1;
  }
}

new Phaser.Game({ width: 400, height: 300, scene: World });
