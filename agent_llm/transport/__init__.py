"""The providers' common network code: HTTP clients, streams, size limits, HTTP errors. Knows no provider's format."""
