class Responsive extends Phaser.Scene {
  create() {
    const { width, height } = this.scale;
    this.panel = this.add.rectangle(width / 2, height / 2, width * 0.8, height * 0.8, 0x335577);
    this.title = this.add.text(width / 2, 40, 'Responsive', { fontFamily: 'Arial', fontSize: '28px' }).setOrigin(0.5);
    this.scale.on('resize', (size) => this.panel.setPosition(size.width / 2, size.height / 2));
  }
}

new Phaser.Game({
  type: Phaser.AUTO,
  scale: { mode: Phaser.Scale.FIT, autoCenter: Phaser.Scale.CENTER_BOTH, width: 800, height: 450 },
  parent: 'game-container',
  scene: Responsive,
});
