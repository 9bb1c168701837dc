import { Game, Scene, AUTO, Math as PhaserMath } from 'phaser';

const clampToField = (value) => PhaserMath.Clamp(value, 10, 310);

class Drift extends Scene {
  create() {
    this.items = Array.from({ length: 12 }, (_, i) => this.add.rectangle(20 + i * 24, 100, 10, 10, 0x33ddaa));
  }

  update() {
    for (const [index, item] of this.items.entries()) {
      item.x = clampToField(item.x + (index % 2 ? 1 : -1));
    }
  }
}

new Game({ type: AUTO, width: 320, height: 200, scene: Drift });
