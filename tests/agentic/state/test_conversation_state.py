from __future__ import annotations

import json
from typing import Any

import pytest

from agentic.state.conversation_state import MAX_HISTORY_CHARACTERS, AgentCounts, ConversationState
from agentic.state.talk import MAX_ENTRY_CHARACTERS, AgentPost, AgentReaction, PersonMessage
from agentic.wire.messages import MAX_WIRE_BYTES, Instruction, Result, TurnUsage
from tests.support.coordinator_doubles import changed, conversation


def begun(*order: str) -> ConversationState:
    return ConversationState("c1", 100, "debate", started_at=1.0).begin_round(order or ("claude", "grok", "gemini"))


def result(agent: str, **fields: Any) -> Result:
    return Result(instruction_id="i", agent_name=agent, **fields)


def history(state: ConversationState) -> list[tuple[str, str, int | None]]:
    return [(entry.agent, entry.text, entry.message_id) for entry in state.wire_history()]


def test_a_message_is_recorded_with_its_author_and_id() -> None:
    state = begun().take_turn("claude", result("claude", text="Hot take", message_id=7))
    assert history(state) == [("claude", "Hot take", 7)]
    assert (state.talk.last_speaker, state.counts.spoke, state.queue.pending) == (
        "claude",
        ("claude",),
        ("grok", "gemini"),
    )
    assert state.is_opened


def test_reactions_stand_inline_on_the_entry_reacted_to_with_who_gave_them() -> None:
    state = begun().take_turn("claude", result("claude", text="Hot take", message_id=7))
    state = state.take_turn("grok", result("grok", text="No.", message_id=8, emoji_reacted="🔥", react_to_message_id=7))
    state = state.take_turn("gemini", result("gemini", emoji_reacted="💯", react_to_message_id=7))
    assert history(state) == [
        ("claude", "Hot take  [reactions: 🔥 (grok) 💯 (gemini)]", 7),
        ("grok", "No.", 8),
    ]


def test_the_record_tells_the_next_agents_which_message_answers_a_person() -> None:
    state = begun().take_turn("claude", result("claude", text="Tabs, Bob.", message_id=7, answers_message_id=6))
    state = ConversationState.from_json(state.to_json()).take_turn("grok", result("grok", text="No.", message_id=8))
    assert [entry.answers_message_id for entry in state.wire_history()] == [6, None]


def test_a_reaction_without_an_id_belongs_to_the_newest_message_of_another() -> None:
    state = begun().take_turn("claude", result("claude", text="one", message_id=7))
    state = state.take_turn("grok", result("grok", text="two", message_id=8, emoji_reacted="🍕"))
    assert history(state)[0][1] == "one  [reactions: 🍕 (grok)]"


def test_a_reaction_to_a_message_that_is_not_of_the_conversation_changes_no_entry() -> None:
    state = begun().take_turn("claude", result("claude", text="one", message_id=7))
    state = state.take_turn("grok", result("grok", emoji_reacted="🔥", react_to_message_id=999))
    assert history(state) == [("claude", "one", 7)]
    assert state.counts.agents["grok"].reactions == 1


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"image_prompt": "a cat", "image_url": "https://x/1.png"}, '[posted image: "a cat" → https://x/1.png]'),
        (
            {"text": "Look:", "image_prompt": "a cat", "image_url": "https://x/1.png"},
            'Look:\n[posted image: "a cat" → https://x/1.png]',
        ),
        ({"image_url": "https://x/1.png"}, '[posted image: "" → https://x/1.png]'),
        (
            {"image_prompt": 'a "big"\n cat', "image_url": "https://x/1.png"},
            "[posted image: \"a 'big' cat\" → https://x/1.png]",
        ),
    ],
)
def test_a_picture_is_an_entry_of_text(fields: dict[str, Any], text: str) -> None:
    state = begun().take_turn("claude", result("claude", message_id=7, **fields))
    assert history(state) == [("claude", text, 7)]
    assert (state.counts.agents["claude"].pictures, state.counts.agents["claude"].messages) == (1, 1)


def test_a_skip_leaves_no_trace_but_its_cost() -> None:
    usage = TurnUsage(calls=1, cost_usd=0.5)
    state = begun().take_turn("claude", result("claude", skipped=True, text="ignored", emoji_reacted="🔥", usage=usage))
    assert history(state) == []
    assert (state.counts.skipped, state.talk.last_speaker, state.is_opened) == (("claude",), None, False)
    assert state.counts.agents["claude"] == AgentCounts(skips=1, calls=1, cost_usd=0.5)


def test_end_requests_count_over_skips_and_begin_anew_after_a_turn_without_one() -> None:
    ask, go_on = {"text": "bye", "end_conversation": True}, {"text": "but"}
    state = begun("a", "b", "c", "d").take_turn("a", result("a", **ask))
    assert state.counts.end_streak == 1
    state = state.take_turn("b", result("b", skipped=True, end_conversation=True))
    assert state.counts.end_streak == 1
    assert state.take_turn("c", result("c", **go_on)).counts.end_streak == 0
    assert state.take_turn("c", result("c", **ask)).counts.end_streak == 2


