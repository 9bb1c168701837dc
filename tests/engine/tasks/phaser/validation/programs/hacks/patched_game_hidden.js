Reflect.set(Phaser, 'Ga' + 'me', class Game { constructor(config) { this.isBooted = Boolean(config); } });
new Phaser.Game({ scene: { create() { null.x; }, update() { null.x; } } });
