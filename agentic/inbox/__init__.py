"""From what reaches an agent to its turns."""
