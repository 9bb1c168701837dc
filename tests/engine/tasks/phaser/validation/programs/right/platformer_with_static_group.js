class Platformer extends Phaser.Scene {
  constructor() {
    super('platformer');
    this.score = 0;
  }

  preload() {
    this.paint('ground', 64, 16, 0x8b5a2b);
    this.paint('coin', 12, 12, 0xffd700);
    this.paint('hero', 20, 28, 0x3399ff);
  }

  paint(key, width, height, colour) {
    const g = this.add.graphics();
    g.fillStyle(colour).fillRect(0, 0, width, height).generateTexture(key, width, height);
    g.destroy();
  }

  create() {
    const platforms = this.physics.add.staticGroup();
    for (let x = 32; x < 480; x += 64) platforms.create(x, 312, 'ground');
    platforms.create(300, 220, 'ground').refreshBody();

    this.player = this.physics.add.sprite(80, 200, 'hero').setBounce(0.1).setCollideWorldBounds(true);
    this.coins = this.physics.add.group({ key: 'coin', repeat: 5, setXY: { x: 60, y: 0, stepX: 70 } });

    this.physics.add.collider(this.player, platforms);
    this.physics.add.collider(this.coins, platforms);
    this.physics.add.overlap(this.player, this.coins, this.collect, null, this);

    this.label = this.add.text(8, 8, 'Score: 0', { fontSize: '16px' });
    this.cursors = this.input.keyboard.createCursorKeys();
  }

  collect(player, coin) {
    coin.disableBody(true, true);
    this.score += 10;
    this.label.setText(`Score: ${this.score}`);
  }

  update() {
    if (this.cursors.left.isDown) this.player.setVelocityX(-120);
    else if (this.cursors.right.isDown) this.player.setVelocityX(120);
    else this.player.setVelocityX(0);
    if (this.cursors.up.isDown && this.player.body.touching.down) this.player.setVelocityY(-260);
  }
}

new Phaser.Game({
  type: Phaser.AUTO,
  width: 480,
  height: 320,
  physics: { default: 'arcade', arcade: { gravity: { y: 400 }, debug: false } },
  scene: Platformer,
});
