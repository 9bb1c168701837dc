const STATES = {
  red: { colour: 0xff0000, next: 'green', ms: 300 },
  green: { colour: 0x00ff00, next: 'yellow', ms: 300 },
  yellow: { colour: 0xffff00, next: 'red', ms: 100 },
};

class TrafficLight extends Phaser.Scene {
  create() {
    this.lamps = Object.fromEntries(
      Object.keys(STATES).map((name, index) => [name, this.add.circle(100, 60 + index * 70, 28, 0x333333)]),
    );
    this.changes = 0;
    this.enter('red');
  }

  enter(name) {
    const { next, ms, colour } = STATES[name];
    for (const lamp of Object.values(this.lamps)) lamp.setFillStyle(0x333333);
    this.lamps[name].setFillStyle(colour);
    this.changes += 1;
    window.__signals__ = { state: name, changes: this.changes };
    this.time.delayedCall(ms, this.enter, [next], this);
  }
}

new Phaser.Game({ width: 200, height: 280, scene: TrafficLight });
