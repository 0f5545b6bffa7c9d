"""The wire formats of the model providers, from the server's side: pure functions from and to JSON."""
