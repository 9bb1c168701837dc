class Animated extends Phaser.Scene {
  preload() {
    const canvas = this.textures.createCanvas('sheet', 64, 16);
    const context = canvas.getContext();
    ['#f00', '#0f0', '#00f', '#ff0'].forEach((colour, index) => {
      context.fillStyle = colour;
      context.fillRect(index * 16, 0, 16, 16);
      canvas.add(index, 0, index * 16, 0, 16, 16);
    });
    canvas.refresh();
  }

  create() {
    this.anims.create({
      key: 'blink',
      frames: [0, 1, 2, 3].map((frame) => ({ key: 'sheet', frame })),
      frameRate: 8,
      repeat: -1,
    });
    this.sprite = this.add.sprite(100, 100, 'sheet', 0).setScale(3).play('blink');
    this.sprite.on(Phaser.Animations.Events.ANIMATION_REPEAT, () => {
      window.__signals__ = { repeats: ((window.__signals__ || {}).repeats || 0) + 1 };
    });
  }
}

new Phaser.Game({ width: 200, height: 200, scene: Animated });
