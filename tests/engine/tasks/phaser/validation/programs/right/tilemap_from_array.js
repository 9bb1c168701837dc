class Tiles extends Phaser.Scene {
  preload() {
    const pen = this.add.graphics();
    [0x335522, 0x777777, 0x2255aa].forEach((colour, index) => pen.fillStyle(colour).fillRect(index * 16, 0, 16, 16));
    pen.generateTexture('tiles', 48, 16);
    pen.destroy();
  }

  create() {
    const data = [];
    for (let row = 0; row < 15; row++) {
      data.push(Array.from({ length: 20 }, (_, column) => (row === 0 || column === 0 || row === 14 || column === 19 ? 1 : 0)));
    }
    const map = this.make.tilemap({ data, tileWidth: 16, tileHeight: 16 });
    const tileset = map.addTilesetImage('tiles', 'tiles', 16, 16);
    const layer = map.createLayer(0, tileset, 0, 0);
    map.setCollision(1);
    layer.putTileAt(2, 5, 5);

    this.runner = this.physics.add.sprite(100, 100, '__WHITE').setDisplaySize(12, 12).setVelocity(90, 70).setBounce(1);
    this.physics.add.collider(this.runner, layer);
    window.__signals__ = { width: map.width, tile: layer.getTileAt(5, 5).index };
  }
}

new Phaser.Game({ width: 320, height: 240, physics: { default: 'arcade' }, scene: Tiles });
