class Sparks extends Phaser.Scene {
  preload() {
    const pen = this.make.graphics({ add: false });
    pen.fillStyle(0xffffff).fillCircle(4, 4, 4).generateTexture('spark', 8, 8);
    pen.destroy();
  }

  create() {
    this.emitter = this.add.particles(200, 150, 'spark', {
      speed: { min: 40, max: 120 },
      lifespan: 600,
      scale: { start: 1, end: 0 },
      quantity: 2,
      blendMode: 'ADD',
    });
    this.input.on('pointerdown', (pointer) => this.emitter.explode(20, pointer.x, pointer.y));
  }

  update() {
    window.__signals__ = { alive: this.emitter.getAliveParticleCount() };
  }
}

new Phaser.Game({ width: 400, height: 300, scene: Sparks });
