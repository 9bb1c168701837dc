class Memory extends Phaser.Scene {
  create() {
    const values = Phaser.Utils.Array.Shuffle([1, 1, 2, 2, 3, 3, 4, 4]);
    this.open = [];
    this.cards = values.map((value, index) => this.addCard(value, 60 + (index % 4) * 80, 80 + Math.floor(index / 4) * 110));
  }

  addCard(value, x, y) {
    const face = this.add.rectangle(x, y, 60, 90, 0x224466).setInteractive({ useHandCursor: true });
    const label = this.add.text(x, y, value, { fontSize: 32 }).setOrigin(0.5).setVisible(false);
    const card = { face, label, value, done: false };
    face.on('pointerdown', () => this.flip(card));
    return card;
  }

  flip(card) {
    if (card.done || this.open.length === 2 || this.open.includes(card)) return;
    card.label.setVisible(true);
    this.open.push(card);
    if (this.open.length < 2) return;
    const [first, second] = this.open;
    if (first.value === second.value) {
      first.done = second.done = true;
      this.open = [];
    } else {
      this.time.delayedCall(300, () => {
        this.open.forEach(({ label }) => label.setVisible(false));
        this.open = [];
      });
    }
  }
}

new Phaser.Game({ width: 360, height: 280, backgroundColor: 0x112233, scene: [Memory] });
