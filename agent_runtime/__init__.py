"""The composition root: opens every resource, wires the parts, starts and stops them. Decides nothing."""
