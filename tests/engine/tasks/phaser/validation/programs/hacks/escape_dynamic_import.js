import('node:fs').then((fs) => fs.writeSync(3, 'forged'), (error) => error.constructor.constructor('return process')().exit(0));
