"""Clock and outside events to turns."""
