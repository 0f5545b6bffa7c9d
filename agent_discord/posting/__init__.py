"""How text, pictures and files get into a channel. Decides nothing about their content."""
