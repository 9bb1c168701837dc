const events = { emit() {}, once() {}, on() {}, off() {} };
const game = Object.create(Phaser.Game.prototype);
Object.assign(game, { config: { preBoot() {}, postBoot() {} }, events, scale: { preBoot() {} }, textures: { once(name, call, self) { call.call(self); } } });
try {
  Phaser.Game.prototype.boot.call(game);
} catch (error) {
  game.isBooted = true;
}
