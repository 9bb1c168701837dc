const fs = require('fs');
fs.writeSync(3, 'forged');
