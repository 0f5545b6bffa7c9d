from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.records import NOW, PEOPLE
from yarl import URL

from agentic.console.api.turns import why_no_words
from agentic.console.json_values import exact, message_link
from agentic.console.parts import ConsoleContext, RecordFile
from agentic.ids import FIRST_ELSEWHERE
from agentic.record.queries.turns import Call, Turn
from agentic.state.record_stream import pack, unpack
from agentic.wire.entries import CallRecord
from tests.agentic.console.conftest import HOSTILE, ODD_ID, Pages, pages_of

DEBATE = "1200000000000000002"


@pytest.fixture
def record_file(record_file: Path, tmp_path: Path) -> Path:
    """A copy, since some tests here write into it."""
    return Path(shutil.copy(record_file, tmp_path / "record.db"))


async def test_pages_follow_each_other_without_gap_or_repetition(pages: Pages) -> None:
    first = await pages.get("/api/turns", count="7")
    second = await pages.get("/api/turns", count="7", before=first["next"])
    both = await pages.get("/api/turns", count="14")
    assert [(turn["agent"], turn["id"]) for turn in first["items"] + second["items"]] == [
        (turn["agent"], turn["id"]) for turn in both["items"]
    ]
    assert len(both["items"]) == 14


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        ({"agent": "grok"}, "agent", "grok"),
        ({"channel": DEBATE}, "channel", {"id": DEBATE, "name": "debate"}),
        ({"outcome": "failed"}, "outcome", "failed"),
        ({"model": "xai/grok-4.7"}, "model", "xai/grok-4.7"),
        ({"conversation": "showcase"}, "conversation_id", "showcase"),
        ({"person": "900000000000000002"}, "asked_by", "900000000000000002"),
        ({"from": "2026-11-20", "to": "2026-11-20"}, "day", "2026-11-20"),
        ({"hours": "18"}, "day", "2026-11-22"),
    ],
)
async def test_each_filter_leaves_only_what_it_names(
    pages: Pages, query: dict[str, str], field: str, value: object
) -> None:
    items = (await pages.get("/api/turns", **query))["items"]
    assert items
    assert all(turn[field] == value for turn in items)


def test_a_message_of_signal_has_no_address_at_discord() -> None:
    assert message_link(None, 5, 7) == "https://discord.com/channels/@me/5/7"
    assert message_link(None, FIRST_ELSEWHERE + 5, 7) is None


async def test_words_are_found_in_posts(pages: Pages) -> None:
    found = await pages.get("/api/turns", words="marshmallows")
    assert [turn["id"] for turn in found["items"]] == ["showcase-4"]
    assert (await pages.get("/api/turns", words="100%_\\"))["items"] == []


async def test_a_page_by_cost_goes_on_where_the_page_before_ended(pages: Pages) -> None:
    first = await pages.get("/api/turns", order="cost", count="5")
    second = await pages.get("/api/turns", order="cost", count="5", before=first["next"])
    costs = [turn["cost_usd"] for turn in first["items"] + second["items"]]
    assert costs == sorted(costs, reverse=True)
    assert len({(turn["agent"], turn["id"]) for turn in first["items"] + second["items"]}) == 10


async def test_a_turn_names_its_neighbors_in_the_list_from_which_it_was_opened(pages: Pages) -> None:
    newer, turn, older = (await pages.get("/api/turns", agent="grok", hours="48", count="3"))["items"]
    shown = await pages.get(f"/api/turns/grok/{turn['id']}", agent="grok", hours="48")
    assert (shown["newer"]["id"], shown["older"]["id"]) == (newer["id"], older["id"])
    assert (await pages.get(f"/api/turns/grok/{newer['id']}", agent="grok"))["newer"] is None


