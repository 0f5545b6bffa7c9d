"""What the pages of the console ask for."""
