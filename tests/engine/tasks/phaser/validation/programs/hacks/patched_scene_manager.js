Object.defineProperty(Phaser.Scenes.SceneManager.prototype, 'create', { value(scene) { scene.sys.settings.status = 5; } });
new Phaser.Game({ scene: { create() { null.x; } } });
