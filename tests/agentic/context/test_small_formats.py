"""What a small model is told in a room with a format, and the first words of its message."""

from dataclasses import replace

import pytest

from agentic.context.prompt import FormatTurn, RoomTurn
from agentic.context.small_layout import (
    build_continuation,
    is_about_example,
    leaves_side,
    shortened,
    without_own_name,
)
from agentic.context.window import Window
from agentic.formats import FORMATS
from tests.support.said import ALICE, CLAUDE, GROK, said
from tests.support.said import context as turn

TOPIC = "Should the city ban cars?"
SIDES = {
    "debate": {"Claude": "for", "Grok": "against"},
    "panel": {"Claude": "", "Grok": ""},
    "interview": {"Claude": "", "Grok": "guest"},
}
SAM = replace(ALICE, name="Sam", audience=True)
BUSES = said(1, GROK, "Grok says no. A car is how a nurse gets home at night. And who pays for the buses?")
CLAIM = "A car is how a nurse gets home at night"


def layout(entries=(), kind="debate", phase="rebuttals", topic=TOPIC, sides=None, attempt=0, **more):
    given = sides or SIDES[kind]
    form = FormatTurn(
        name=kind, rules="", side=given["Claude"], sides=given, phase=phase, task="Answer one claim.", length="short"
    )
    room = RoomTurn(topic=topic, turn_number=3, turns=8, members=tuple(given), format=form)
    context = turn(Window(tuple(entries), 100.0), more.pop("trigger", "round"), room=room, topic=topic, **more)
    return build_continuation(context, attempt=attempt)


def openers(*args, **more):
    """The first words at several moments, and of the second attempt."""
    return {layout(*args, now=1000.0 + at, attempt=attempt, **more).opener for at in range(6) for attempt in (0, 1)}


@pytest.mark.parametrize(("side", "word"), [("for", "yes"), ("against", "no")])
def test_a_debater_is_told_its_side_and_no_task_after_an_example_with_the_same_sides(side, word) -> None:
    sides = {"Claude": side, "Grok": "against" if side == "for" else "for"}
    prompt = layout([BUSES], sides=sides)
    assert prompt.system.endswith(
        f"\n\nYou are Claude. You are thoughtful.\nYou're {side} it. Asked “{TOPIC}”, you say {word}."
    )
    assert prompt.system == layout([BUSES, said(2, CLAUDE)], phase="closing words", sides=sides).system
    pro = next(name for name, each in sides.items() if each == "for")
    assert f"{pro} argues for it" in prompt.system
    assert f"\n\n{pro}: I'd keep the lighthouse." in prompt.system
    assert prompt.history[0].text.endswith(f"Grok: {BUSES.text}")


def test_a_debater_in_another_language_has_a_task_since_it_has_no_first_words() -> None:
    assert "\nAnswer one claim. You're for it." in layout(topic="Soll die Stadt Autos verbieten?").system
    assert "Answer one claim." not in layout().system


def test_an_interview_has_no_example_and_a_person_s_question_stands_in_for_the_phase_s_task() -> None:
    question = said(5, SAM, "Who drives at night?")
    sides = {"Claude": "guest", "Grok": ""}
    prompt = layout([BUSES, question], "interview", must_answer=True, target=question, sides=sides)
    assert "lighthouse" not in prompt.system
    (asked,) = prompt.history
    assert asked.text.endswith("\nSam asks: “Who drives at night?” You're the guest, and you answer.")


@pytest.mark.parametrize(
    ("text", "side", "leaves"),
    [
        ("Grok, you're right, buses are slow.", "for", True),
        ("I agree with Grok that buses are slow.", "against", True),
        ("That's a great point. Buses are slow.", "against", True),
        ("Buses are slow. On the other hand, they're quiet.", "for", True),
        ("“I agree”, says Grok, but buses are slow.", "for", False),
        ("I agree with Grok that buses are slow.", "undecided", False),
    ],
)
def test_a_debater_that_agrees_with_its_opponent_leaves_its_side(text, side, leaves) -> None:
    form = FormatTurn(name="debate", rules="", side=side, phase="rebuttals", task="", length="")
    room = RoomTurn(topic=TOPIC, turn_number=3, turns=8, members=("Claude", "Grok"), format=form)
    assert leaves_side(text, turn(Window((), 100.0), room=room, topic=TOPIC)) == leaves


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("Who pays the keeper?", True),
        ("Buses are slow on a foggy night.", True),
        ("A goalkeeper rides one.", False),
        ("Buses are slow.", False),
    ],
)
def test_words_of_the_example_are_noticed_unless_somebody_said_them(text, is_there) -> None:
    context = turn(Window((BUSES,), 100.0), topic=TOPIC)
    assert is_about_example(text, context) == is_there
    assert not is_about_example(text, turn(Window((said(1, GROK, text),), 100.0), topic=TOPIC))


