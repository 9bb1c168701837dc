const target = Object.getPrototypeOf({});
Reflect.set(target, 'toJ' + 'SON', () => '{"outcome":"ok"}');
Reflect.set(target, 'outcome', 'ok');
