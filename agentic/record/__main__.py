"""`python -m agentic.record`: an owner's commands for the history database: export, import-costs, migrate, replay.

Exit codes: 0 done; 1 failed, with the reason in the last line; 2 the command line or the settings are wrong.
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
SECONDS = 5.0  # for each Redis command: no turn waits for it

UPSERT = """INSERT INTO imported_costs (day, agent, field, amount) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET amount = excluded.amount"""
RECORDED = """SELECT 1 FROM turns WHERE day = :day AND agent = :agent
    UNION ALL SELECT 1 FROM replays WHERE day = :day AND agent = :agent LIMIT 1"""

Days = Mapping[tuple[str, str], Mapping[str, float]]
"""(agent, YYYY-MM-DD) → field → amount, as in agentic.state.budgets."""


def main(arguments: Sequence[str]) -> int:
    os.umask(0o077)  # its files contain people's words
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
    except BrokenPipeError:  # the reader stopped, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except RecordError as error:
        print(error, file=sys.stderr)
        if getattr(options, "local", True) is False and local.record_file.exists():
            print("To read the history of local mode, add --local.", file=sys.stderr)
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
        prog="python -m agentic.record",
        description="Work with the history database: the bots' turns, costs, and posts.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in (add_export, add_import_costs, add_migrate, replay.add):
        add(commands)
    return parser


def add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "export",
        help="write a conversation or a room to a page that you can share",
        description="Write a recorded conversation, or a room including people's messages, to a file:"
        " a web page without external content, Markdown, or JSON.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--conversation", metavar="ID", help="the conversation with this id")
    which.add_argument("--room", metavar="THREAD", type=int, help="the room in the thread with this id")
    which.add_argument("--last", action="store_true", help="the newest conversation with a post")
    which.add_argument("--list", action="store_true", help=f"list the newest {LISTED} conversations with their ids")
    parser.add_argument("--format", choices=tuple(FORMATS), default="html", help="default: html")
    parser.add_argument(
        "--output", metavar="FILE", help="default: a file in this folder, named by date and topic; - prints the page"
    )
    parser.add_argument("--local", action="store_true", help="use the history of local mode (run_all.py --local)")
    parser.add_argument("--with-costs", action="store_true", help="include the costs")
    parser.set_defaults(run=run_export)


def run_export(options: argparse.Namespace, settings: Settings) -> int:
    if options.list:
        asyncio.run(_print_list(settings))
        return 0
    page = asyncio.run(_read_page(options, settings))
    if options.output == "-":
        sys.stdout.write(page.text)
    else:
        path = Path(options.output or page.name)
        path.write_text(page.text, encoding="utf-8")
        print(f"Wrote {path}")
    return 0


async def _read_page(options: argparse.Namespace, settings: Settings) -> Exported:
    """Render the chosen conversation or room. Raises RecordError."""
    look = Look(
        names={name: agent.display_name for name, agent in settings.agents.items()},
        colors={name: agent.spec.color for name, agent in settings.agents.items()},
        zone=settings.timezone,
        costs=options.with_costs,
    )
    async with connect(settings.record_file) as db:
        if options.room is not None:
            page = await export_room(db, options.room, options.format, look)
            missing = f"no room in the thread {options.room}. The console lists the rooms"
        else:
            last = await last_conversation(db) if options.last else None
            page = await export(db, last.id if last else options.conversation or "", options.format, look)
            missing = f"no conversation {options.conversation!r}. export --list lists the conversations"
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
        print("No conversations are recorded yet.", file=sys.stderr)
    elif page.next:
        print(f"These are the newest {LISTED} conversations. The console has older ones.", file=sys.stderr)


def add_migrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "migrate",
        help="update the history database to the current format",
        description="Update the history database to the current format. The program also does this when it starts.",
    )
    parser.add_argument("path", nargs="?", type=Path, help="another file; default: the history database of this folder")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--test", action="store_true", help="try it on a temporary copy of the file")
    which.add_argument("--validate", action="store_true", help="check the migrations, and whether PATH needs some")
    parser.set_defaults(run=run_migrate)


def run_migrate(options: argparse.Namespace, settings: Settings) -> int:
    path: Path = options.path or settings.record_file
    if options.path is not None and not path.is_file():  # a mistyped path must not become a new file
        raise RecordError(f"{path}: this file doesn't exist")
    existed = path.exists()
    try:
        if options.validate:
            line = f"The migrations are in order: {migration_names(read_migrations())}."
            if options.path is not None:
                with closing(connect_blocking(path)) as connection:
                    lacks = missing_migrations(connection, read_migrations())
                line += f" {path} lacks {migration_names(lacks)}." if lacks else f" {path} is up to date."
        elif options.test:
            what = f"a copy of {path}" if existed else f"a new file ({path} doesn't exist yet)"
            line = f"Tried on {what}: {migration_names(try_on_copy(path)) or 'nothing is missing'}. It works."
        elif applied := migrate(path):
            kept = f" Backup: {copies(path)[-1]}." if existed else ""
            line = f"{path}: applied {migration_names(applied)}.{kept}"
        else:
            line = f"{path} is up to date."
    except sqlite3.Error as error:
        raise RecordError(f"{path}: {explain_error(error)}") from error
    print(line)
    return 0


def add_import_costs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "import-costs",
        help="import daily costs from Redis",
        description="Import the daily costs that the public agentic-discord wrote to Redis into the history database."
        " Days on which a bot already has recorded turns are skipped. You can run it again.",
    )
    parser.set_defaults(run=run_import_costs)


def run_import_costs(_: argparse.Namespace, settings: Settings) -> int:
    async def copy_costs() -> str:
        redis = locate_redis(settings.redis_url, settings.data_dir, runtime_dir=settings.runtime_dir)
        async with redis as place, RedisConnection(place.address, command_timeout=SECONDS) as link:
            costs = await Costs(link).all_days()
        await asyncio.to_thread(migrate, settings.record_file)
        async with connect(settings.record_file, writable=True) as db:
            return await import_costs(db, costs, place.description)

    try:
        print(asyncio.run(copy_costs()))
    except (RedisAddressError, StateUnavailable, RedisStartError) as error:
        print(f"Reading Redis failed: {error}. Nothing was imported.", file=sys.stderr)
        return 1
    return 0


async def import_costs(db: aiosqlite.Connection, found: Days, place: str) -> str:
    """Write the costs in one transaction; return a line about the imported and skipped costs. It can be repeated."""
    days: set[str] = set()
    costs: dict[str, float] = defaultdict(float)
    recorded = 0  # days of an agent that the record has its own costs for
    async with transaction(db):
        for (agent, day), amounts in found.items():
            if await db.execute_fetchall(RECORDED, {"day": day, "agent": agent}):
                recorded += 1
            elif amounts.get("total_cost"):
                await db.executemany(UPSERT, [(day, agent, name, amount) for name, amount in amounts.items()])
                days.add(day)
                costs[agent] += amounts["total_cost"]
    sums = f"{recorded} daily sum{'s' if recorded != 1 else ''}"
    own = f" Skipped {sums} of days that are already recorded." if recorded else ""
    if not days:
        return f"Nothing to import: {place} has no costs of other days.{own}"
    span = f"{min(days)} to {max(days)}" if len(days) > 1 else min(days)
    each = ", ".join(f"{agent} ${cost:.2f}" for agent, cost in sorted(costs.items()))
    return f"Imported the costs of {span}: ${sum(costs.values()):.2f} ({each}).{own}"


if __name__ == "__main__":
    check_python()
    sys.exit(main(sys.argv[1:]))
