"""Discord through py-cord."""
