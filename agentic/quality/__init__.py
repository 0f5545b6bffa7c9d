"""Measure how well a model talks: make quality."""
