"""The Live page's sources and its stream: channels, who thinks, what runs. Keeps people's words in memory alone."""
