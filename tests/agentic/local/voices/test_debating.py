"""Scripted debates in rooms: on any topic, no line twice, to the point of a person, and with an end."""

from __future__ import annotations

import json
import random
import re
from string import Formatter
from typing import Any

import pytest

from agentic.llm.types import Prompt
from agentic.local.voices.debating import read_topic
from agentic.local.voices.scene import debater, debaters, new_room_lines
from agentic.local.voices.voice import STATE, ScriptedVoice
from agentic.turn.decision import parse_decision

SHIPPED = ("Historian", "Engineer", "Sceptic", "Claude")
SECTIONS = {"open", "argue", "reply", "ask", "audience", "angle", "late", "last", "leave", "emoji"}
FIELDS = {"topic", "it", "word", "side", "last", "quote", "other", "human", "said"}


class Room:
    """A room of scripted voices with a topic; each turn is asked as an agent asks it."""

    def __init__(self, topic: str, members: tuple[str, ...] = SHIPPED, turns: int = 20, seed: int = 1) -> None:
        rng, rooms = random.Random(seed), new_room_lines()
        self.topic, self.members, self.turns = topic, members, turns
        self.voices = {
            name: ScriptedVoice(name.lower(), rng=random.Random(rng.random()), rooms=rooms) for name in members
        }
        self.number, self.last, self.text = 1, "", ""

    def labels(self, speaker: str, **more: str) -> dict[str, str]:
        return {
            "display_name": speaker,
            "others": ", ".join(name for name in self.members if name != speaker),
            "theme": "debate",
            "trigger": "round" if self.last else "starter",
            "topic": self.topic,
            "room": str(self.number),
            "room_turns": str(self.turns),
            "members": ", ".join(self.members),
            "last_speaker": self.last,
            "last_text": self.text,
            "last_message_id": "5",
            **more,
        }

    async def turn(self, speaker: str, **more: str) -> dict[str, Any]:
        reply = await self.voices[speaker].complete(Prompt(text="", labels=self.labels(speaker, **more)))
        decision: dict[str, Any] = json.loads(reply.text)
        if decision["text"]:
            self.number, self.last, self.text = self.number + 1, speaker, decision["text"]
        return decision

    async def whole(self) -> list[dict[str, Any]]:
        return [await self.turn(self.members[turn % len(self.members)]) for turn in range(self.turns)]


TOPICS = ("Is P equal to NP?", "remote work", "Robots will take our jobs", "What is time?", "Tea or coffee?", "?")


@pytest.mark.parametrize("topic", TOPICS)
async def test_a_debate_on_any_topic_says_no_sentence_twice_and_leaves_no_field_open(topic: str) -> None:
    for seed in range(4):
        texts = [one["text"] for one in await Room(topic, seed=seed).whole() if one["text"]]
        assert len(texts) >= 18
        sentences = [sentence for text in texts for sentence in re.split(r"(?<=[.?!”]) ", text) if len(sentence) > 40]
        assert len(set(sentences)) == len(sentences)
        assert not any(re.search(r"[{}]|None|\b\w+ \.|  ", text) for text in texts)
        assert all(len(text) < 600 for text in texts)


async def test_personas_without_lines_of_their_own_share_theirs_and_repeat_nothing_either() -> None:
    texts = [one["text"] for one in await Room("tea", ("Poet", "Nurse", "Judge"), turns=30).whole() if one["text"]]
    assert len(set(texts)) == len(texts) >= 25


async def test_two_rooms_have_memories_of_their_own() -> None:
    rooms = new_room_lines()
    rooms("tea")[1] = 0
    assert rooms("coffee") == {}
    for number in range(40):
        rooms(str(number))
    assert rooms("tea") == {}, "only the newest rooms are remembered"


async def test_a_debater_turns_to_the_one_who_spoke_before() -> None:
    turns = await Room("remote work", seed=3).whole()
    before = ["", *(SHIPPED[turn % 4] for turn in range(len(turns) - 1))]
    answered = [name in (turn["text"] or "") for name, turn in zip(before, turns, strict=True)][4:]
    assert sum(answered) >= 10


