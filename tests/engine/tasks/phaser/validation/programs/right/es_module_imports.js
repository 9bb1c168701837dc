import Phaser from 'phaser';

export const WIDTH = 360;

export default class Orbit extends Phaser.Scene {
  #angle = 0;
  static RADIUS = 80;

  create() {
    this.centre = this.add.circle(180, 120, 10, 0xffffff);
    this.moon = this.add.circle(0, 0, 5, 0x99ccff);
  }

  update(_time, delta) {
    this.#angle += delta * 0.003;
    this.moon.setPosition(180 + Math.cos(this.#angle) * Orbit.RADIUS, 120 + Math.sin(this.#angle) * Orbit.RADIUS);
  }
}

export const game = new Phaser.Game({ type: Phaser.AUTO, width: WIDTH, height: 240, scene: [Orbit] });
