class Bullet extends Phaser.Physics.Arcade.Image {
  constructor(scene, x, y) {
    super(scene, x, y, 'bullet');
  }

  fire(x, y) {
    this.enableBody(true, x, y, true, true);
    this.setVelocityY(-400);
  }

  preUpdate() {
    if (this.y < -20) this.disableBody(true, true);
  }
}

class Bullets extends Phaser.Physics.Arcade.Group {
  constructor(scene) {
    super(scene.physics.world, scene);
    this.createMultiple({ classType: Bullet, quantity: 10, key: 'bullet', active: false, visible: false, runChildUpdate: true });
  }

  shoot(x, y) {
    const bullet = this.getFirstDead(false);
    if (bullet) bullet.fire(x, y);
  }
}

class Shooter extends Phaser.Scene {
  preload() {
    const g = this.make.graphics({ add: false });
    g.fillStyle(0xffffff).fillRect(0, 0, 4, 10).generateTexture('bullet', 4, 10);
    g.clear().fillStyle(0x22aa22).fillTriangle(0, 24, 12, 0, 24, 24).generateTexture('ship', 24, 24);
  }

  create() {
    this.bullets = new Bullets(this);
    this.ship = this.add.image(200, 270, 'ship');
    this.input.on('pointermove', (pointer) => {
      this.ship.x = pointer.x;
    });
    this.input.on('pointerdown', () => this.bullets.shoot(this.ship.x, this.ship.y));
    this.input.keyboard.on('keydown-SPACE', () => this.bullets.shoot(this.ship.x, this.ship.y));
  }
}

new Phaser.Game({ width: 400, height: 300, physics: { default: 'arcade' }, scene: Shooter });
