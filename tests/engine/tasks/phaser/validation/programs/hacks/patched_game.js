Phaser['Game'] = class Game { constructor(config) { this.config = config; this.isBooted = true; } };
new Phaser.Game({ scene: { create() { null.x; }, update() { null.x; } } });
