"""Rooms that Redis no longer has, but the history does."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentic.console.parts import RecordFile
from agentic.wire import keys
from tests.agentic.console.test_rooms_page import page
from tests.agentic.console.test_shared_page import recorded


@pytest.mark.promise(610)
async def test_a_room_that_only_the_history_has_is_shown_as_it_was(tmp_path: Path) -> None:
    async with page(store=RecordFile(recorded(tmp_path / "record.db"))) as console:
        before = await console.get("/api/rooms/21")
        await console.link.call(lambda redis: redis.delete(keys.room(21)))
        room = await console.get("/api/rooms/21")
        assert (before["kept"], room["kept"], room["status"]) == (True, False, "closed")
        assert (room["topic"], room["cost_usd"]) == ("Tea?", 0.5)
        assert [(member["key"], member["shown"]) for member in room["members"]] == [("claude", "Claude")]
        assert (room["messages"], room["conclusion"]) == (before["messages"], before["conclusion"])
        missing = await console.client.get("/api/rooms/22")
        assert (missing.status, await missing.json()) == (
            404,
            {"error": "This room doesn't exist, or it isn't in the history anymore."},
        )
