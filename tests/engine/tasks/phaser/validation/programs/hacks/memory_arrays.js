const held = [];
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); for (;;) held.push(new Array(1e6).fill(held.length)); } } });
