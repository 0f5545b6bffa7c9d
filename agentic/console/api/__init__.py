"""Answers to the pages of the console."""
