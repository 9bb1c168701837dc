var Level = new Phaser.Class({
  Extends: Phaser.Scene,

  initialize: function Level() {
    Phaser.Scene.call(this, { key: 'level' });
  },

  create: function () {
    this.wheel = this.add.arc(120, 80, 40, 0, 300, false, 0x88cc44);
  },

  update: function () {
    this.wheel.angle += 2;
  },
});

var game = new Phaser.Game({ width: 240, height: 160, scene: [Level] });
