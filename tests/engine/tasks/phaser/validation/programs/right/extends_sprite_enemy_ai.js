class Enemy extends Phaser.Physics.Arcade.Sprite {
  constructor(scene, x, y, target) {
    super(scene, x, y, '__WHITE');
    this.target = target;
    this.health = 2;
    scene.add.existing(this);
    scene.physics.add.existing(this);
    this.setTint(0xff3333).setDisplaySize(18, 18);
  }

  chase(speed) {
    this.scene.physics.moveToObject(this, this.target, speed);
  }

  hurt() {
    this.health -= 1;
    if (this.health <= 0) this.destroy();
  }
}

class Arena extends Phaser.Scene {
  create() {
    this.hero = this.physics.add.sprite(200, 150, '__WHITE').setDisplaySize(20, 20);
    this.enemies = [new Enemy(this, 20, 20, this.hero), new Enemy(this, 380, 280, this.hero)];
    this.physics.add.overlap(this.hero, this.enemies, (hero, enemy) => enemy.hurt());
  }

  update() {
    this.enemies = this.enemies.filter((enemy) => enemy.active);
    this.enemies.forEach((enemy) => enemy.chase(120));
    window.__signals__ = { enemies: this.enemies.length };
  }
}

new Phaser.Game({ width: 400, height: 300, physics: { default: 'arcade' }, scene: Arena });
