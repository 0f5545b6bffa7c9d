"""`python -m agentic.record import-costs`: the history of costs that the public agentic-discord left in Redis."""

from __future__ import annotations

import argparse
import asyncio
import sys

from agent_config import Settings
from agentic.record.database import opened
from agentic.record.migrations import migrate
from agentic.record.store_import_costs import Days, Imported, import_costs
from agentic.state.costs import Costs
from agentic.wire.link import RedisAddressError, RedisAway, RedisLink, RedisStartError
from agentic.wire.locate import locate_redis

SECONDS = 5.0  # for each command: nobody's turn waits for it


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "import-costs",
        help="take over the days' costs that Redis has",
        description="Take the days' costs that Redis has into the record, as the public agentic-discord writes them."
        " Days of a bot that the record has turns of are left out. It can be done again.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, settings: Settings) -> int:
    del options
    try:
        place, found = asyncio.run(_read(settings))
    except (RedisAddressError, RedisAway, RedisStartError) as error:
        print(f"Redis cannot be read, nothing was imported: {error}", file=sys.stderr)
        return 1
    migrate(settings.record_file)
    print(report(asyncio.run(_import(settings, found)), place))
    return 0


async def _read(settings: Settings) -> tuple[str, Days]:
    """The name of the Redis, and the costs that it has."""
    redis = locate_redis(settings.redis_url, settings.data_dir, runtime_dir=settings.runtime_dir)
    async with redis as place, RedisLink(place.address, command_timeout=SECONDS) as link:
        return place.description, await Costs(link).all_days()


async def _import(settings: Settings, found: Days) -> Imported:
    async with opened(settings.record_file, writable=True) as db:
        return await import_costs(db, found)


def report(imported: Imported, place: str) -> str:
    """One line: what was imported from `place`, and what was not."""
    count = imported.recorded
    own = (
        f" {count} daily sum{'s' if count != 1 else ''} of days that the record has itself: left out." if count else ""
    )
    if not imported.days:
        return f"Nothing to import: {place} has no costs of other days.{own}"
    days = f"{imported.days[0]} to {imported.days[-1]}" if len(imported.days) > 1 else imported.days[0]
    each = ", ".join(f"{agent} ${cost:.2f}" for agent, cost in imported.costs.items())
    return f"Imported the costs of {days}: ${sum(imported.costs.values()):.2f} ({each}).{own}"
