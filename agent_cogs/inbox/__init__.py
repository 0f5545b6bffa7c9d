"""What reaches an agent and in which order it is taken up: triggers, lanes, the runner. Knows no prompt."""
