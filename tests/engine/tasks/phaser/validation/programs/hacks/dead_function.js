function never() {
  class Main extends Phaser.Scene {
    preload() {}
    create() { this.add.graphics().fillRect(0, 0, 1, 1); this.physics.add.group(); this.time.addEvent({ delay: 1 }); }
    update() {}
  }
  return new Phaser.Game({ scene: Main });
}
