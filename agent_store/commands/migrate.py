"""`python -m agent_store migrate`: bring the record up to date, or try that without touching it."""

from __future__ import annotations

import argparse

from agent_config import Settings
from agent_store.migrations import copies, migrate, names, read_migrations, try_on_copy


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "migrate",
        help="bring the record's file up to date",
        description="Bring the record's file up to date. The program does so by itself at its start.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--test", action="store_true", help="try it on a copy of the file, which is removed again")
    which.add_argument("--validate", action="store_true", help="check the numbers of the migrations only")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, settings: Settings) -> int:
    path = settings.record_file
    if options.validate:
        print(f"The migrations are in order: {names(read_migrations())}.")
    elif options.test:
        existed = path.exists()
        applied = try_on_copy(path)
        what = f"a copy of {path}" if existed else f"a new file ({path} is not there yet)"
        print(f"Tried on {what}: {names(applied) or 'nothing is missing'}. It works.")
    else:
        existed = path.exists()
        applied = migrate(path)
        kept = f" Before it: {copies(path)[-1]}." if existed and applied else ""
        print(f"{path}: applied {names(applied)}.{kept}" if applied else f"{path} is up to date.")
    return 0
