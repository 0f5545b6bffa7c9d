"""Who speaks next and when a conversation ends. Pure: no bus, no clock of its own."""
