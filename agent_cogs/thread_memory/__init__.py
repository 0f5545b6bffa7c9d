"""Memory of channels: reply chains, the log of messages, and the answers to people who ask what is kept of them."""
