"""The built-in tools: search, fetch, files, memory."""
