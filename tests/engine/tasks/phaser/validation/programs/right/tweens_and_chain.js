class Tweened extends Phaser.Scene {
  create() {
    const square = this.add.rectangle(60, 100, 30, 30, 0xcc3366);
    this.tweens.add({ targets: square, x: 340, angle: 180, duration: 600, ease: 'Sine.easeInOut', yoyo: true, repeat: -1 });

    const ring = this.add.circle(200, 200, 20).setStrokeStyle(3, 0xffffff);
    this.tweens.chain({
      targets: ring,
      tweens: [
        { scale: 2, duration: 200 },
        { alpha: 0.3, duration: 200 },
        { scale: 1, alpha: 1, duration: 200 },
      ],
    });

    this.tweens.addCounter({
      from: 0,
      to: 100,
      duration: 900,
      onUpdate: (tween) => {
        window.__signals__ = { progress: Math.floor(tween.getValue()) };
      },
    });
  }
}

new Phaser.Game({ width: 400, height: 300, scene: Tweened });