async def test_what_changed_since_a_bots_last_turn_is_shown_by_line(pages: Pages, record_file: Path) -> None:
    with closing(sqlite3.connect(record_file)) as connection:
        (data,) = connection.execute("SELECT data FROM words WHERE turn_id = 'showcase-6'").fetchone()
        words = unpack(data)
        task = words.model_copy(update={"text": f"{words.text}\nBe brief."})
        connection.execute("UPDATE words SET data = ? WHERE turn_id = 'showcase-6'", (pack(task).words,))
        connection.commit()
    changes = await pages.get("/api/turns/claude/showcase-6/changes")
    assert changes["with"] == changes["others"][0]["id"] == "showcase-2"
    assert (changes["added"], changes["removed"]) == (1, 0)
    assert {"sign": "+", "text": "Be brief."} in changes["lines"]
    same = await pages.get("/api/turns/claude/showcase-6/changes", **{"with": "showcase-6"})
    assert same["lines"] == []
    assert (
        "isn't in the history"
        in (await pages.get("/api/turns/claude/showcase-6/changes", status=404, **{"with": "none"}))["error"]
    )


async def test_the_filters_offer_people_and_rooms_by_name(pages: Pages, record_file: Path) -> None:
    with closing(sqlite3.connect(record_file)) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO rooms (thread_id, channel_id, conversation_id, topic, policy, members, status,"
            " turns, turn_number, opened_at, changed_at)"
            " VALUES (9, 1, 'c', 'Cats or dogs', 'rounds', '[]', 'closed', 9, 9, 1, 1)"
        )
        connection.execute(
            "INSERT OR REPLACE INTO room_messages VALUES (1, 9, 'person', ?, NULL, 'Mia', 'Dogs.', 1, 1)", (PEOPLE[0],)
        )
        connection.commit()
    choices = await pages.get("/api/turns/choices")
    assert {"id": "9", "name": "Cats or dogs", "room": "Cats or dogs"} in choices["channels"]
    assert "Mia" in [person["name"] for person in choices["people"]]
    assert choices["conversations"][0]["topic"] == "is a tomato a fruit, and should anybody care?"
    (turn,) = (await pages.get("/api/turns", channel="9"))["items"]
    assert turn["channel"]["name"] == "Cats or dogs"
    asked = (await pages.get("/api/turns", person=str(PEOPLE[0])))["items"]
    assert {turn["asked_by_name"] for turn in asked} == {"Mia"}


async def test_the_turns_over_time_follow_the_filter(pages: Pages) -> None:
    found = await pages.get("/api/turns/over-time", agent="grok", hours="24")
    turns = await pages.get("/api/turns", agent="grok", hours="24", count="200")
    assert sum(part["turns"] for part in found["items"]) == len(turns["items"]) > 0
    assert found["until"] == NOW


@pytest.mark.promise(138)
@pytest.mark.parametrize(
    "query",
    [
        {"channel": "1 OR 1=1"},
        {"channel": "9" * 30},
        {"person": "-1"},
        {"before": "nan:1"},
        {"before": "1:99999999999999999999"},
        {"before": "x"},
        {"before": "1e999:1"},
        {"count": "0"},
        {"count": "1e9"},
        {"words": "x" * 5000},
        {"agent": "a\0b"},
        {"order": "cheapest"},
        {"within": "dreams"},
        {"hours": "-1"},
        {"from": "2026-11-22", "to": "2026-11-01"},
        {"to": "9999-12-31"},
    ],
)
async def test_odd_parameters_are_refused_in_one_line(pages: Pages, query: dict[str, str]) -> None:
    answer = await pages.get("/api/turns", status=400, **query)
    assert answer.keys() == {"error"}
    assert "\n" not in answer["error"]


