"""The terminal of local mode: shows what happens in the channels and lets a person take part.

Events come from the Discord stand-in as gateway payloads, typed lines go back to it. Knows no agents, models or Redis.
"""
