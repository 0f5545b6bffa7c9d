"""Idle tasks by a scripted voice."""

from __future__ import annotations

import json
import random

from agentic.llm.types import Prompt
from agentic.local.voices.voice import ScriptedVoice, news, written
from agentic.rooms.judge import contenders_of, judge_prompt, read_verdict
from agentic.rooms.room_bot import RoomPost
from agentic.state.rooms import Room, RoomMember
from agentic.turn.proactive import prompt_of, text_in
from agentic.wire.messages import Reflection

TALK = "Sam: Which lighthouse is the oldest?\nClaude: The tower of Hercules.\nSam: I like every lighthouse on a rock."


def given(task: str, material: str = TALK) -> Reflection:
    return Reflection(task=task, person_id=1, person_name="Sam", material=material)


async def test_a_voice_writes_what_the_program_reads_as_a_summary_and_as_topics():
    voice = ScriptedVoice("claude", rng=random.Random(1))
    for task, text in (
        ("summarise", "Sam talked with Claude about “Which lighthouse is the oldest”. Last Sam said: “I like every"),
        ("profile", "Lighthouse\n"),
    ):
        prompt = prompt_of(given(task), "claude")
        reply = await voice.complete(prompt)
        read = text_in(reply.text, given(task), prompt)
        assert read is not None
        assert read.startswith(text)


async def test_a_scripted_judge_gives_points_and_says_that_they_are_by_chance():
    members = tuple(RoomMember(name=name, shown=name, side=side) for name, side in (("a", "for"), ("b", "against")))
    room = Room(thread_id=1, channel_id=2, conversation_id="c", topic="tea", members=members)
    voice = ScriptedVoice("claude", rng=random.Random(1))
    reply = await voice.complete(judge_prompt(room, (RoomPost(3, "a", "Yes."), RoomPost(4, "b", "No."))))
    verdict = read_verdict(reply.text, "Claude", contenders_of(room))
    assert set(verdict.scores) == {"for", "against"}
    assert "by lot" in verdict.text


def test_a_person_who_said_nothing_has_no_topics_and_an_empty_talk_is_named():
    assert written(prompt_of(given("profile", "Bob: trees and birds"), "claude").labels) == "none"
    assert written(prompt_of(given("summarise", ""), "claude").labels) == "Nothing was said."


async def test_what_it_posts_unasked_says_that_it_cannot_look_anything_up():
    labels = {"trigger": "errand", "task": "An order.", "task_unasked": "1", "task_query": "Which lighthouse is old?"}
    reply = await ScriptedVoice("claude", rng=random.Random(1)).complete(Prompt(text="", labels=labels))
    text = json.loads(reply.text)["text"]
    assert text == news("Which lighthouse is old?")
    assert "About “Which lighthouse is old”" in text
    assert "what you like to talk about" in news("")