@pytest.mark.parametrize(
    ("kind", "phase", "side", "begins"),
    [
        ("debate", "opening statements", "for", ("I'm for it", "I say yes", "Yes, I'm for it")),
        ("debate", "opening statements", "against", ("I'm against it", "I say no", "No, I'm against it")),
        (
            "debate",
            "rebuttals",
            "for",
            (f"“{CLAIM}”, says Grok. ", f"Grok, you say “{CLAIM}”, but", "Grok, I still say yes"),
        ),
        (
            "debate",
            "closing words",
            "against",
            ("Grok, your best point was “", "In the end, I'm against it", "My last word is no"),
        ),
        ("debate", "opening statements", "moderator", ("The question", "What's at stake")),
        (
            "panel",
            "discussion",
            "",
            (f"Grok says “{CLAIM}”", f"“{CLAIM}”, says Grok", "Grok, ", "What Grok leaves out"),
        ),
        ("interview", "questions", "", ("Grok, ",)),
        ("interview", "last words", "guest", ("If you remember", "My last word", "What I'd try", "Don't forget")),
    ],
)
def test_the_first_words_fit_phase_and_side_and_quote_a_claim(kind, phase, side, begins) -> None:
    found = openers([replace(BUSES, text=f"I say no. {CLAIM}.")], kind, phase, sides={**SIDES[kind], "Claude": side})
    assert len(found) > 1
    assert all(each.startswith(begins) for each in found)


def test_a_claim_is_quoted_once_and_a_sentence_that_names_or_asks_is_none() -> None:
    assert any(CLAIM in each for each in openers([BUSES]))
    quoted = said(2, CLAUDE, f"“{CLAIM}”, says Grok.")
    assert openers([BUSES, quoted]) == {"Grok, I still say yes, because"}


def test_a_debater_quotes_the_oldest_claim_and_others_the_newest() -> None:
    later = said(2, GROK, "A bus never comes on a rainy Sunday.")
    assert any(CLAIM in each for each in openers([BUSES, later]))
    assert all(CLAIM not in each for each in openers([BUSES, later], "panel", "discussion"))


@pytest.mark.parametrize(
    "sentence",
    ["If it rains, a car is how we get home.", "Too short.", "It also carries the tools of a plumber.", "word " * 17],
)
def test_parts_of_a_thought_are_not_quoted(sentence) -> None:
    assert all("“" not in each for each in openers([said(1, GROK, sentence)]))


@pytest.mark.parametrize(
    ("kind", "side", "text", "begins"),
    [
        ("debate", "for", "Who drives at night?", ("Sam, that", "Sam, I'm still for it", "Sam, I still say yes")),
        (
            "debate",
            "against",
            "Who drives at night?",
            ("Sam, there's a better way", "Sam, I still say no", "Sam, I'm still against it"),
        ),
        ("debate", "for", "What about people who drive?", ("Sam, they're", "Sam, that can", "Sam, I")),
        ("panel", "", "Who drives at night?", "Sam,"),
        ("interview", "guest", "Who drives at night?", "Sam, "),
        ("interview", "", "Who drives at night?", "Grok, "),
        ("interview", "", "Claude, who drives at night?", "Sam,"),
    ],
)
def test_an_answer_begins_with_the_name_of_who_asked_and_interviewers_pass_the_question_on(
    kind, side, text, begins
) -> None:
    question = said(5, SAM, text)
    sides = {**SIDES[kind], "Claude": side}
    found = openers([BUSES, question], kind, sides=sides, must_answer=True, target=question)
    assert all(each.startswith(begins) for each in found)
    assert all("Sam" in each for each in found)
    assert all(text in each for each in found) == (begins == "Grok, ")


def test_a_member_answers_another_s_question_instead_of_the_phase_s_task() -> None:
    asked = said(1, GROK, "Claude, who pays for the buses?")
    assert all(each.startswith("Grok, ") for each in openers([asked]))
    (prompt,) = layout([asked], "panel", phase="discussion").history
    assert prompt.text.endswith("\nGrok asks: “Claude, who pays for the buses?” You speak now.")
    assert "Answer one claim." not in prompt.text


