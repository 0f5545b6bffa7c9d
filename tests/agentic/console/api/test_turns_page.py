from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from support.records import NOW
from yarl import URL

from agentic.console.api.turns import why_no_words
from agentic.console.json_values import exact, message_link
from agentic.console.parts import ConsoleContext, RecordFile
from agentic.ids import FIRST_ELSEWHERE
from agentic.record.queries.turns import Call
from agentic.wire.entries import CallRecord
from tests.agentic.console.conftest import HOSTILE, ODD_ID, Pages, pages_of

DEBATE = "1200000000000000002"


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
    ("days", "removed", "at", "line"),
    [
        ("0", None, NOW - 90, "Not recorded: RECORD_PROMPTS_DAYS is 0."),
        ("7", None, NOW - 5, "Not here yet"),
        ("7", None, NOW - 8 * 86400, "Removed after 7 days"),
        ("7", None, NOW - 86400, "Not recorded"),
        ("7", "forgotten", NOW - 90, "/forget me"),
        ("7", "deleted", NOW - 90, "deleted in Discord"),
        ("7", "unreadable", NOW - 90, "can't be read"),
    ],
)
def test_missing_words_say_why(parts: ConsoleContext, days: str, removed: str | None, at: float, line: str) -> None:
    services: Any = parts.actions.context.services
    services.settings = parts.settings.with_(record_prompts_days=int(days))
    call = Call(CallRecord(n=0), None, removed)
    assert line in why_no_words(parts, call, at)


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
