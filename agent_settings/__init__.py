"""From texts to checked settings: fields, sources, agents, models. Opens nothing but the files it reads."""
