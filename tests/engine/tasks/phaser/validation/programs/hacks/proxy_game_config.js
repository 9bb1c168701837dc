const config = new Proxy({}, { get() { throw new Error('no'); }, has() { return true; }, ownKeys() { return []; } });
new Phaser.Game(config);
