class Countdown extends Phaser.Scene {
  init() {
    this.left = 5;
  }

  create() {
    this.text = this.add.text(100, 100, String(this.left), { fontSize: 48, color: '#ff0' });
    this.timer = this.time.addEvent({ delay: 200, repeat: 4, callback: this.tick, callbackScope: this });
    this.time.delayedCall(900, () => this.text.setColor('#f00'));
  }

  tick() {
    this.left -= 1;
    this.text.setText(this.left > 0 ? `${this.left}` : 'Go!');
  }

  update() {
    this.text.setScale(1 + this.timer.getProgress() * 0.2);
  }
}

new Phaser.Game({ type: Phaser.AUTO, width: 300, height: 200, scene: [Countdown] });
