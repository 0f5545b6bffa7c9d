"""Rooms and people have names on every page, even if no bot of this process sees them now."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.records import NOW, fill

from agentic.console.json_values import today
from agentic.console.parts import ConsoleContext, RecordFile
from agentic.personas.store import change
from agentic.wire import keys
from tests.agentic.console.conftest import Pages, pages_of

ROOM, TOPIC = 1_300_000_000_000_000_009, "Is tea better than coffee?"
WHO, NAME = 800_000_000_000_000_001, "Ada"


@pytest.fixture
async def pages(parts: ConsoleContext, tmp_path: Path) -> AsyncIterator[Pages]:
    """Pages over a record with a closed room, whose thread no bot sees, and a person who spoke in it."""
    path = tmp_path / "record.db"
    fill(path, 20)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            """UPDATE turns SET channel_id = ?, asked_by = ?, outcome = 'failed', at = ?
            WHERE seq = (SELECT seq FROM turns ORDER BY at DESC LIMIT 1)""",
            (ROOM, WHO, NOW - 9),
        )
        db.execute(
            """UPDATE conversations SET channel_id = ?
            WHERE id = (SELECT id FROM conversations ORDER BY started_at DESC LIMIT 1)""",
            (ROOM,),
        )
        db.execute(
            """INSERT INTO rooms (thread_id, channel_id, conversation_id, topic, policy, members, status, turns,
            turn_number, opened_at, changed_at) VALUES (?, 1, 'c', ?, 'pull', '[]', 'closed', 9, 9, 1, 1)""",
            (ROOM, TOPIC),
        )
        db.execute(
            """INSERT INTO room_messages (message_id, thread_id, author, author_id, name, text, at, read_at)
            VALUES (1, ?, 'person', ?, ?, 'Hm.', 1, 1)""",
            (ROOM, WHO, NAME),
        )
        db.execute(
            "INSERT INTO actions (id, at, by, action, channel_id) VALUES ('a', ?, ?, 'close_room', ?)",
            (NOW, str(WHO), ROOM),
        )
    folder = parts.settings.personas_dir / "claude"
    folder.mkdir(parents=True)
    change(folder, "memory.md", lambda _: f"- Tea. <!-- channel:{ROOM} by:{WHO} -->\n")
    spent = {f"channel:{ROOM}": 500_000, f"person:{WHO}": 500_000}  # millionths of a dollar
    await parts.state.link.call(lambda redis: redis.hset(keys.budget(today(parts)), mapping=spent))
    async with pages_of(replace(parts, store=RecordFile(path))) as asked:
        yield asked


def is_named(channel: dict[str, Any]) -> bool:
    return (channel["id"], channel["name"], channel["room"]) == (str(ROOM), TOPIC, TOPIC)


async def test_a_closed_room_is_shown_by_its_topic_and_a_person_by_name(pages: Pages) -> None:
    (turn,) = [turn for turn in (await pages.get("/api/turns"))["items"] if turn["channel"]["id"] == str(ROOM)]
    assert (is_named(turn["channel"]), turn["asked_by_name"]) == (True, NAME)
    assert is_named((await pages.get("/api/conversations"))["items"][0]["channel"])
    costs = await pages.get("/api/costs", days="90")
    assert any(is_named(row["channel"]) for row in costs["channels"] if row["channel"]["id"] == str(ROOM))
    assert NAME in [row["name"] for row in costs["people"]]
    (action,) = (await pages.get("/api/actions"))["items"][:1]
    assert (is_named(action["channel"]), action["name"]) == (True, NAME)
    failure = (await pages.get("/api/overview"))["history"]["failures"][0]
    assert (is_named(failure["channel"]), failure["asked_by_name"]) == (True, NAME)
    (entry,) = (await pages.get("/api/agents/claude"))["memory"]
    assert (is_named(entry["channels"][0]), entry["people"]) == (True, [{"person": str(WHO), "name": NAME}])
    budgets = await pages.get("/api/budgets")
    names = {use["id"]: use["name"] for use in (*budgets["channels"], *budgets["people"])}
    assert (names[str(ROOM)], names[str(WHO)]) == (TOPIC, NAME)
