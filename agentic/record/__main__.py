"""`python -m agentic.record`: what an owner does with the record, by sub-command.

Exit codes: 0 done; 1 it failed, the last line says why; 2 the command line or the settings are wrong.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Sequence

from agentic.process.python_check import check_python
from agentic.record.database import RecordError
from agentic.record.recorder import explained


def main(arguments: Sequence[str]) -> int:
    """Run the sub-command; return the exit code."""
    os.umask(0o077)  # what it writes has people's words in it
    from agent_config import SettingsError, load_settings, process_environment
    from agentic.agent.persona import read_fronts
    from agentic.local.settings import LOCAL

    options = parser().parse_args(arguments)
    try:
        settings = load_settings(process_environment(), fronts=read_fronts)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    common, local = settings, settings.with_(data_dir=settings.data_dir / LOCAL)
    settings = local if getattr(options, "local", False) else common
    try:
        return int(options.run(options, settings))
    except BrokenPipeError:  # what read it has seen enough, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except RecordError as error:
        print(error, file=sys.stderr)
        if getattr(options, "local", True) is False and local.record_file.exists():
            print("With --local the record of local mode is read.", file=sys.stderr)
    except sqlite3.Error as error:
        print(f"{settings.record_file}: {explained(error)}", file=sys.stderr)
    except OSError as error:
        print(f"{error.filename or settings.record_file}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return 1


def parser() -> argparse.ArgumentParser:
    from agentic.record import commands_export as export
    from agentic.record import commands_import_costs as import_costs
    from agentic.record import migrate
    from agentic.replay import arguments as replay

    whole = argparse.ArgumentParser(
        prog="python -m agentic.record", description="Work with the record of the bots' turns."
    )
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    for command in (export, import_costs, migrate, replay):
        command.add(commands)
    return whole


if __name__ == "__main__":
    check_python()
    sys.exit(main(sys.argv[1:]))
