class Words extends Phaser.Scene {
  create() {
    this.add.text(10, 10, ['Several', 'lines'], { fontFamily: 'Georgia', fontSize: '20px', align: 'center', lineSpacing: 4 });
    this.add.text(10, 80, 'wrapped text that is longer than its box', { wordWrap: { width: 120 } });
    const shadow = this.add.text(180, 20, 'Shadow', { fontSize: '26px' });
    shadow.setShadow(2, 2, '#000', 4).setStroke('#00f', 4);
    const bounds = shadow.getBounds();
    this.add.rectangle(bounds.centerX, bounds.centerY, bounds.width, bounds.height).setStrokeStyle(1, 0xffffff);
  }
}

new Phaser.Game({ width: 320, height: 180, scene: Words });
