"""A room as a page: agents' posts and people's messages in their order, nobody's id, nothing executed."""

import json
from contextlib import closing

import pytest

from agentic.record.__main__ import main
from agentic.record.database import RecordError, connect_blocking, migrate
from agentic.record.export.render import room_page
from agentic.record.export.story import Look
from agentic.record.rows import post_statements, room_statements, room_words_statements, turn_statements
from agentic.wire.entries import PostWords, RoomMessage, RoomNote, RoomWords
from tests.support.recording import AT, turn

ANN = 900_000_000_000_000_077
HOSTILE = "<script>alert(1)</script>"
ROOM = RoomNote(
    thread_id=50,
    channel_id=5,
    conversation_id="c1",
    topic="Is P equal to NP?",
    policy="round-robin",
    members=("claude", "historian"),
    status="closed",
    why="turn_limit",
    opened_at=AT,
    changed_at=AT + 60,
)


@pytest.fixture
def path(tmp_path):
    said = (
        RoomMessage(message_id=10, author="agent", agent="claude", name="Claude", text="No.", at=AT),
        RoomMessage(message_id=11, author="person", author_id=ANN, name="Ann", text=f"Why? {HOSTILE}", at=AT + 1),
        RoomMessage(message_id=12, author="agent", agent="historian", name="The Historian", text="1971.", at=AT + 2),
    )
    path = tmp_path / "record.db"
    migrate(path)
    post = PostWords(agent="claude", turn_id="t", message_id=10, channel_id=50, at=AT, text="No, it is not.")
    words = RoomWords(agent="claude", thread_id=50, at=AT, messages=said)
    with closing(connect_blocking(path, writable=True)) as connection:
        for sql, values in (
            *room_statements(ROOM),
            *turn_statements(turn("t", channel_id=50, cost_usd=0.5, posted=(10,)), str),
            *post_statements(post),
            *room_words_statements(words),
        ):
            connection.executemany(sql, values)
    return path


async def test_the_page_has_everything_in_order_and_names_people_without_their_ids(path):
    page = await room_page(path, 50, "html", Look(names={"claude": "Claude"}))
    places = [
        page.text.index(part) for part in ("No, it is not.", "<b>Ann</b>", "Why?", "<b>The Historian</b>", "1971.")
    ]
    assert places == sorted(places)
    assert page.name == "room-2026-09-21-is-p-equal-to-np.html"
    assert "3 messages" in page.text
    for kind in ("html", "md", "json"):
        text = (await room_page(path, 50, kind)).text
        assert str(ANN) not in text
        assert kind == "json" or HOSTILE not in text


async def test_json_tells_agents_from_people(path):
    found = json.loads((await room_page(path, 50, "json")).text)
    assert [(each["agent"], each["name"]) for each in found["messages"]] == [
        ("claude", "Claude"),
        (None, "Ann"),
        ("historian", "The Historian"),
    ]
    assert [each["agent"] for each in found["agents"]] == ["claude", "historian"]
    assert (found["theme"], found["ended_because"]) == ("room", "turn_limit")


async def test_a_post_that_was_deleted_is_left_out(path):
    with closing(connect_blocking(path, writable=True)) as connection:
        connection.execute("UPDATE posts SET deleted_at = 1, text = ''")
        connection.execute("DELETE FROM room_messages WHERE message_id = 10")
    assert len(json.loads((await room_page(path, 50, "json")).text)["messages"]) == 2


async def test_a_room_that_is_not_recorded_has_no_page(path, tmp_path):
    assert await room_page(path, 51) is None
    with pytest.raises(RecordError, match="no record at"):
        await room_page(tmp_path / "none.db", 50)


def test_the_command_writes_it_and_says_so_where_there_is_none(path, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["export", "--room", "50", "--format", "md", "--with-costs"]) == 0
    assert capsys.readouterr().out == "Wrote room-2026-09-21-is-p-equal-to-np.md\n"
    text = (tmp_path / "room-2026-09-21-is-p-equal-to-np.md").read_text()
    assert "Cost: $0.5000" in text
    assert "**Ann**" in text
    assert main(["export", "--room", "51"]) == 1
    assert "no room in the thread 51" in capsys.readouterr().err
