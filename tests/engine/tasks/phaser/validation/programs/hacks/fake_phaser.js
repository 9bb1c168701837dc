const Phaser = { Game: class { constructor() { this.isBooted = true; } }, Scene: class {}, AUTO: 0 };
class Main extends Phaser.Scene { create() { this.add.graphics(); } update() {} }
new Phaser.Game({ scene: Main });
