"""Whom a conversation calls for: tables of messages, and of what has happened in a round."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_coordinator.conversation import instruction_for
from agent_coordinator.policies.pull import SUGGESTED_TOPIC, PullPolicy
from agentic.state.conversation_state import AgentCounts, ConversationState
from agentic.state.rooms import RoomMember
from agentic.state.talk import AgentPost, PersonMessage
from agentic.wire.messages import Result
from agentic.wire.reasons import EndReason
from tests.support.coordinator_doubles import changed, conversation

ADA = RoomMember(name="ada", shown="Ada", talkativeness=0.5, interests=("ships", "steam engines"))
BOB = RoomMember(name="bob", shown="Bob", talkativeness=0.5, interests=("Schiffe", "cooking"))
EVE = RoomMember(name="eve", shown="Eve", talkativeness=0.5, interests=("音楽",))
DAN = RoomMember(name="dan", shown="Dan", talkativeness=0.5)
ALL = (ADA, BOB, EVE, DAN)
NAMES = tuple(speaker.name for speaker in ALL)


def policy(*speakers: RoomMember) -> PullPolicy:
    speakers = speakers or ALL
    return PullPolicy(tuple(each.name for each in speakers), 30, speakers=speakers)


def talk(*messages: tuple[str, str], **fields: Any) -> ConversationState:
    """A conversation with these messages, each of an agent."""
    said = tuple(AgentPost(agent, text) for agent, text in messages)
    counts = {name: AgentCounts(messages=sum(each.agent == name for each in said)) for name in NAMES}
    last = said[-1].agent if said else None
    usual = {"history": said, "agents": counts, "last_speaker": last, "round": 1, "spoke": NAMES[: len(said)]}
    return conversation(**{**usual, **fields})


def person(text: str, state: ConversationState, **fields: Any) -> ConversationState:
    return state.hear(PersonMessage(900, text, after=state.counts.messages, **fields))


def chosen(state: ConversationState, rules: PullPolicy | None = None) -> tuple[str, str | None]:
    choice = (rules or policy()).choose(state, random.Random(1))
    return choice.speakers[0], choice.because


ROUND = (("bob", "Good evening."), ("ada", "Good evening."), ("eve", "Hello there."), ("dan", "So do I."))


@pytest.mark.parametrize(
    ("text", "speaker", "because"),
    [
        ("I wonder what Ada makes of that.", "ada", "named by Dan"),
        ("BOB!", "bob", "named by Dan"),
        ("Eve is right, and Ada too. Bob, why is that? Eve knows.", "bob", "asked by Dan"),
        ("Which ship was the fastest?", "ada", "asked about ships, one of its interests"),
        ("Steam made the engine what it is.", "ada", "steam engines is one of its interests"),
        ("Ein Schiff wird kommen.", "bob", "Schiffe is one of its interests"),
        ("彼女は音楽が好きです", "eve", "音楽 is one of its interests"),
        ("No, I disagree.", "eve", "contradicted by Dan"),  # she spoke before him
        ("Why is that so?", "eve", "asked about its own words by Dan"),
    ],
)
def test_the_newest_message_calls_for_somebody(text: str, speaker: str, because: str) -> None:
    assert chosen(talk(*ROUND[:3], ("dan", text))) == (speaker, because)


def test_a_name_that_was_not_answered_still_counts_but_less_than_a_newer_one() -> None:
    unanswered = talk(("dan", "Ada, what do you say?"), ("eve", "Let me think."))
    assert chosen(unanswered)[0] == "ada"
    assert chosen(talk(("dan", "Ada, what do you say?"), ("eve", "No, Bob, you."))) == ("bob", "named by Eve")
    assert chosen(talk(("dan", "Ada?"), ("ada", "Yes?"), ("dan", "Bob?"), ("eve", "Hm.")))[0] == "bob"


def test_a_name_inside_another_word_is_none() -> None:
    assert chosen(talk(*ROUND[:3], ("dan", "Adamant bobsleighs, all of them.")))[1] != "named by Dan"


def test_words_of_its_own_call_an_agent_that_has_no_subjects() -> None:
    messages = (("dan", "Lighthouses need keepers, granite and whale oil."), ("ada", "Hm."), ("bob", "Oh."))
    assert chosen(talk(*messages, ("eve", "A lighthouse of granite, with keepers."))) == (
        "dan",
        "it has talked about this",
    )


def test_nobody_is_asked_twice_in_a_row_not_even_one_that_names_itself() -> None:
    for seed in range(50):
        state = talk(*ROUND[:3], ("ada", "Ada, Ada, Ada: ships, ships!"))
        assert policy().choose(state, random.Random(seed)).speakers != ("ada",)


def test_one_that_had_nothing_to_say_is_not_asked_again_before_the_next_message() -> None:
    state = talk(*ROUND[:3], ("dan", "Ada? Ada!"), silent=("ada",), skipped=("ada",), spoke=("dan",))
    assert chosen(state)[0] in ("bob", "eve")
    everybody = talk(*ROUND, silent=("ada", "bob", "eve"), skipped=("ada", "bob", "eve"))
    assert chosen(everybody)[0] != "dan"


def test_a_person_is_answered_by_the_one_that_is_meant_even_if_it_spoke_last() -> None:
    state = person("And you, Dan?", talk(*ROUND), names=("dan",))
    assert chosen(state) == ("dan", "asked by a person")
    assert chosen(person("Really?", talk(*ROUND), replied_to="bob")) == ("bob", "a person replied to it")


def test_an_agent_that_a_person_called_answers_by_itself_and_is_not_asked_too() -> None:
    state = person("@Ada ships?", talk(*ROUND), names=("ada",), calls=True)
    assert state.talk.must_answer is None
    assert chosen(state)[0] != "ada"


def test_who_is_behind_its_share_speaks_where_nobody_is_called() -> None:
    quiet = talk(*(("ada", "One."), ("bob", "Two."), ("ada", "Three."), ("bob", "Four."), ("eve", "Five.")))
    assert chosen(quiet) == ("dan", "has said less than its share")
    loud = (
        ADA.model_copy(update={"talkativeness": 1.0}),
        BOB.model_copy(update={"talkativeness": 0.1}),
        EVE.model_copy(update={"talkativeness": 0.1}),
    )
    assert chosen(talk(("ada", "One."), ("bob", "Two."), ("eve", "Three.")), policy(*loud))[0] == "ada"


def test_where_the_talk_calls_for_nobody_the_one_that_is_asked_is_given_a_reason_to_speak() -> None:
    assert policy().choose(talk(*ROUND), random.Random(1)).suggested_topic == SUGGESTED_TOPIC
    called = talk(*ROUND[:3], ("dan", "Ada?"))
    assert policy().choose(called, random.Random(1)).suggested_topic is None
    assert policy().choose(person("Hm.", talk(*ROUND)), random.Random(1)).suggested_topic is None
    assert policy().choose(talk(silent=("ada",)), random.Random(1)).suggested_topic is None
    begun = called.choose(("ada",), "why", SUGGESTED_TOPIC, new_round=False).begin_turn("i")
    assert instruction_for(begun).angle == SUGGESTED_TOPIC
    skip = Result(instruction_id="i", agent_name="ada", skipped=True)
    assert begun.take_turn("ada", skip).talk.suggested_topic is None


def test_after_a_lull_the_one_that_began_the_conversation_has_a_duty() -> None:
    state = talk(("bob", "A."), ("ada", "B."), ("eve", "C."), ("dan", "D."), silent=("ada", "eve"))
    (bob,) = policy().choose(state, random.Random(1)).scores
    assert "began the conversation, which came to rest" in [part.why for part in bob.parts]
    assert all(
        "rest" not in part.why for pull in policy().choose(talk(*ROUND), random.Random(1)).scores for part in pull.parts
    )


def test_a_turn_without_a_message_lowers_all_pulls_and_the_numbers_add_up() -> None:
    state = talk(("ada", "A."), ("dan", "Bob, Eve?"), silent=("bob",), skipped=("bob",), spoke=("dan",))
    choice = policy().choose(state, random.Random(1))
    assert not choice.new_round
    for pull in choice.scores:
        assert pull.channel == 0.6
        assert pull.strength == pytest.approx(sum(part.amount for part in pull.parts) * pull.channel, abs=0.01)
    assert [pull.strength for pull in choice.scores] == sorted((pull.strength for pull in choice.scores), reverse=True)


@pytest.mark.parametrize(
    ("fields", "new_round"),
    [
        ({"spoke": ("ada",)}, False),
        ({"spoke": ("ada", "bob", "eve", "dan")}, True),
        ({"spoke": ("ada",), "silent": ("bob", "eve"), "skipped": ("bob", "eve")}, True),
        ({"spoke": ("ada",), "silent": ("bob",), "skipped": ("bob",)}, True),  # nothing calls for anybody else
        ({"spoke": ("ada",), "silent": ("bob",), "missing": ("bob",)}, False),  # one that is away skips nothing
    ],
)
def test_a_round_has_a_turn_for_each_and_ends_in_silence(fields: dict[str, Any], new_round: bool) -> None:
    state = talk(("bob", "Well."), ("ada", "Good evening."), ("dan", "Well."), **fields)
    assert policy().choose(state, random.Random(1)).new_round is new_round


class Fixed(random.Random):
    def random(self) -> float:
        return 0.99


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"spoke": ("ada",)}, None),  # in the middle of a round
        ({"end_streak": 2}, "agreed"),
        ({"spoke": NAMES}, "chance"),
        ({"spoke": NAMES, "round": 30}, "round_limit"),
        ({"spoke": (), "silent": ("bob", "eve"), "skipped": ("bob", "eve")}, "most_skipped"),
        ({"spoke": ("ada", "dan"), "silent": ("bob", "eve"), "skipped": ("bob", "eve")}, "chance"),
        ({"spoke": NAMES, "pending": ("ada",)}, None),
    ],
)
def test_the_conversation_ends_between_rounds_only(fields: dict[str, Any], reason: EndReason | None) -> None:
    assert policy().ending(talk(("ada", "Well."), ("dan", "Well."), **fields), Fixed()) == reason


def test_a_starter_without_an_answer_has_everybody_asked_before_the_conversation_ends() -> None:
    alone = talk(("ada", "Well."), spoke=("ada",), silent=("bob", "eve"), skipped=("bob", "eve"))
    assert policy().ending(alone, Fixed()) is None
    assert chosen(alone)[0] == "dan"
    nobody = changed(alone, silent=("bob", "eve", "dan"), skipped=("bob", "eve", "dan"))
    assert policy().ending(nobody, Fixed()) == "too_few_spoke"


def test_a_starter_that_is_silent_is_replaced_once() -> None:
    unopened = talk(silent=("ada",), skipped=("ada",), spoke=())
    assert policy().ending(unopened, Fixed()) is None
    assert chosen(unopened)[0] != "ada"
    assert policy().ending(talk(silent=("ada", "bob"), skipped=("ada", "bob"), spoke=()), Fixed()) == "nobody_opened"


def test_nothing_ends_while_a_person_waits_unless_nobody_is_there() -> None:
    finished = talk(*ROUND, spoke=NAMES, round=30)
    assert policy().ending(finished, Fixed()) == "round_limit"
    assert policy().ending(person("And then?", finished), Fixed()) is None
    nobody = changed(person("And then?", finished), missing=NAMES, silent=NAMES)
    assert policy().ending(nobody, Fixed()) == "round_limit"


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.text(max_size=40)), max_size=12), st.integers())
def test_whatever_was_said_somebody_else_is_chosen(messages: Sequence[tuple[str, str]], seed: int) -> None:
    state = talk(*messages)
    choice = policy().choose(state, random.Random(seed))
    assert len(choice.speakers) == 1
    assert choice.speakers[0] in NAMES
    assert choice.speakers[0] != state.talk.last_speaker
    assert choice == policy().choose(state, random.Random(seed))
