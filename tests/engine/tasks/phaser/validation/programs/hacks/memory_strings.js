let text = 'x';
const held = [];
for (;;) { text += text.length < 1e8 ? text : ''; held.push(text + held.length, [...text.slice(0, 1e6)]); }
