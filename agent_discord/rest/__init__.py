"""Every request to Discord passes here, with its limits and retries. Knows no texts."""
