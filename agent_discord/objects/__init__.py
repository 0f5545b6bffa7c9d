"""From py-cord's objects to our values and back. Sends nothing."""
