"""One file a kind of task: how a completion becomes a candidate and a candidate earns its rewards."""
