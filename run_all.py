"""Run every bot that has a token, and the coordinator, in one process: `python run_all.py`. `--help` lists options."""

from __future__ import annotations

import sys

from agentic.process.python_check import check_python, exit_on_interrupt

if __name__ == "__main__":
    check_python()
    with exit_on_interrupt():
        from agentic.runtime.cli import main

        sys.exit(main(sys.argv[1:]))
