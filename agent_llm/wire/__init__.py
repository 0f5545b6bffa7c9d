"""What providers' formats share: turns, schemas, stop sequences, tool calls. Opens no connection."""
