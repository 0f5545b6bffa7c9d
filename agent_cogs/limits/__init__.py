"""Rate limits, budgets, provider back-off and reply throttle. Must not know outlets."""