def test_the_second_attempt_begins_otherwise() -> None:
    for kind, phase in (("debate", "rebuttals"), ("panel", "takeaways"), ("interview", "questions")):
        assert layout([BUSES], kind, phase).opener != layout([BUSES], kind, phase, attempt=1).opener


def test_a_debater_does_not_see_others_opening_statements_before_its_own() -> None:
    question = said(5, SAM, "Who drives at night?")
    assert CLAIM not in layout([BUSES], phase="opening statements").history[0].text
    assert CLAIM in layout([BUSES, question], phase="opening statements", must_answer=True).history[0].text
    assert CLAIM in layout([BUSES]).history[0].text


def test_first_words_whose_end_somebody_used_wait() -> None:
    asked = replace(BUSES, text=f"{CLAIM}. And think of people who walk.")
    found = {layout([asked], phase="cross-questions", now=1000.0 + at).opener for at in range(6)}
    assert found == {f"Grok, you said “{CLAIM}”. How do you know that", "Grok, why are you so sure that"}


def test_a_short_question_in_english_has_first_words() -> None:
    for topic in ("Do we need homework?", "Are paper books better?"):
        assert "" not in openers(phase="opening statements", topic=topic, trigger="starter")


def test_in_another_language_an_answer_begins_with_a_name_at_most() -> None:
    german = said(
        1, GROK, "Ich bin nicht für das Verbot, weil die Busse in der Nacht nicht fahren und es zu viel kostet."
    )
    question = said(5, SAM, "Und wer zahlt das?")
    topic = "Soll die Stadt Autos verbieten?"
    assert openers([german], topic=topic) == {""}
    assert openers(topic=topic, trigger="starter") == {""}
    assert openers([german, question], topic=topic, must_answer=True, target=question) == {"Sam,"}
    assert openers([german], "interview", topic=topic) == {"Grok,"}


def test_names_and_topics_may_have_braces() -> None:
    prompt = layout([BUSES], kind="interview", phase="questions", topic="{0}?", sides={"Claude": "", "{Grok}": "guest"})
    assert prompt.history[0].text.endswith("You ask {Grok}, who is the guest.")
    assert layout([BUSES], topic="{0}?").system.endswith("Asked “{0}?”, you say yes.")


def test_a_phase_or_format_of_a_later_version_has_no_first_words() -> None:
    assert openers([BUSES], phase="overtime") == {""}
    assert openers([BUSES], "duel", sides=SIDES["debate"]) == {""}


@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if each.phases])
def test_every_phase_has_first_words_for_all_that_speak_in_it(name) -> None:
    kind = FORMATS[name]
    roles = (
        ("for", "against", "undecided", "moderator")
        if kind.has_sides
        else ("", "guest")
        if kind.has_guest
        else ("", "moderator")
    )
    for phase, side in ((phase, side) for phase in kind.phases for side in roles):
        found = openers(
            [said(1, GROK, f"{CLAIM}.")],
            name,
            phase.name,
            sides={"Claude": side, "Grok": "guest" if not side and kind.has_guest else "for"},
        )
        assert len(found) > 1, (phase.name, side)


@pytest.mark.parametrize(
    ("text", "opener", "kept"),
    [
        ("I say no. A bus is slow. A tram is dear.", "", "I say no. A bus is slow."),
        ("Who pays? The city does.", "", "Who pays?"),
        ("Ask Dr. Hill. She walks. He rides.", "", "Ask Dr. Hill. She walks."),
        ("Moreover, a bus is slow.", "I say no, because", "A bus is slow."),
        ("A bus is slow. Also, a tram is dear.", "", "A bus is slow."),
        (
            "“It rains”, says Grok. I'm still for it, because so it did. Buses have roofs. And trams.",
            "“It rains”, says Grok. I'm still for it, because",
            "“It rains”, says Grok. I'm still for it, because so it did. Buses have roofs.",
        ),
    ],
)
def test_a_message_ends_at_its_first_question_or_its_second_sentence(text, opener, kept) -> None:
    assert shortened(text, opener) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Buses cost less. Claude's argument is that they do.", "Buses cost less."),
        ("Claude says that they do.", ""),
        ("I'm Claude, and I ride one.", "I'm Claude, and I ride one."),
        ("“Claude is wrong”, you say, but buses cost less.", "“Claude is wrong”, you say, but buses cost less."),
    ],
)
def test_sentences_in_which_an_agent_speaks_of_itself_by_name_are_left_out(text, kept) -> None:
    assert without_own_name(text, turn(Window((), 100.0), topic=TOPIC)) == kept
    assert without_own_name(text, turn(Window((), 100.0), topic="Is Claude right?")) == text
