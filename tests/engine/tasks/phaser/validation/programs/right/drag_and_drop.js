class DragDrop extends Phaser.Scene {
  create() {
    const zone = this.add.zone(300, 150, 100, 100).setRectangleDropZone(100, 100);
    this.add.rectangle(zone.x, zone.y, 100, 100).setStrokeStyle(2, 0xffff00);
    const piece = this.add.rectangle(200, 150, 60, 60, 0x3366ff).setInteractive();
    this.input.setDraggable(piece);
    this.input.on('drag', (pointer, object, x, y) => object.setPosition(x, y));
    this.input.on('drop', (pointer, object, target) => object.setPosition(target.x, target.y));
    this.input.on('dragend', (pointer, object, dropped) => {
      window.__signals__ = { dropped, x: Math.round(object.x) };
    });
  }
}

new Phaser.Game({ width: 400, height: 300, scene: DragDrop });
