const config = {
  type: Phaser.AUTO,
  width: 640,
  height: 360,
  backgroundColor: '#203040',
  scene: { preload, create, update },
};

let box;
let direction = 1;

function preload() {}

function create() {
  box = this.add.rectangle(100, 180, 40, 40, 0x66ccff);
  this.add.text(16, 16, 'An object scene', { fontSize: '18px', color: '#ffffff' });
}

function update(time, delta) {
  box.x += direction * delta * 0.1;
  if (box.x > 600 || box.x < 40) {
    direction *= -1;
  }
}

const game = new Phaser.Game(config);
