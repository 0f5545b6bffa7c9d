import sys

from agentic.runtime.health import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
