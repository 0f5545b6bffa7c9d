"""`python -m agentic.record`: what an owner does with the record: export, import-costs, migrate, replay.

Exit codes: 0 done; 1 it failed, the last line says why; 2 the command line or the settings are wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

import aiosqlite

from agent_config import Settings
from agentic.process.python_check import check_python
from agentic.record.database import (
    RecordError,
    connect,
    connect_blocking,
    copies,
    migrate,
    migration_names,
    missing_migrations,
    read_migrations,
    try_on_copy,
)
from agentic.record.export.render import FORMATS, Exported, export, export_room
from agentic.record.export.story import Look
from agentic.record.queries.posts import conversations_page, last_conversation
from agentic.record.recorder import explain_error
from agentic.record.writing import transaction
from agentic.state.budgets import Costs
from agentic.wire.connection import RedisAddressError, RedisConnection, RedisStartError, StateUnavailable
from agentic.wire.server import locate_redis

LISTED = 30
SECONDS = 5.0  # for each command of Redis: nobody's turn waits for it

UPSERT = """INSERT INTO imported_costs (day, agent, field, amount) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET amount = excluded.amount"""
RECORDED = """SELECT 1 FROM turns WHERE day = :day AND agent = :agent
    UNION ALL SELECT 1 FROM replays WHERE day = :day AND agent = :agent LIMIT 1"""

Days = Mapping[tuple[str, str], Mapping[str, float]]
"""(agent, YYYY-MM-DD) → field → amount, as agentic.state.budgets reads them."""


def main(arguments: Sequence[str]) -> int:
    os.umask(0o077)  # what it writes has people's words in it
    from agent_config import SettingsError, load_settings, process_environment
    from agentic.agent.persona import read_fronts
    from agentic.local.settings import LOCAL

    options = build_parser().parse_args(arguments)
    try:
        settings = load_settings(process_environment(), fronts=read_fronts)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    local = settings.with_(data_dir=settings.data_dir / LOCAL)
    settings = local if getattr(options, "local", False) else settings
    try:
        return int(options.run(options, settings))
    except BrokenPipeError:  # what read it has seen enough, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except RecordError as error:
        print(error, file=sys.stderr)
        if getattr(options, "local", True) is False and local.record_file.exists():
            print("With --local the record of local mode is read.", file=sys.stderr)
    except sqlite3.Error as error:
        print(f"{settings.record_file}: {explain_error(error)}", file=sys.stderr)
    except OSError as error:
        print(f"{error.filename or settings.record_file}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return 1


def build_parser() -> argparse.ArgumentParser:
    from agentic.replay import command as replay

    parser = argparse.ArgumentParser(
        prog="python -m agentic.record", description="Work with the record of the bots' turns."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in (add_export, add_import_costs, add_migrate, replay.add):
        add(commands)
    return parser


def add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "export",
        help="write a conversation or a room as a page to share",
        description="Write a recorded conversation, or a room with what people said in it, to a file:"
        " a web page that loads nothing, Markdown, or JSON.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--conversation", metavar="ID", help="the conversation with this id")
    which.add_argument("--room", metavar="THREAD", type=int, help="the room in the thread with this id")
    which.add_argument("--last", action="store_true", help="the newest conversation in which something was posted")
    which.add_argument("--list", action="store_true", help=f"list the newest {LISTED} conversations with their ids")
    parser.add_argument("--format", choices=tuple(FORMATS), default="html", help="html by default")
    parser.add_argument(
        "--output", metavar="FILE", help="by default a name of date and topic, in this folder; - prints it"
    )
    parser.add_argument("--local", action="store_true", help="from the record of local mode (run_all.py --local)")
    parser.add_argument("--with-costs", action="store_true", help="show what it cost")
    parser.set_defaults(run=run_export)


def run_export(options: argparse.Namespace, settings: Settings) -> int:
    if options.list:
        asyncio.run(_print_list(settings))
        return 0
    page = asyncio.run(_read_page(options, settings))
    if options.output == "-":
        sys.stdout.write(page.text)
        return 0
    path = Path(options.output or page.name)
    path.write_text(page.text, encoding="utf-8")
    print(f"Wrote {path}")
    return 0


async def _read_page(options: argparse.Namespace, settings: Settings) -> Exported:
    """Render the chosen conversation or room. Raises RecordError."""
    look = Look(
        names={name: agent.display_name for name, agent in settings.agents.items()},
        colours={name: agent.spec.colour for name, agent in settings.agents.items()},
        zone=settings.timezone,
        costs=options.with_costs,
    )
    async with connect(settings.record_file) as db:
        if options.room is not None:
            page = await export_room(db, options.room, options.format, look)
            missing = f"there is no room in the thread {options.room}. The console lists which there are"
        else:
            last = await last_conversation(db) if options.last else None
            page = await export(db, last.id if last else options.conversation or "", options.format, look)
            missing = f"there is no conversation {options.conversation!r}. export --list shows which there are"
            if options.last:
                missing = "no conversation has a post yet"
    if page is None:
        raise RecordError(missing)
    return page


async def _print_list(settings: Settings) -> None:
    async with connect(settings.record_file) as db:
        page = await conversations_page(db, count=LISTED)
    for each in page.items:
        began = datetime.fromtimestamp(each.started_at, settings.timezone)
        topic = " ".join((each.topic or "").split())
        print(f"{each.id}  {began:%Y-%m-%d %H:%M}  {each.theme:<15}  {each.messages:>3} posts  {topic}")
    if not page.items:
        print("No conversation was recorded yet.", file=sys.stderr)
    elif page.next:
        print(f"These are the newest {LISTED}; older ones are in the console.", file=sys.stderr)


def add_migrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "migrate",
        help="bring the record's file up to date",
        description="Bring the record's file up to date. The program does so by itself at its start.",
    )
    parser.add_argument("path", nargs="?", type=Path, help="another file than the record of this folder")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--test", action="store_true", help="try it on a copy of the file, which is removed again")
    which.add_argument("--validate", action="store_true", help="check the migrations; of a PATH, whether they fit it")
    parser.set_defaults(run=run_migrate)


def run_migrate(options: argparse.Namespace, settings: Settings) -> int:
    path: Path = options.path or settings.record_file
    if options.path is not None and not path.is_file():  # a mistyped path must not become a new record
        raise RecordError(f"{path}: there is no such file")
    try:
        print(_migrate(options, path))
    except sqlite3.Error as error:
        raise RecordError(f"{path}: {explain_error(error)}") from error
    return 0


def _migrate(options: argparse.Namespace, path: Path) -> str:
    """Return what was done, in a line."""
    existed = path.exists()
    if options.validate:
        in_order = f"The migrations are in order: {migration_names(read_migrations())}."
        if options.path is None:
            return in_order
        with closing(connect_blocking(path)) as connection:
            lacks = missing_migrations(connection, read_migrations())
        return f"{in_order} {path} lacks {migration_names(lacks)}." if lacks else f"{in_order} {path} is up to date."
    if options.test:
        applied = try_on_copy(path)
        what = f"a copy of {path}" if existed else f"a new file ({path} is not there yet)"
        return f"Tried on {what}: {migration_names(applied) or 'nothing is missing'}. It works."
    applied = migrate(path)
    kept = f" Before it: {copies(path)[-1]}." if existed and applied else ""
    return f"{path}: applied {migration_names(applied)}.{kept}" if applied else f"{path} is up to date."


def add_import_costs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "import-costs",
        help="take over the days' costs that Redis has",
        description="Take the days' costs that Redis has into the record, as the public agentic-discord writes them."
        " Days of a bot that the record has turns of are left out. It can be done again.",
    )
    parser.set_defaults(run=run_import_costs)


def run_import_costs(_: argparse.Namespace, settings: Settings) -> int:

    async def read_costs() -> tuple[str, Days]:
        redis = locate_redis(settings.redis_url, settings.data_dir, runtime_dir=settings.runtime_dir)
        async with redis as place, RedisConnection(place.address, command_timeout=SECONDS) as link:
            return place.description, await Costs(link).all_days()

    async def write_costs() -> str:
        async with connect(settings.record_file, writable=True) as db:
            return await import_costs(db, costs, place)

    try:
        place, costs = asyncio.run(read_costs())
    except (RedisAddressError, StateUnavailable, RedisStartError) as error:
        print(f"Redis cannot be read, nothing was imported: {error}", file=sys.stderr)
        return 1
    migrate(settings.record_file)
    print(asyncio.run(write_costs()))
    return 0


async def import_costs(db: aiosqlite.Connection, found: Days, place: str) -> str:
    """Write them in one transaction; return a line that says what was imported from `place`, and what was not.

    Done again, it writes the same, or what Redis has since added to them.
    """
    days: set[str] = set()
    costs: dict[str, float] = defaultdict(float)
    recorded = 0  # days of an agent whose costs the record has itself
    async with transaction(db):
        for (agent, day), amounts in found.items():
            if await db.execute_fetchall(RECORDED, {"day": day, "agent": agent}):
                recorded += 1
            elif amounts.get("total_cost"):
                await db.executemany(UPSERT, [(day, agent, name, amount) for name, amount in amounts.items()])
                days.add(day)
                costs[agent] += amounts["total_cost"]
    sums = f"{recorded} daily sum{'s' if recorded != 1 else ''}"
    own = f" {sums} of days that the record has itself: left out." if recorded else ""
    if not days:
        return f"Nothing to import: {place} has no costs of other days.{own}"
    span = f"{min(days)} to {max(days)}" if len(days) > 1 else min(days)
    each = ", ".join(f"{agent} ${cost:.2f}" for agent, cost in sorted(costs.items()))
    return f"Imported the costs of {span}: ${sum(costs.values()):.2f} ({each}).{own}"


if __name__ == "__main__":
    check_python()
    sys.exit(main(sys.argv[1:]))
