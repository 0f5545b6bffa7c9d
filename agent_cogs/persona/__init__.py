"""What an agent's own files and the options bring to its turns. Knows no turn."""
