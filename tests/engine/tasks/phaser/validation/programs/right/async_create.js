const wait = (scene, ms) => new Promise((resolve) => scene.time.delayedCall(ms, resolve));

class Story extends Phaser.Scene {
  async create() {
    this.label = this.add.text(20, 20, '');
    for (const line of ['Once', 'upon', 'a time']) {
      this.label.setText(line);
      await wait(this, 200);
    }
    window.__signals__ = { finished: true };
  }
}

new Phaser.Game({ width: 200, height: 100, scene: Story });
