"""One bot, without the coordinator: `AGENT_NAME=claude python run_bot.py`."""

from __future__ import annotations

import sys

from agent_commands import main_one_bot

if __name__ == "__main__":
    sys.exit(main_one_bot())
