"""What each slash command does: plain values in, text out. Knows no py-cord."""
