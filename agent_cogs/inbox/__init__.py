"""From what reaches an agent to its turns: triggers, orders, the queue, the runner. Knows no prompt."""
