"""The composition root: open every resource, wire the parts, start and stop them. Decides nothing."""
