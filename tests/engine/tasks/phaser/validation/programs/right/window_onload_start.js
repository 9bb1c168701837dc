function start() {
  return new Phaser.Game({
    width: 240,
    height: 160,
    scene: {
      create() {
        this.add.text(20, 20, 'ready');
        this.clock = this.add.text(20, 60, '0');
      },
      update(time) {
        this.clock.setText((time / 1000).toFixed(1));
      },
    },
  });
}

if (document.readyState === 'complete') {
  start();
} else {
  window.addEventListener('load', start);
}
