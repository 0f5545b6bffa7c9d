"""Take what reaches an agent, queue it, and begin its turns."""
