class Taken extends Array {
  static get [Symbol.species]() { return function () { throw new Error('taken'); }; }
}
const host = new Taken(1).map((value) => value);
host.exit(0);
