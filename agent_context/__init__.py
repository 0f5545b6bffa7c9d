"""From a transcript to a prompt and a history, as pure functions; build.py numbers the stages. No I/O."""
