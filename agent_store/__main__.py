import sys

from agentic.process.python_check import check_python

if __name__ == "__main__":
    check_python()
    from agentic.record.__main__ import main

    sys.exit(main(sys.argv[1:]))
