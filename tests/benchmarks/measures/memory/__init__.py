"""The measurement of a long message log, run by itself: the time of its questions, and of a removal."""
