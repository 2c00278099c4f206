"""The parameter shard: a state machine without I/O, and what drives it."""
