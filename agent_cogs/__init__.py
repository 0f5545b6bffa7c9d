"""From an event to an agent's answer. Uses models, Redis and Discord by the packages below; knows no coordinator."""