def test_the_first_topic_named_is_kept() -> None:
    state = begun().take_turn("claude", result("claude", text="x", topic="tea"))
    assert state.take_turn("grok", result("grok", text="y", topic="coffee")).talk.topic == "tea"


def test_missed_turns_are_told_apart() -> None:
    state = begun().miss_turn("claude", "absent").miss_turn("grok", "timed_out")
    assert (state.counts.missing, state.counts.unheard, state.queue.pending, state.present) == (
        ("claude",),
        ("grok",),
        ("gemini",),
        2,
    )
    assert (state.counts.total.absences, state.counts.total.timeouts) == (1, 1)


def test_only_a_turn_that_left_something_to_see_calls_for_a_pause() -> None:
    state = begun().take_turn("claude", result("claude", text="x"))
    assert state.counts.last_turn_showed
    assert not state.take_turn("grok", result("grok", skipped=True)).counts.last_turn_showed
    assert not state.miss_turn("grok", "absent").counts.last_turn_showed
    assert state.take_turn("grok", result("grok", emoji_reacted="🔥")).counts.last_turn_showed


def test_a_new_round_forgets_who_did_what_and_keeps_what_was_said() -> None:
    state = begun().take_turn("claude", result("claude", text="x", message_id=7)).miss_turn("grok", "absent")
    state = state.begin_round(("grok", "claude"))
    assert (state.counts.round, state.counts.spoke, state.counts.missing, state.queue.pending) == (
        2,
        (),
        (),
        ("grok", "claude"),
    )
    assert history(state) == [("claude", "x", 7)]


def test_who_was_not_heard_in_one_round_does_not_take_part_in_the_next() -> None:
    state = begun("claude", "grok").miss_turn("claude", "timed_out").miss_turn("grok", "absent")
    state = state.begin_round(("grok",))
    assert (state.counts.unheard, state.counts.missing, state.present) == ((), (), 1)


def test_each_amount_that_a_turn_used_is_counted_under_its_own_name() -> None:
    used = {"calls": 2, "searches": 3, "input_tokens": 50, "cached_tokens": 7, "output_tokens": 11}
    usage = TurnUsage(**used, reasoning_tokens=13, cost_usd=0.5)
    state = begun().take_turn("claude", result("claude", text="one", message_id=7, usage=usage))
    assert state.counts.total == AgentCounts(messages=1, **used, reasoning_tokens=13, cost_usd=0.5)


def test_json_brings_the_same_state_back() -> None:
    usage = TurnUsage(calls=2, input_tokens=10, cost_usd=0.25)
    state = begun().take_turn("claude", result("claude", text="für 🔥", message_id=2**62, topic="tea", usage=usage))
    state = state.take_turn("grok", result("grok", text="y", emoji_reacted="🔥", react_to_message_id=2**62))
    state = state.miss_turn("gemini", "timed_out")
    for each in (state, state.ended("chance"), begun()):
        assert ConversationState.from_json(each.to_json()) == each


