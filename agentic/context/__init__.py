"""Pure: from a transcript to a prompt."""