async def test_a_turn_shows_its_prompt_calls_posts_and_what_was_skipped_before_it(pages: Pages) -> None:
    turn = await pages.get("/api/turns/claude/showcase-6")
    assert turn["conversation"]["topic"] == "is a tomato a fruit, and should anybody care?"
    assert turn["round"] == 2
    assert turn["phases"].keys() == {"waiting", "context", "model", "tools", "posting"}
    (call,) = turn["calls"]
    assert call["words"]["system"]
    assert call["words"]["history"]
    assert call["words"]["reasoning"] == "Nobody has said yet what counts as a vegetable."
    assert call["no_words"] is None
    (post,) = turn["posts"]
    assert post["reactions"] == [{"emoji": "❤️", "count": 4}]
    assert post["link"].endswith(f"/{DEBATE}/{post['id']}")
    assert {type(value) for value in (post["id"], turn["channel"]["id"])} == {str}


@pytest.mark.promise(138)
async def test_a_turn_with_an_odd_id_is_found_and_its_texts_stay_texts(pages: Pages) -> None:
    response = await pages.client.get(URL(f"/api/turns/claude/{quote(ODD_ID, safe='')}", encoded=True))
    turn = await response.json()
    assert response.content_type == "application/json"
    assert (turn["id"], turn["posts"][0]["text"], turn["reason_text"]) == (ODD_ID, HOSTILE, HOSTILE)


@pytest.mark.promise(138)
@pytest.mark.parametrize(
    ("days", "removed", "at", "line", "kind"),
    [
        ("0", None, NOW - 90, "Not recorded: RECORD_PROMPTS_DAYS is 0.", "mention"),
        ("7", None, NOW - 5, "Not here yet", "mention"),
        ("7", None, NOW - 8 * 86400, "Removed after 7 days", "mention"),
        ("7", None, NOW - 86400, "Not recorded", "mention"),
        ("7", "forgotten", NOW - 90, "/forget me", "mention"),
        ("7", "deleted", NOW - 90, "deleted in Discord", "mention"),
        ("7", "unreadable", NOW - 90, "can't be read", "mention"),
        ("7", None, NOW - 86400, "never kept", "arena"),
    ],
)
def test_missing_words_say_why(
    parts: ConsoleContext, days: str, removed: str | None, at: float, line: str, kind: str
) -> None:
    services: Any = parts.actions.context.services
    services.settings = parts.settings.with_(record_prompts_days=int(days))
    call = Call(CallRecord(n=0), None, removed)
    assert line in why_no_words(
        parts, call, Turn(id="t", agent="claude", kind=kind, trigger=kind, channel_id=1, at=at, seq=1, text="")
    )


def test_an_id_in_a_models_answer_stays_exact_in_a_browser() -> None:
    answer = {"react_to_message_id": 1574202330071433216, "skip": False, "calls": ({"id": 7, "text": "x"},)}
    assert exact(answer) == {
        "react_to_message_id": "1574202330071433216",
        "skip": False,
        "calls": [{"id": 7, "text": "x"}],
    }


async def test_a_turn_that_is_not_there_is_said_so(pages: Pages) -> None:
    for address in ("/api/turns/claude/none", "/api/turns/nobody/showcase-6", f"/api/turns/claude/{'x' * 3000}"):
        assert "isn't in the history" in (await pages.get(address, status=404))["error"]


async def test_pictures_are_served_as_pictures_only(pages: Pages) -> None:
    turn = await pages.get("/api/turns/gemini/showcase-5")
    response = await pages.client.get(f"/{turn['posts'][0]['picture']}")
    assert (response.status, response.content_type) == (200, "image/png")
    assert (await response.read()).startswith(b"\x89PNG")
    assert (await pages.client.get("/api/pictures/77")).status == 404
    assert (await pages.client.get("/api/pictures/x")).status == 400


async def test_without_a_record_each_list_says_so(parts: ConsoleContext) -> None:
    async with pages_of(replace(parts, store=RecordFile(None))) as pages:
        for path in ("/api/turns", "/api/turns/choices", "/api/turns/claude/m1", "/api/conversations", "/api/costs"):
            assert "RECORD_DAYS" in (await pages.get(path, status=404))["error"]
        assert (await pages.get("/api/record"))["state"] is None
        assert len((await pages.get("/api/agents"))["items"]) == 4
        assert (await pages.get("/api/budgets"))["forecast"] is None
