"""The console in the process of the bots: its parts, the channels of its Live page, the prices that it shows."""
