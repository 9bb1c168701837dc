class Main extends Phaser.Scene { constructor() { super('main'); while (true) {} } create() { this.add.text(1, 1, 'x'); } }
new Phaser.Game({ scene: Main });
