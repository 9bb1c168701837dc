class Cards extends Phaser.Scene {
  create() {
    this.hand = [];
    for (let i = 0; i < 5; i++) {
      const back = this.add.rectangle(0, 0, 60, 90, 0xeeeeee).setStrokeStyle(2, 0x333333);
      const value = this.add.text(0, 0, `${i + 1}`, { color: '#000' }).setOrigin(0.5);
      const card = this.add.container(60 + i * 70, 150, [back, value]);
      card.setSize(60, 90).setInteractive();
      card.on('pointerover', () => card.setDepth(10).setScale(1.1));
      card.on('pointerout', () => card.setDepth(i).setScale(1));
      this.hand.push(card);
    }
  }
}

new Phaser.Game({ width: 420, height: 300, scene: Cards });
