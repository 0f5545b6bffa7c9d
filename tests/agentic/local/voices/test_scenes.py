"""The scenes and answers themselves: enough of them, playable in any order, and in each bot's own voice."""

from __future__ import annotations

import re
from collections import Counter
from string import Formatter

import pytest

from agentic.formats import FORMATS
from agentic.local.voices.scenes import (
    DEBATES,
    OPEN,
    PARTS,
    PERSONAS,
    Heard,
    Scene,
    Stage,
    all_phase_lines,
    answers_of,
    cast,
    debate_stage,
    phase_lines,
    scene_on,
    scenes_of,
    seats,
)
from agentic.themes import THEMES

NEVER = {
    "chatgpt": r"(great|good|excellent) (why-)?question|dream big|believe in yourself|you've got this|game.changer",
    "claude": r"nuance|perspective|as an ai\b|it's worth noting|i appreciate",
    "gemini": r"fun fact|did you know|mind.blow|buckle up",
    "grok": r"unpopular opinion|hot take|\bvibes?\b|\bbased\b|\bno cap\b|\blol\b|\bbro\b|\bepic\b|\bcringe\b",
}
"""What the souls under personas/ say that each of them never says, and its nearest relatives."""
NOBODY = r"\bdelve|deep dive|tapestry|at the end of the day|\bliterally everyone\b|in today's"
AGES = r"\b(last|this) (year|month|summer)\b|\brecently\b|\bnowadays\b|\bcurrently\b|\bthese days\b"
BRITISH = (
    r"\w*(?:colour|favourit|neighbour|honour|centre\b|theatre|traveller|maths\b|programme)\w*|\w+(?:realis|organis)\w*"
)
FILES = (*sorted(THEMES), DEBATES)
QUOTING = {
    "statement",
    "asked",
    "asked to moderate",
    "task",
    "news",
}  # sections with lines for when there are words to quote, and for when not


def fields(line: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(line) if name}


def spoken(speaker: str) -> list[str]:
    scenes = [line for theme in THEMES for scene in scenes_of(theme) for who, line in scene.lines if who == speaker]
    return [*scenes, *(line for lines in answers_of(speaker).values() for line in lines)]


@pytest.mark.parametrize("file", FILES)
def test_each_theme_has_four_scenes_of_eight_to_fourteen_lines_after_the_opening(file: str) -> None:
    scenes = scenes_of(file)
    assert len(scenes) >= (6 if file == DEBATES else 4)
    assert len({scene.topic for scene in scenes}) == len(scenes)
    speakers = PARTS if file == DEBATES else PERSONAS
    for scene in scenes:
        assert 9 <= len(scene.lines) <= 15, scene.topic
        assert scene.lines[0][0] == OPEN
        assert {speaker for speaker, _ in scene.lines[1:]} == set(speakers), scene.topic
        assert all(fields(line) <= set(speakers) - {speaker} for speaker, line in scene.lines), scene.topic
        assert not fields(scene.opening), "anybody begins"


def test_no_line_is_there_twice() -> None:
    lines = Counter(line for file in FILES for scene in scenes_of(file) for _, line in scene.lines)
    for agent in PERSONAS:
        lines.update(line for name, lines_ in answers_of(agent).items() if name != "emoji" for line in lines_)
    assert [line for line, times in lines.items() if times > 1] == []


def test_all_personas_have_the_same_kinds_of_answers_and_name_only_what_those_have() -> None:
    assert len({frozenset(answers_of(agent)) for agent in PERSONAS}) == 1
    for agent in PERSONAS:
        for section, lines in answers_of(agent).items():
            assert len(lines) >= 2
            assert all(fields(line) <= {"asker", "x", "pick", "me"} for line in lines), section
            if section in QUOTING:
                assert {"{x}" in line for line in lines} == {True, False}, section
            if section == "choice":
                assert all("{pick}" in line for line in lines)


@pytest.mark.parametrize("agent", PERSONAS)
def test_a_bot_never_says_what_its_soul_rules_out(agent: str) -> None:
    banned = re.compile(f"{NEVER[agent]}|{NOBODY}|{AGES}|{BRITISH}", re.IGNORECASE)
    assert [line for line in spoken(agent) if banned.search(line)] == []


def test_members_take_the_parts_that_they_are_or_fit_and_share_when_all_are_taken() -> None:
    scene = scenes_of("casual")[0]
    assert cast(scene, ["Claude", "Grok"]) == {"Claude": "claude", "Grok": "grok"}
    assert cast(scene, ["Claude", "Poet"])["Poet"] in set(PERSONAS) - {"claude"}
    debate = scenes_of(DEBATES)[0]
    parts = cast(debate, ["Historian", "Optimist", "Engineer", "Sceptic"])
    assert parts == dict(zip(("Historian", "Optimist", "Engineer", "Sceptic"), reversed_parts(), strict=True))
    many = cast(debate, [f"Guest {number}" for number in range(6)])
    assert set(many.values()) == set(PARTS)
    assert len(many) == 6


