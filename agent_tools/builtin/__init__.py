"""The tools that come with the program: search, fetch, files, memory."""
