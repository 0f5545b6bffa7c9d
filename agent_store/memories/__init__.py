"""Memories of what was said: logged messages, summaries, profiles, consents. Knows no turn and no prompt."""
