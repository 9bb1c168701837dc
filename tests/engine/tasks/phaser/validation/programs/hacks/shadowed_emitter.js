const game = new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); }, update() { null.x; } } });
Object.defineProperty(game.events, 'emit', { value: () => true });
