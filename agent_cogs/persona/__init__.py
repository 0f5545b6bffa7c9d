"""An agent's persona files, memory and options. Must not know turns."""
