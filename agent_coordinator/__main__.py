"""`python -m agent_coordinator`: run the coordinator alone, with bots in other processes on the same Redis."""

from __future__ import annotations

import sys

from agentic.process.python_check import check_python, exit_on_interrupt

if __name__ == "__main__":
    check_python()
    with exit_on_interrupt():
        from agentic.runtime.cli import main_coordinator

        sys.exit(main_coordinator(sys.argv[1:]))
