"""The context of a turn, and the model call. Never decides what is posted."""
