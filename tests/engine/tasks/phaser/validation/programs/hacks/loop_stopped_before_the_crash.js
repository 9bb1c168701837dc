new Phaser.Game({
  scene: {
    create() { this.add.text(1, 1, 'x'); this.game.loop.stop(); },
    update() { null.x; },
  },
});
