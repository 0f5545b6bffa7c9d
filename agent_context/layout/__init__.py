"""How the selected messages are written, in chat mode and in prefill mode. Selects nothing."""
