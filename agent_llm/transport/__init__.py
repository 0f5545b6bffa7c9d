"""What providers share on the network: streams, size limits, failures. Knows no provider's format."""
