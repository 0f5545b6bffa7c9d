"""Makes recorded turns again, with the same inputs and one thing changed: a model or a persona. Posts nothing, runs no
tool, and writes nothing but what a call has cost."""
