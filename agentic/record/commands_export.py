"""`python -m agentic.record export`: a recorded conversation or room as a page to share."""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import datetime
from pathlib import Path

from agent_config import Settings
from agentic.record.database import RecordError, opened
from agentic.record.export.render import FORMATS, export, file_name
from agentic.record.export.room_story import export_room
from agentic.record.export.story import Look
from agentic.record.queries.conversations import conversation_of, conversations_page, last_conversation

LISTED = 30


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, settings: Settings) -> int:
    if options.list:
        asyncio.run(_print_list(settings))
        return 0
    read = _read if options.room is None else _read_room
    name, text = asyncio.run(read(options, settings))
    if options.output == "-":
        sys.stdout.write(text)
        return 0
    path = Path(options.output or name)
    path.write_text(text, encoding="utf-8")
    print(f"Wrote {path}")
    return 0


async def _read(options: argparse.Namespace, settings: Settings) -> tuple[str, str]:
    """A file's name for the chosen conversation, and its page. Raises RecordError where there is none."""
    async with opened(settings.record_file) as db:
        if options.last:
            conversation = await last_conversation(db)
            missing = "no conversation has a post yet"
        else:
            conversation = await conversation_of(db, options.conversation)
            missing = f"there is no conversation {options.conversation!r}. export --list shows which there are"
        if conversation is None:
            raise RecordError(missing)
        look = look_of(settings, costs=options.with_costs)
        began = datetime.fromtimestamp(conversation.started_at, settings.timezone)
        name = file_name("conversation", began, conversation.topic or conversation.theme, options.format)
        return name, await export(db, conversation.id, options.format, look) or ""


async def _read_room(options: argparse.Namespace, settings: Settings) -> tuple[str, str]:
    """As `_read`, of a room."""
    async with opened(settings.record_file) as db:
        found = await export_room(db, options.room, options.format, look_of(settings, costs=options.with_costs))
    if found is None:
        raise RecordError(f"there is no room in the thread {options.room}. The console lists which there are")
    return found.name, found.text


def look_of(settings: Settings, *, costs: bool = False) -> Look:
    """The agents' names and colours, as the settings and personas have them."""
    return Look(
        names={name: agent.display_name for name, agent in settings.agents.items()},
        colours={name: agent.spec.colour for name, agent in settings.agents.items()},
        zone=settings.timezone,
        costs=costs,
    )


async def _print_list(settings: Settings) -> None:
    async with opened(settings.record_file) as db:
        page = await conversations_page(db, count=LISTED)
    for each in page.items:
        began = datetime.fromtimestamp(each.started_at, settings.timezone)
        topic = " ".join((each.topic or "").split())
        print(f"{each.id}  {began:%Y-%m-%d %H:%M}  {each.theme:<15}  {each.messages:>3} posts  {topic}")
    if not page.items:
        print("No conversation was recorded yet.", file=sys.stderr)
    elif page.next:
        print(f"These are the newest {LISTED}; older ones are in the console.", file=sys.stderr)
