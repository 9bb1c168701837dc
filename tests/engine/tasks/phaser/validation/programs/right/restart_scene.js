let rounds = 0;

class Round extends Phaser.Scene {
  constructor() {
    super('round');
  }

  create() {
    rounds += 1;
    this.add.text(10, 10, `Round ${rounds}`);
    if (rounds < 3) this.time.delayedCall(150, () => this.scene.restart());
    window.__signals__ = { rounds };
  }
}

new Phaser.Game({ width: 160, height: 90, scene: Round });