def reversed_parts() -> tuple[str, ...]:
    return ("rememberer", "believer", "builder", "doubter")


SCENE = Scene(
    "tea", ((OPEN, "Tea?"), ("claude", "Yes."), ("grok", "No, {claude}."), ("claude", "Why?"), ("gemini", "Hm."))
)


def test_each_member_says_its_lines_in_order_and_lines_of_the_absent_are_left_out() -> None:
    heard = Heard()
    stage = Stage(SCENE, ["Grok", "Claude"], heard)
    for me, text, early, left, following in (
        ("Grok", "Tea?", 0, 3, "Claude"),
        ("Grok", "No, Claude.", 1, 2, "Claude"),
        ("Claude", "Yes.", 0, 1, None),
        ("Claude", "Why?", 0, 0, None),
    ):
        line = stage.next_line(me)
        assert line is not None
        assert (line.text, line.early, line.left, line.next_speaker) == (text, early, left, following)
        heard.add(line.key)
    assert stage.next_line("Claude") is None
    alone = Stage(SCENE, ["Grok"], Heard())
    assert [text for _, text in alone.unheard()] == ["Tea?"], "a line that names somebody who is not there is not said"
    stage.begin()
    assert len(stage.unheard()) == 4


def test_the_freshest_line_is_chosen_and_marks_keep_their_order() -> None:
    import random

    heard, rng = Heard(), random.Random(1)
    assert {heard.pick(rng, ["a", "b", "c"]) for _ in range(3)} == {"a", "b", "c"}
    first = Heard(heard.marks)
    assert first.marks == heard.marks
    oldest = heard.pick(rng, ["a", "b", "c"])
    assert heard.pick(rng, ["a", "b", "c"]) != oldest


def test_two_debates_are_kept_apart_and_a_new_one_on_the_same_topic_begins_again() -> None:
    heard = Heard()
    one = debate_stage("tea", ["A", "B"], heard, begins=True)
    line = one.next_line("A")
    assert line is not None
    heard.add(line.key)
    assert len(debate_stage("coffee", ["A", "B"], heard).unheard()) in range(6, 15)
    assert debate_stage("Tea", ["A", "B"], heard).scene == one.scene
    assert one.unheard() == debate_stage("tea", ["A", "B"], heard).unheard()
    again = debate_stage("tea", ["A", "B"], heard, begins=True).next_line("A")
    assert again == line


def test_a_topic_finds_its_scene_without_its_question_mark() -> None:
    scene = scene_on("debate", "Is a four-day week better for everyone")
    assert scene is not None
    assert scene.topic.endswith("?")
    assert scene_on("debate", "tides") is None


# formats

SIDES = {
    "debate": {"A": "for", "B": "against", "C": "for", "D": "against", "E": "undecided", "F": "moderator"},
    "panel": {"A": "", "B": "", "C": "", "D": "", "F": "moderator"},
    "interview": {"A": "guest", "B": "", "C": "", "D": "", "F": "moderator"},
}
WITH_PHASES = [name for name, each in FORMATS.items() if each.phases]


@pytest.mark.parametrize("name", WITH_PHASES)
def test_each_seat_has_a_line_in_each_phase_whoever_else_is_there(name: str) -> None:
    everyone = SIDES[name]
    fewest = list(everyone.items())[:2]
    assert {line.seat for line in all_phase_lines(name)} == set(seats(name, everyone).values())
    for sides in (everyone, dict(fewest), dict([*fewest, ("F", "moderator")])):
        seated = seats(name, sides)
        names = {seat: shown for shown, seat in seated.items()}
        for phase in FORMATS[name].phases:
            for seat in names:
                lines = [line for line in phase_lines(name, phase.name) if line.fits(seat, names)]
                assert lines, (phase.name, seat)
                assert all(line.text.format(topic="Tea", **names) for line in lines)


def test_a_third_member_of_a_side_has_the_first_seat_again() -> None:
    assert seats("debate", {"A": "for", "B": "for", "C": "for"}) == {"A": "for", "B": "for2", "C": "for"}


@pytest.mark.parametrize("name", WITH_PHASES)
def test_the_lines_of_a_format_are_american_ageless_and_said_once(name: str) -> None:
    lines = [line.text for line in all_phase_lines(name)]
    assert len(set(lines)) == len(lines)
    for line in lines:
        for never in (NOBODY, AGES, BRITISH):
            assert not re.search(never, line, re.IGNORECASE), line
