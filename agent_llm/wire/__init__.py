"""The common parts of the providers' formats: turns, schemas, stop sequences, tool calls. Opens no connection."""
