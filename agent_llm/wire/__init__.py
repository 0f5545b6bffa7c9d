"""What providers share in their formats: schemas, stop sequences, tools. Opens no connection."""
