"""What providers share on the network: HTTP clients, streams, size limits, HTTP errors. Knows no provider's format."""
