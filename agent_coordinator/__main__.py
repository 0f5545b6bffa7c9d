"""`python -m agent_coordinator`: the coordinator alone. The bots run elsewhere on the same Redis."""

from __future__ import annotations

import sys

from agent_process.python_check import check_python

if __name__ == "__main__":
    check_python()
    from agent_runtime.cli import main_coordinator

    sys.exit(main_coordinator())
