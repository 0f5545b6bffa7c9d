"""`/config`: show an agent's options with their sources, and set the safe ones while the program runs."""
