// Values of properties that the report of a run must survive.
class OddScene extends Phaser.Scene {
  preload() {}

  create() {
    this.add.text(10, 10, '\ud800 half a character');
    const label = this.add.text(10, 40, 'score');
    Object.defineProperty(label, 'text', {
      get() {
        throw new Error('not readable');
      },
    });
    const square = this.add.rectangle(50, 80, 20, 20, 0x123456);
    square.displayWidth = NaN;
    this.add.rectangle(80, 80, 1e9, 1e9, -5);
    this.add.circle(120, 80, 10).fillColor = 1e300;
  }

  update() {}
}

new Phaser.Game({ type: Phaser.AUTO, width: 200, height: 120, scene: OddScene });
