"""Tasks for times when nobody writes."""
