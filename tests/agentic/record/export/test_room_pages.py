"""A room as a page: agents' posts and people's messages in their order, nobody's id, nothing executed."""

import json
from contextlib import closing

import pytest

from agentic.record.__main__ import main
from agentic.record.database import RecordError, connect_blocking, migrate
from agentic.record.export.render import room_page
from agentic.record.export.story import Look, Progress
from agentic.record.rows import (
    REACTION,
    conclusion_statements,
    post_statements,
    room_statements,
    room_words_statements,
    turn_statements,
)
from agentic.wire.entries import PostWords, ReactionNote, RoomConclusion, RoomMessage, RoomNote, RoomWords
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
    rules="Be <b>brief</b>.",
    sides={"claude": "for"},
)
CLOSED = RoomConclusion(
    thread_id=50,
    channel_id=5,
    topic=ROOM.topic,
    card="**This room is closed**: it used all of its turns.",
    message_ids=(10, 12),
    people=(ANN,),
    closed_at=AT + 60,
    at=AT + 61,
)


def write(path, *statements):
    with closing(connect_blocking(path, writable=True)) as connection:
        for sql, values in statements:
            connection.executemany(sql, values)


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
    write(
        path,
        *room_statements(ROOM),
        *turn_statements(turn("t", channel_id=50, cost_usd=0.5, posted=(10,), room_turn=1, model="openai/one"), str),
        *post_statements(post),
        *room_words_statements(words),
    )
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


async def test_the_page_of_a_debate_names_its_format_and_has_the_whole_topic(path):
    whole = f"Is P equal to NP?\n\nOnly proofs *count*. {HOSTILE}"
    write(path, *room_statements(ROOM.model_copy(update={"format": "debate", "details": whole})))
    html, markdown, found = [(await room_page(path, 50, kind)).text for kind in ("html", "md", "json")]
    assert '<p class="label">debate' in html
    assert "Only proofs <em>count</em>." in html
    assert HOSTILE not in html
    assert "*debate, 2026" in markdown
    assert "> Only proofs *count*. &lt;script>" in markdown
    assert json.loads(found)["details"] == whole


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
    with pytest.raises(RecordError, match="No history was found at"):
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


async def test_the_page_has_rules_sides_models_votes_and_the_closing_card(path):
    given = (ANN, "👍"), (ANN, "👍🏽"), (78, "👍"), (79, "🔥"), (99, "👍")  # two people, and a bot
    reactions = [
        REACTION.of(ReactionNote(message_id=10, channel_id=50, user_id=user, emoji=emoji, at=AT))
        for user, emoji in given
    ]
    write(path, *reactions, *conclusion_statements(CLOSED))
    look = Look(names={"claude": "Claude"}, bots=(99,))
    html, markdown = [(await room_page(path, 50, kind, look)).text for kind in ("html", "md")]
    assert "Rules: Be &lt;b&gt;brief&lt;/b&gt;." in html
    assert "for, openai/one, 2 votes" in html
    assert "<strong>This room is closed</strong>: it used all of its turns." in html
    assert html.index("1971.") < html.index("This room is closed")
    assert "- **Claude**: for, openai/one, 2 votes" in markdown
    assert markdown.endswith("> **This room is closed**: it used all of its turns.\n")
    found = json.loads((await room_page(path, 50, "json", look)).text)
    assert (found["votes"], found["sides"]) == ({"claude": 2}, {"claude": "for"})
    assert str(ANN) not in json.dumps(found)


@pytest.mark.promise(592)
async def test_an_export_waits_for_the_last_post_and_the_card(path, monkeypatch):
    later = [
        [*turn_statements(turn("t2", channel_id=50, posted=(13,), room_turn=2), str)],
        [*post_statements(PostWords(agent="claude", turn_id="t2", message_id=13, channel_id=50, at=AT, text="Last."))],
        [*conclusion_statements(CLOSED)],
    ]
    waited = iter(later)

    async def sleep(_):
        write(path, *next(waited))

    monkeypatch.setattr("agentic.record.export.render.asyncio.sleep", sleep)
    page = await room_page(path, 50, "html", upto=Progress(2, ROOM.changed_at))
    assert "Last." in page.text
    assert "This room is closed" in page.text
    assert next(waited, None) is None


async def test_an_export_of_a_room_whose_last_post_was_lost_ends(path, monkeypatch):
    monkeypatch.setattr("agentic.record.export.render.LOOK_SECONDS", 0.0)
    assert "No, it is not." in (await room_page(path, 50, upto=Progress(7))).text
