new Phaser.Game({ scene: { preload() {}, create() {}, update() {} } });
