"""Gateway v10 of the Discord stand-in: sessions, and the events that bots see. Holds no guild."""
