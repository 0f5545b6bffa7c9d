"""What an agent does with an event. Knows models, Redis and Discord by the packages below it; never the coordinator."""
