"""The tool thread_read: what came of earlier rooms, only where the reader could have read them."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC
from typing import Any

import pytest

from agentic.record.database import connect_blocking, migrate
from agentic.record.memories import MemoryReader
from agentic.record.rows import conclusion_statements
from agentic.tools.own_tools import EARLIER_HEAD, NO_EARLIER, ThreadReadTool
from agentic.tools.tool import ToolContext
from agentic.wire.entries import RoomConclusion
from tests.support.recording import AT

OPEN, HIDDEN, HERE = 5, 6, 99


def concluded(thread: int, topic: str, **more: Any) -> RoomConclusion:
    values: dict[str, Any] = {
        "channel_id": OPEN, "arguments": (f"Ada: {topic} has seeds",), "message_ids": (thread * 10,), "people": (77,),
        "at": AT + thread, **more,
    }  # fmt: skip
    return RoomConclusion(thread_id=thread, topic=topic, **values)


ROOMS = (
    concluded(50, "Is a tomato a fruit?", agreed=("Cooks decide.",), unsettled=("Who asked botanists?",)),
    concluded(51, "Is soup a drink?", arguments=("Grok: tomatoes make soup",)),
    concluded(52, "Tomatoes in secret", channel_id=HIDDEN),
    concluded(53, "Tomatoes and Eve", people=(88,)),
    concluded(54, "Tomatoes before the reset"),
    concluded(HERE, "Tomatoes here"),
    concluded(55, "Trains"),
)


class Places:
    def may_see(self, here: int) -> Any:
        return lambda channel: channel == OPEN


@pytest.fixture
async def memory(tmp_path):
    migrate(tmp_path / "record.db")
    with closing(connect_blocking(tmp_path / "record.db", writable=True)) as connection:
        for room in ROOMS:
            for sql, values in conclusion_statements(room):
                connection.executemany(sql, values)
    reader = MemoryReader(tmp_path / "record.db")
    yield reader
    await reader.aclose()


async def read(memory: MemoryReader, query: str) -> Any:
    async def since(thread: int) -> int:
        return 540 if thread == 54 else 0

    async def find(words: str, may_see: Any, here: int) -> Any:
        return await memory.earlier_rooms(words, may_see, here, 3, since, ignored=(88,))

    places: Any = Places()
    context: Any = ToolContext(agent="ada", channel_id=HERE, guild_id=1, deadline=0.0)
    return await ThreadReadTool(places, find, UTC).execute(json.loads(json.dumps({"query": query})), context)


async def test_earlier_rooms_on_the_subject_are_read_where_everybody_here_could_read_them(memory):
    found = await read(memory, "tomatoes")
    assert found.text == (
        f"{EARLIER_HEAD}\n## Is a tomato a fruit? (2026-09-21)\n- Ada: Is a tomato a fruit? has seeds\n- Agreed: Cooks"
        " decide.\n- Still open: Who asked botanists?\n## Is soup a drink? (2026-09-21)\n- Grok: tomatoes make soup"
    )
    assert (found.people, found.messages) == (frozenset({77}), (500, 510))


@pytest.mark.parametrize("query", ["economics", "the", "secret", "Eve", "reset here"])
async def test_rooms_that_are_hidden_ignored_reset_or_about_something_else_are_not_found(memory, query):
    assert (await read(memory, query)).text == NO_EARLIER
