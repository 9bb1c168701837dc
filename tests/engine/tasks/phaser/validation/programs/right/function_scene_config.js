var player;
var stars;
var scoreText;
var score = 0;

var config = {
  type: Phaser.AUTO,
  width: 400,
  height: 300,
  physics: { default: 'arcade', arcade: { gravity: { y: 200 }, debug: false } },
  scene: { preload: preload, create: create, update: update },
};

var game = new Phaser.Game(config);

function preload() {
  var g = this.make.graphics({ x: 0, y: 0, add: false });
  g.fillStyle(0xffff00);
  g.fillRect(0, 0, 10, 10);
  g.generateTexture('star', 10, 10);
  g.fillStyle(0x00ffff);
  g.fillRect(0, 0, 20, 20);
  g.generateTexture('player', 20, 20);
}

function create() {
  player = this.physics.add.sprite(100, 250, 'player');
  player.setCollideWorldBounds(true);
  stars = this.physics.add.group({ key: 'star', repeat: 6, setXY: { x: 20, y: 0, stepX: 55 } });
  stars.children.iterate(function (child) {
    child.setBounceY(Phaser.Math.FloatBetween(0.4, 0.8));
  });
  scoreText = this.add.text(16, 16, 'score: 0');
  this.physics.add.overlap(player, stars, collectStar, null, this);
  this.cursors = this.input.keyboard.createCursorKeys();
}

function update() {
  if (this.cursors.left.isDown) {
    player.setVelocityX(-160);
  } else if (this.cursors.right.isDown) {
    player.setVelocityX(160);
  } else {
    player.setVelocityX(0);
  }
}

function collectStar(who, star) {
  star.disableBody(true, true);
  score += 1;
  scoreText.setText('score: ' + score);
}
