"""Run one bot, without the coordinator: `AGENT_NAME=claude python run_bot.py`."""

from __future__ import annotations

import sys

from agentic.process.python_check import check_python, exit_on_interrupt

if __name__ == "__main__":
    check_python()
    with exit_on_interrupt():
        from agentic.runtime.cli import main_one_bot

        sys.exit(main_one_bot(sys.argv[1:]))
