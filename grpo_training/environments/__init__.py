"""Tasks and their problems as environments of other programs: verifiers (prime-rl) and inspect_ai."""
