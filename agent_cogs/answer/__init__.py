"""From a model's text to a decision. Pure: no I/O, no clock."""
