"""Everything that is not a cog, the coordinator, or a command to start."""
