"""Slash command handlers: plain values in, text out. Must not know py-cord."""
