const program = 'class Main extends Phaser.Scene { create() { this.add.graphics(); } } new Phaser.Game({ scene: Main });';
const uses = ['Phaser.GameObjects.Graphics', 'Phaser.Physics.Arcade.Group', 'Phaser.Time.TimerEvent'];
console.log(program.length, uses.length);
