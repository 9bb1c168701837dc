class Menu extends Phaser.Scene {
  constructor() {
    super('menu');
  }

  create() {
    const start = this.add.text(200, 150, 'Start', { fontSize: '24px' }).setOrigin(0.5).setInteractive({ useHandCursor: true });
    start.on('pointerdown', () => this.scene.start('game', { lives: 3 }));
    this.time.delayedCall(300, () => this.scene.start('game', { lives: 3 }));
  }
}

class Game extends Phaser.Scene {
  constructor() {
    super('game');
  }

  init(data) {
    this.lives = data.lives;
  }

  create() {
    this.add.text(10, 40, `Lives ${this.lives}`);
    this.scene.launch('hud');
    this.events.once(Phaser.Scenes.Events.SHUTDOWN, () => this.scene.stop('hud'));
  }
}

class Hud extends Phaser.Scene {
  constructor() {
    super({ key: 'hud', active: false });
  }

  create() {
    this.label = this.add.text(10, 10, '');
  }

  update(time) {
    this.label.setText(`time ${Math.floor(time / 100)}`);
  }
}

new Phaser.Game({ width: 400, height: 300, scene: [Menu, Game, Hud] });
