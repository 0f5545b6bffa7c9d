"""Threads in the terminal: short names, what is said about them, and who speaks there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agentic.local.terminal.view import Threads
from tests.agentic.local.terminal.test_terminal import NAMES, FakeStandIn, message, shown, terminal, typed


def thread(number: int = 20, name: str = "Is P equal to NP?", **state: bool) -> dict[str, Any]:
    return {"id": str(number), "name": name, "parent_id": "11", "thread_metadata": state}


def by_persona(text: str, name: str) -> dict[str, Any]:
    said = message(text, author=77, channel=20, webhook_id="77")
    return {**said, "author": {**said["author"], "username": name}}


def test_a_thread_gets_a_name_that_can_be_typed() -> None:
    text = shown(
        ("THREAD_CREATE", thread()), ("THREAD_CREATE", thread(21, "Tea")), ("THREAD_CREATE", thread(21, "Tea"))
    )
    assert "a new thread in #debate: “Is P equal to NP?”; type #room-1 to go there" in text
    assert text.count("type #room-2 to go there") == 1


def test_posts_stand_behind_the_name_of_their_thread_and_personas_have_colors_of_their_own() -> None:
    names = replace(NAMES, personas={"Historian": "#aa5500"})
    screen, out = terminal(names=names)
    for event, data in (
        ("THREAD_CREATE", thread()),
        ("MESSAGE_CREATE", message("", channel=20, type=21)),
        ("MESSAGE_CREATE", by_persona("In 1971", "Historian")),
        ("MESSAGE_CREATE", by_persona("Build it", "Engineer")),
    ):
        screen.show(event, data)
    lines = [line.split() for line in out.getvalue().splitlines()[1:]]
    assert lines == [
        ["12:00", "1", "#room-1", "Historian", "In", "1971"],
        ["12:00", "2", "#room-1", "Engineer", "Build", "it"],
    ]


async def test_a_person_goes_to_a_thread_writes_there_and_is_back_when_it_is_deleted() -> None:
    stand_in = FakeStandIn()
    screen, out = terminal(stand_in=stand_in, lines=typed("#room-1", "hello", "#debate psst"))
    async with screen.watching():
        screen.show("THREAD_CREATE", thread())
        await screen.run()
        assert stand_in.said == [(9, 20, "hello"), (9, 11, "psst")]
        assert "you are in #room-1: “Is P equal to NP?”" in out.getvalue()
        screen.show("THREAD_DELETE", {"id": "20", "parent_id": "11"})
    assert screen.channel == 11
    assert "#room-1 was deleted" in out.getvalue()


def test_what_changes_for_a_person_is_said_once() -> None:
    threads = Threads({11: "debate"})
    threads.take("THREAD_CREATE", thread())
    states = ({}, {"locked": True}, {"locked": True}, {}, {"archived": True}, {"archived": True, "locked": True})
    assert [threads.take("THREAD_UPDATE", thread(**state)) for state in states] == [
        None,
        "#room-1 is locked: only moderators can write there",
        None,
        "#room-1 is open",
        "#room-1 is archived; a message opens it again",
        "#room-1 is archived and locked",
    ]
    assert threads.take("THREAD_UPDATE", thread(99)) is None


async def test_in_a_room_people_react_to_its_newest_post_and_answer_its_newest_poll() -> None:
    stand_in = FakeStandIn()
    lines = ("#room-1", "/react yes", "/vote", "/vote maybe", "/vote against", "/vote 1 for", "/vote 2 FOR")
    screen, out = terminal(stand_in=stand_in, lines=typed(*lines))
    answers = [{"answer_id": n, "poll_media": {"text": text}} for n, text in enumerate(("For", "Against"), start=1)]
    poll = {"question": {"text": "Tea? Where do you stand?"}, "answers": answers}
    async with screen.watching():
        screen.show("THREAD_CREATE", thread())
        screen.show("MESSAGE_CREATE", message("Seeds decide.", channel=20, id="101"))
        screen.show("MESSAGE_CREATE", message("🫥 Say where you stand.", channel=20, id="102", poll=poll))
        screen.show("MESSAGE_CREATE", message("🫥 Grok speaks next, <t:1800000000:R>.", channel=20, id="103"))
        screen.show("MESSAGE_CREATE", message("", channel=20, id="104", type=46, embeds=[{"type": "poll_result"}]))
        await screen.run()
    assert stand_in.done == [(9, 20, 101, "👍"), (9, 20, 102, "Against"), (9, 20, 102, "For")]
    said = " ".join(out.getvalue().split())
    assert "Grok speaks next, in " in said
    assert "[the poll is over]" in said
    assert "Tea? Where do you stand? For · Against; /vote For answers it" in said
    assert said.count("/vote needs one of For, Against") == 2
    assert "message 1 has no poll" in said
    assert "your answer to the poll in message 2: Against" in said
