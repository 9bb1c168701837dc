class Source extends Phaser.Scene {
  constructor() {
    super('source');
  }

  create() {
    this.registry.set('score', 0);
    this.time.addEvent({ delay: 100, loop: true, callback: () => this.registry.inc('score', 5) });
    this.scene.launch('display');
  }
}

class Display extends Phaser.Scene {
  constructor() {
    super('display');
  }

  create() {
    const label = this.add.text(10, 10, '0');
    this.registry.events.on('changedata-score', (parent, value) => {
      label.setText(value);
      this.events.emit('shown', value);
    });
    this.events.on('shown', (value) => {
      window.__signals__ = { score: value };
    });
  }
}

new Phaser.Game({ width: 200, height: 100, scene: [Source, Display] });
