"""The page of a room that the owner shares: who can read it, what is on it, and what it may do in a browser."""

from __future__ import annotations

import base64
import hashlib
from contextlib import closing
from pathlib import Path

import pytest

from agentic.console.parts import RecordFile
from agentic.record.database import connect_blocking, migrate
from agentic.record.rows import conclusion_statements, post_statements, room_statements, turn_statements
from agentic.wire.entries import PostWords, RoomConclusion, RoomNote
from tests.agentic.console.test_rooms_page import page
from tests.support.recording import AT, turn


def recorded(path: Path) -> Path:
    note = RoomNote(
        thread_id=21, channel_id=11, conversation_id="c", topic="Tea?", policy="pull", members=("claude",),
        status="closed", opened_at=AT, changed_at=AT,
    )  # fmt: skip
    post = PostWords(agent="claude", turn_id="t", message_id=30, channel_id=21, at=AT, text="Tea, see <#12> and <#11>.")
    closed = RoomConclusion(
        thread_id=21, channel_id=11, topic="Tea?", card="It is over.", agreed=("Tea.",), message_ids=(30,), at=AT
    )
    migrate(path)
    with closing(connect_blocking(path, writable=True)) as connection:
        for sql, values in (
            *room_statements(note),
            *turn_statements(turn("t", channel_id=21, cost_usd=0.5, posted=(30,)), str),
            *post_statements(post),
            *conclusion_statements(closed),
        ):
            connection.executemany(sql, values)
    return path


async def test_a_room_is_on_a_page_for_anyone_with_the_link_until_the_owner_ends_it(tmp_path: Path) -> None:
    async with page(store=RecordFile(recorded(tmp_path / "record.db"))) as console:
        room = await console.get("/api/rooms/21")
        assert (room["shared"], room["votes"]) == (None, {"ada": 0, "claude": 0})
        assert room["conclusion"]["agreed"] == ["Tea."]
        assert (await console.act("share_room", room="21"))[0] == 200
        address = "/" + (await console.get("/api/rooms/21"))["shared"]
        async with console.client.session.get(console.client.make_url(address), cookies={}) as answer:
            text = await answer.text()
        assert answer.status == 200
        assert "It is over." in text
        assert 'see <span class="mention">#channel</span> and <span class="mention">#debate</span>' in text
        assert "$0.5" not in text
        policy = answer.headers["Content-Security-Policy"]
        style = text.partition("<style>")[2].partition("</style>")[0]
        assert f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'" in policy
        assert "script" not in policy
        assert "sandbox" in policy
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert (await console.act("share_room", room="21"))[0] == 200
        assert "/" + (await console.get("/api/rooms/21"))["shared"] == address
        assert (await console.act("unshare_room", room="21"))[0] == 200
        assert (await console.client.get(address)).status == 404
        assert (await console.get("/api/rooms/21"))["shared"] is None
        assert [note.action for note in console.notes] == ["share_room", "share_room", "unshare_room"]


@pytest.mark.promise(593)
async def test_no_page_is_shared_unless_the_owner_did_it(tmp_path: Path) -> None:
    async with page(store=RecordFile(recorded(tmp_path / "record.db"))) as console:
        for token in ("21", "x" * 43, "a" * 400):
            assert (await console.client.get(f"/shared/{token}")).status == 404
        answer = await console.client.get("/shared/" + "x" * 43, headers={"Host": "evil.example"})
        assert answer.status == 403
        assert "isn't shared" in (await console.act("unshare_room", room="21"))[1]
