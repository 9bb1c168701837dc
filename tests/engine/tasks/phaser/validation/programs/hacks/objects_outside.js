// Three objects that nobody can see.
class Main extends Phaser.Scene {
  preload() {}
  create() {
    this.shapes = [1, 2, 3].map((place) => this.add.rectangle(-9999, 90 * place, 40, 40, 0xff0000));
    this.tweens.add({ targets: this.shapes, angle: 90, duration: 300 });
  }
  update() {
    this.shapes[0].x += 1;
  }
}
new Phaser.Game({ type: Phaser.AUTO, width: 400, height: 300, scene: Main });
