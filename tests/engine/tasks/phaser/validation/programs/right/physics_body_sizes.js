class Boxes extends Phaser.Scene {
  create() {
    this.physics.world.gravity.y = 300;
    this.floor = this.add.rectangle(150, 190, 300, 20, 0x444444);
    this.physics.add.existing(this.floor, true);
    this.crates = this.physics.add.group({ bounceY: 0.3, collideWorldBounds: true });
    for (let i = 0; i < 5; i++) {
      const crate = this.add.rectangle(40 + i * 50, 20, 24, 24, 0xaa7744);
      this.crates.add(crate);
      crate.body.setSize(20, 20).setDrag(30, 0).setMaxVelocity(200, 400);
    }
    this.physics.add.collider(this.crates, this.floor);
    this.physics.add.collider(this.crates);
  }

  update() {
    const resting = this.crates.getChildren().filter((crate) => crate.body.blocked.down || crate.body.touching.down);
    window.__signals__ = { resting: resting.length };
  }
}

new Phaser.Game({ width: 300, height: 200, physics: { default: 'arcade', arcade: { debug: true } }, scene: Boxes });