@pytest.mark.parametrize(
    "raw",
    ["", "{}", "[]", "null", "nonsense", '{"conversation_id": "c"}', '{"history": 5}', '{"history": [1]}'],
)
def test_what_is_not_a_state_is_refused(raw: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its kind is the promise
        ConversationState.from_json(raw)


def test_an_unknown_reason_for_the_end_is_refused() -> None:
    data = json.loads(begun().to_json()) | {"ended_because": "boredom"}
    with pytest.raises(ValueError, match="ended_because"):
        ConversationState.from_json(json.dumps(data))


def test_however_much_was_said_an_instruction_stays_within_the_wires_limit_and_keeps_the_newest() -> None:
    state = begun()
    for number in range(200):
        state = state.take_turn("claude", result("claude", text="🔥" * 9_000, message_id=number + 1))
    entries = state.wire_history()
    assert sum(len(entry.text) for entry in entries) <= MAX_HISTORY_CHARACTERS
    assert entries[-1].message_id == 200
    assert entries[-1].text == "🔥" * MAX_ENTRY_CHARACTERS + " […]"
    wire = Instruction(instruction_id="i", channel_id=1, conversation_history=entries).to_wire()
    assert len(wire.encode()) < MAX_WIRE_BYTES


def test_a_state_adds_up_the_agents() -> None:
    state = begun().take_turn(
        "claude", result("claude", text="x", usage=TurnUsage(calls=1, cost_usd=0.5, output_tokens=3))
    )
    state = state.take_turn("grok", result("grok", skipped=True, usage=TurnUsage(calls=1, cost_usd=0.25)))
    state = state.miss_turn("gemini", "absent").ended("chance")
    total = state.counts.total
    assert (state.counts.round, state.messages, state.skips, total.absences) == (1, 1, 1, 1)
    assert (total.calls, state.cost_usd, total.output_tokens) == (2, 0.75, 3)
    assert state.counts.agents["claude"].messages == 1


@pytest.mark.promise(32)
def test_megabytes_of_another_maker_do_not_crowd_out_the_history() -> None:
    state = begun()
    for agent in ("claude", "grok", "gemini"):
        big = "x" * 900_000
        answer = result(agent, text="hi", image_url=big, image_prompt=big, emoji_reacted=big, topic=big, message_id=7)
        state = state.take_turn(agent, answer)
    assert len(state.wire_history()) == 3
    wire = Instruction(
        instruction_id="i", channel_id=1, conversation_history=state.wire_history(), topic=state.talk.topic
    ).to_wire()
    assert len(wire) < 20_000


def test_a_turn_that_was_under_way_keeps_its_id() -> None:
    state = ConversationState("c", 1, "debate", 0.0).begin_round(("claude",)).begin_turn("first")
    assert state.begin_turn("second").queue.asking == "first"


def test_an_answer_with_nothing_in_it_is_counted_as_a_skip() -> None:
    state = ConversationState("c", 1, "debate", 0.0).begin_round(("claude",))
    took = state.take_turn("claude", Result(instruction_id="i", agent_name="claude"))
    assert (took.counts.agents["claude"].skips, took.counts.skipped) == (1, ("claude",))


def test_a_history_of_exactly_the_limit_is_sent_whole() -> None:
    said = tuple(AgentPost("claude", "x" * (MAX_HISTORY_CHARACTERS // 3)) for _ in range(3))
    assert len(conversation(history=said).wire_history()) == 3


# As the version before the parts stored it, without what has its default there.
OF_AN_EARLIER_VERSION = {
    "conversation_id": "c1",
    "channel_id": 100,
    "theme": "debate",
    "started_at": 1.0,
    "round_number": 2,
    "pending": ["claude"],
    "asking": "i9",
    "touched_at": 3.0,
    "spoke": [],
    "skipped": ["grok"],
    "unheard": [],
    "missing": [],
    "history": [
        {
            "agent": "claude",
            "text": "Tea.",
            "message_id": 7,
            "reactions": [{"emoji": "🔥", "agent": "grok"}],
            "answers": 5,
        }
    ],
    "topic": "tea",
    "last_speaker": "claude",
    "last_turn_showed": False,
    "end_streak": 1,
    "tallies": {"claude": {"messages": 1, "calls": 1, "cost_usd": 0.5}, "grok": {"skips": 1, "reactions": 1}},
    "ended_because": None,
    "joining": None,
    "single": False,
    "requested": "gemini",
    "called": ["grok"],
    "granted": False,
    "policy": "moderated",
    "room": None,
    "idle_turns": 2,
    "away": ["gemini"],
    "unseen": 1,
    "last_in_order": "grok",
    "silent": ["grok"],
    "heard": [
        {
            "message_id": 8,
            "text": "Claude? Grok?",
            "names": ["claude", "grok"],
            "replied_to": "claude",
            "calls": False,
            "after": 1,
            "called": ["grok"],
        }
    ],
    "taken_up": 5,
    "named": "claude",
    "named_by": "grok",
    "chosen_because": None,
    "lead": "a question",
    "angle": "the other side",
    "angles": 1,
    "waits_until": 99.0,
}


def test_a_conversation_that_an_earlier_version_stored_is_read_whole() -> None:
    text = json.dumps(OF_AN_EARLIER_VERSION)
    state = ConversationState.from_json(text)
    assert state == changed(
        ConversationState("c1", 100, "debate", started_at=1.0, policy="moderated", touched_at=3.0),
        pending=("claude",),
        asking="i9",
        requested="gemini",
        called=("grok",),
        last_in_order="grok",
        named="claude",
        named_by="grok",
        waits_until=99.0,
        history=(AgentPost("claude", "Tea.", 7, (AgentReaction("🔥", "grok"),), 5),),
        heard=(PersonMessage(8, "Claude? Grok?", ("claude", "grok"), "claude", after=1, called=("grok",)),),
        answered=5,
        topic="tea",
        last_speaker="claude",
        suggested_topic="a question",
        perspective="the other side",
        perspectives=1,
        round=2,
        skipped=("grok",),
        silent=("grok",),
        end_streak=1,
        idle_turns=2,
        away=("gemini",),
        unseen=1,
        agents={"claude": AgentCounts(messages=1, calls=1, cost_usd=0.5), "grok": AgentCounts(skips=1, reactions=1)},
    )
    assert ConversationState.from_json(state.to_json()) == state
    assert (state.queue.speaker, state.queue.coming) == ("claude", ("gemini",))
