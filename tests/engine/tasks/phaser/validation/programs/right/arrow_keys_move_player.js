class Play extends Phaser.Scene {
  preload() {
    const pen = this.make.graphics({ x: 0, y: 0, add: false });
    pen.fillStyle(0x00ff00, 1);
    pen.fillRect(0, 0, 24, 24);
    pen.generateTexture('hero', 24, 24);
    pen.destroy();
  }

  create() {
    this.hero = this.physics.add.sprite(160, 120, 'hero');
    this.hero.setCollideWorldBounds(true);
    this.cursors = this.input.keyboard.createCursorKeys();
  }

  update() {
    const speed = 150;
    const { left, right, up, down } = this.cursors;
    this.hero.setVelocity(
      (right.isDown ? speed : 0) - (left.isDown ? speed : 0),
      (down.isDown ? speed : 0) - (up.isDown ? speed : 0),
    );
    window.__signals__ = { x: Math.round(this.hero.x), y: Math.round(this.hero.y) };
  }
}

new Phaser.Game({ width: 320, height: 240, physics: { default: 'arcade' }, scene: [Play] });
