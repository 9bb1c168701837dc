new Worker('data:text/javascript,for(;;){}');
new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); } } });
