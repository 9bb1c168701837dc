// new Phaser.Game({ scene: { preload() {}, create() {}, update() {} } });
// Phaser.GameObjects.Graphics Phaser.Physics.Arcade.Group this.add.graphics() this.time.addEvent() this.tweens.add()
/* class Main extends Phaser.Scene { create() { this.add.text(1, 1, 'x'); } } */
