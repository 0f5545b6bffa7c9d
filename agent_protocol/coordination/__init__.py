"""Who acts, who is present and what the coordinator has planned: leases, presence, schedule, conversations."""
