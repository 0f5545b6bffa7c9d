"""What a model sees and how it is asked. Never decides what is posted."""
