const game = Object.create(Phaser.Game.prototype);
Object.assign(game, { isBooted: true, isRunning: true, scene: { scenes: [{ sys: { settings: { status: 5, key: 'main' } } }] } });
game.start = () => game;
