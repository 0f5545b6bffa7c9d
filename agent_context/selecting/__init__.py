"""Which messages a model sees: history, window, visibility, merging. Knows nothing of how they are written."""
