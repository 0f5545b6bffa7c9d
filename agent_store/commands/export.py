"""`python -m agent_store export`: a recorded conversation as a page to share."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from datetime import datetime
from pathlib import Path

from agent_config import Settings
from agent_store.database import RecordError, opened
from agent_store.export.render import FORMATS, export
from agent_store.export.story import Look
from agent_store.queries.conversations import Conversation, conversation_of, conversations_page, last_conversation

LISTED = 30
TITLE_CHARACTERS = 60  # of a file's name


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "export",
        help="write a conversation as a page to share",
        description="Write a recorded conversation to a file: a web page that loads nothing, Markdown, or JSON.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--conversation", metavar="ID", help="the conversation with this id")
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
    conversation, text = asyncio.run(_read(options, settings))
    if options.output == "-":
        sys.stdout.write(text)
        return 0
    path = Path(options.output or _file_name(conversation, options.format, settings))
    path.write_text(text, encoding="utf-8")
    print(f"Wrote {path}")
    return 0


async def _read(options: argparse.Namespace, settings: Settings) -> tuple[Conversation, str]:
    """The chosen conversation, and its page. Raises RecordError where there is none."""
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
        return conversation, await export(db, conversation.id, options.format, look) or ""


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


def _file_name(conversation: Conversation, kind: str, settings: Settings) -> str:
    began = datetime.fromtimestamp(conversation.started_at, settings.timezone)
    words = re.sub(r"[^a-z0-9]+", "-", (conversation.topic or conversation.theme).lower())[:TITLE_CHARACTERS].strip("-")
    return f"conversation-{began:%Y-%m-%d}-{words or conversation.theme}.{kind}"
