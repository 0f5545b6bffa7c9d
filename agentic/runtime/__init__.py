"""Composition root: opens, wires, starts, stops."""