async def test_a_person_is_taken_up_by_name_and_with_their_words() -> None:
    room = Room("remote work")
    await room.turn("Historian")
    taken = await room.turn("Engineer", take_up="But who cleans the office? I wonder.", take_up_by="Ada")
    assert "Ada" in taken["text"]
    assert "But who cleans the office?" in taken["text"]
    assert "prepared line" in taken["text"]
    welcome = await room.turn("Sceptic", take_up="hello everybody", take_up_by="Bob")
    assert "Bob" in welcome["text"]


async def test_the_last_turns_ask_to_end_and_the_closing_one_has_a_last_word() -> None:
    ends = 0
    for seed in range(8):
        turns = await Room("remote work", seed=seed).whole()
        asked = [turn["end_conversation"] for turn in turns]
        assert not any(asked[:16])
        ends += any(asked[16:])
        closing = Room("remote work", seed=seed)
        closing.number = 9
        assert (await closing.turn("Sceptic", closing="1"))["text"]
    assert ends >= 4


async def test_a_debater_may_leave_with_a_last_word_in_the_second_half() -> None:
    left = [
        number
        for seed in range(40)
        for number, turn in enumerate(await Room("tea", turns=16, seed=seed).whole(), 1)
        if turn.get("leave") and turn["text"]
    ]
    assert left
    assert min(left) > 8


async def test_a_moderator_names_another_member_and_nobody_else_does() -> None:
    room = Room("tea")
    assert (await room.turn("Historian", names_next="1"))["next_speaker"] in ("Engineer", "Sceptic", "Claude")
    assert (await room.turn("Claude", names_next="1"))["next_speaker"] in SHIPPED[:3]
    assert "next_speaker" not in await room.turn("Engineer")


async def test_an_angle_brings_something_new() -> None:
    room = Room("tea")
    for speaker in SHIPPED:
        await room.turn(speaker)
    said = (await room.turn("Historian", angle="an example"))["text"]
    assert "one year, one town and one person" in said


async def test_a_recorded_turn_of_a_room_is_given_again() -> None:
    room = Room("tea", seed=5)
    await room.whole()
    speaker = room.voices["Engineer"]
    labels = room.labels("Engineer", room="12")
    first = await speaker.complete(Prompt(text="", labels=labels))
    again = ScriptedVoice("engineer", rng=random.Random(99))
    second = await again.complete(Prompt(text="", labels=labels | {STATE: first.labels[STATE]}))
    assert second.text == first.text
    assert parse_decision(first.text).text


def test_topics_are_read_as_questions_claims_and_things() -> None:
    read = {text: read_topic(text) for text in TOPICS}
    assert [one.kind for one in read.values()] == ["decided", "thing", "claim", "open", "open", "open"]
    assert read["Is P equal to NP?"].words == ("P", "equal", "NP")
    assert read["Is P equal to NP?"].side(0) == "yes"
    assert read["remote work"].side(1) == "against"
    assert read["What is time?"].side(0) is None
    assert (read_topic("Remote work.").it, read_topic("NATO").it) == ("remote work", "NATO")


@pytest.mark.parametrize("agent", [*sorted(debaters()), "guest"])
def test_a_debater_has_enough_to_say_and_names_only_what_a_turn_has(agent: str) -> None:
    lines = debater(agent)
    assert SECTIONS <= set(lines) <= SECTIONS | {f"to {name}" for name in debaters()}
    assert len(lines["argue"]) >= 13
    assert len(lines["reply"]) >= 7
    for section, words in lines.items():
        named = {name for line in words for _, name, _, _ in Formatter().parse(line) if name}
        assert named <= FIELDS
        assert any("{side}" not in line for line in words), f"{section}: an open question has no sides"
        if section.startswith("to ") or section == "reply":
            assert all("{last}" in line or "{quote}" in line for line in words)
        if section == "audience":
            assert all("{human}" in line and "{said}" in line for line in words)


def test_no_two_debaters_share_a_line() -> None:
    files = [debater(agent) for agent in (*debaters(), "guest")]
    lines = [line for file in files for section, words in file.items() if section != "emoji" for line in words]
    assert len(set(lines)) == len(lines)
