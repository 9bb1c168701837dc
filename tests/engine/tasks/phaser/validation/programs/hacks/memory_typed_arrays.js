const held = [];
for (let i = 0; i < 64; i++) held.push(new Uint8Array(2 ** 28).fill(1, 0, 2 ** 20));
new Phaser.Game({ scene: { create() { this.add.text(held.length, 1, 'x'); } } });
