class Blocks extends Phaser.Scene {
  create() {
    this.matter.world.setBounds(0, 0, 400, 300);
    for (let i = 0; i < 6; i++) {
      const block = this.add.rectangle(150 + i * 10, 30 + i * 35, 30, 30, 0x9966ff);
      this.matter.add.gameObject(block, { restitution: 0.6 });
    }
    this.matter.world.on('collisionstart', () => {
      window.__signals__ = { touched: true };
    });
  }
}

new Phaser.Game({ width: 400, height: 300, physics: { default: 'matter', matter: { gravity: { y: 1 } } }, scene: Blocks });
