"""What tools were asked and brought, kept as files and rendered for people."""
