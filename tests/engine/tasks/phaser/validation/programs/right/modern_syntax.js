class Store {
  #values = new Map();
  static #made = 0;

  static {
    Store.ready = true;
  }

  constructor() {
    Store.#made += 1;
  }

  set(key, value) {
    this.#values.set(key, value);
    return this;
  }

  get(key) {
    return this.#values.get(key) ?? 0;
  }

  *[Symbol.iterator]() {
    yield* this.#values;
  }
}

class Modern extends Phaser.Scene {
  store = new Store();
  label = null;

  create() {
    const options = { fontSize: '14px', ...{ color: '#0f0' } };
    this.label = this.add.text(10, 10, 'start', options);
    this.store.set('frames', 0);
    const [first, ...others] = [1, 2, 3];
    this.data?.set('sum', others.reduce((sum, each) => sum + each, first));
  }

  update() {
    this.store.set('frames', this.store.get('frames') + 1);
    this.label?.setText(`frames ${this.store.get('frames')} of ${[...this.store].length}`);
    window.__signals__ ??= {};
    window.__signals__.frames = this.store.get('frames');
  }
}

new Phaser.Game({ width: 300, height: 150, scene: Modern });
