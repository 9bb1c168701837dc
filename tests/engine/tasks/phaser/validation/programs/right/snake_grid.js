const SIZE = 16;
const CELLS = 20;

class Snake extends Phaser.Scene {
  constructor() {
    super('snake');
  }

  create() {
    this.body = [{ x: 10, y: 10 }, { x: 9, y: 10 }, { x: 8, y: 10 }];
    this.heading = { x: 1, y: 0 };
    this.food = { x: 15, y: 10 };
    this.graphics = this.add.graphics();
    const turn = { LEFT: [-1, 0], RIGHT: [1, 0], UP: [0, -1], DOWN: [0, 1] };
    this.input.keyboard.on('keydown', (event) => {
      const found = Object.entries(turn).find(([name]) => event.keyCode === Phaser.Input.Keyboard.KeyCodes[name]);
      if (found) {
        const [x, y] = found[1];
        if (x !== -this.heading.x || y !== -this.heading.y) this.heading = { x, y };
      }
    });
    this.time.addEvent({ delay: 120, loop: true, callback: () => this.step() });
    this.draw();
  }

  step() {
    const [head] = this.body;
    const next = {
      x: Phaser.Math.Wrap(head.x + this.heading.x, 0, CELLS),
      y: Phaser.Math.Wrap(head.y + this.heading.y, 0, CELLS),
    };
    this.body.unshift(next);
    if (next.x === this.food.x && next.y === this.food.y) this.food = { x: Phaser.Math.Between(0, 19), y: Phaser.Math.Between(0, 19) };
    else this.body.pop();
    this.draw();
    window.__signals__ = { length: this.body.length, head: next };
  }

  draw() {
    this.graphics.clear();
    this.graphics.fillStyle(0x44ff44);
    this.body.forEach(({ x, y }) => this.graphics.fillRect(x * SIZE, y * SIZE, SIZE - 1, SIZE - 1));
    this.graphics.fillStyle(0xff4444).fillRect(this.food.x * SIZE, this.food.y * SIZE, SIZE - 1, SIZE - 1);
  }
}

new Phaser.Game({ width: SIZE * CELLS, height: SIZE * CELLS, scene: Snake });
