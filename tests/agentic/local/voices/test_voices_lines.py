"""The prepared lines themselves: enough of them, in each bot's own voice, and nothing that its soul rules out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, combinations
from string import Formatter

import pytest

from agentic.local.voices.scene import PERSONAS, known_themes, persona, theme_lines

NEVER = {
    "chatgpt": r"(great|good|excellent) (why-)?question|dream big|believe in yourself|you've got this|game.changer",
    "claude": r"nuance|perspective|as an ai\b|it's worth noting|i appreciate",
    "gemini": r"fun fact|did you know|mind.blow|buckle up",
    "grok": r"unpopular opinion|hot take|\bvibes?\b|\bbased\b|\bno cap\b|\blol\b|\bbro\b|\bepic\b|\bcringe\b",
}
"""What the souls under personas/ say that each of them never says, and its nearest relatives."""
NOBODY = r"\bdelve|deep dive|tapestry|at the end of the day|\bliterally everyone\b|in today's"
AGES = r"\b(last|this|next) (year|month|summer)\b|\brecently\b|\bnowadays\b|\bcurrently\b|\bthese days\b"
AMERICAN = (
    r"\b(colou?rful color|color|favorite|neighbor|humor\b|honor\b|gray|center|theater|traveler|math\b|mom\b"
    r"|\w*(?:real|organ|apolog|recogn|civil|critic)iz)"
)
AGREES = re.compile(
    r"(?:^|[.,:;!?] |\b(?:and|but|that|if|where|when|because|whether|what) )"
    r"\{topic\} (?!again|among|cannot|will|would)\w"
)
SECTION_FIELDS = {"lead": {"last"}, "ask": {"other"}, "end": {"topic"}, "human": {"human"}, "greet": {"asker"}}
HABITS = ("open", "lead", "echo", "solo", "body", "ask", "end", "human", "join", "greet")
ENOUGH = {"lead": 10, "ask": 8, "end": 8, "human": 6, "greet": 5, "body": 16}


def fields(line: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(line) if name}


def spoken(key: str) -> Iterator[str]:
    """Every line that a bot can say, without the openings, which all of them share."""
    for lines in persona(key).values():
        yield from lines
    yield from spoken_in_themes(key)


def spoken_in_themes(key: str) -> Iterator[str]:
    for theme in known_themes():
        for topic in (*theme_lines(theme).topics, theme_lines(theme).any):
            for name in (key, f"{key} lead", f"{key} end", f"{key} ask"):
                yield from topic.of(name)


def openings() -> Iterator[str]:
    for theme in known_themes():
        for topic in theme_lines(theme).topics:
            yield from topic.of("open")


def phrases(lines: Iterable[str], words: int) -> set[tuple[str, ...]]:
    """Every run of so many words in the lines, fields left out."""
    found: set[tuple[str, ...]] = set()
    for line in lines:
        for part in re.split(r"\{\w+\}|[.!?:;,\"]", line.lower()):
            said = part.split()
            found |= {tuple(said[at : at + words]) for at in range(len(said) - words + 1)}
    return found


@pytest.mark.parametrize("theme", sorted(known_themes()))
def test_a_theme_has_six_topics_that_their_openings_name(theme: str) -> None:
    topics = theme_lines(theme).topics
    assert len(topics) >= 6
    for topic in topics:
        assert len(topic.of("open")) >= 2
        assert all(topic.name.lower() in opening.lower() and not fields(opening) for opening in topic.of("open"))
        assert all(len(topic.of(key)) >= 3 for key in PERSONAS)
        assert set(topic.lines) == {"open", *PERSONAS}


@pytest.mark.parametrize("theme", sorted(known_themes()))
def test_a_line_on_a_topic_needs_no_other_line(theme: str) -> None:
    """Lines come in any order: only those that fit every topic may name the speaker before."""
    for topic in theme_lines(theme).topics:
        assert not any(fields(line) for key in PERSONAS for line in topic.of(key))
    for name, lines in theme_lines(theme).any.lines.items():
        allowed = {"other"} if name.endswith(" ask") else {"last"}
        assert all(fields(line) <= allowed for line in lines)


def test_a_theme_with_a_tone_of_its_own_has_transitions_and_endings_for_all_four() -> None:
    for theme in known_themes():
        general = theme_lines(theme).any
        own = [key for key in PERSONAS if general.of(f"{key} lead")]
        assert own in ([], list(PERSONAS))
        for key in own:
            assert len(general.of(f"{key} lead")) >= 5
            assert all(fields(line) == {"last"} for line in general.of(f"{key} lead"))
            assert len(general.of(f"{key} end")) >= 4
            assert len(general.of(key)) >= 6


@pytest.mark.parametrize("key", PERSONAS)
def test_a_persona_has_enough_phrases_for_a_conversation_of_twenty_turns(key: str) -> None:
    for section, least in ENOUGH.items():
        assert len(persona(key)[section]) >= least
    for section, needed in SECTION_FIELDS.items():
        assert all(fields(line) == needed for line in persona(key)[section])


def test_no_two_bots_share_a_phrase() -> None:
    in_themes = {key: phrases(spoken_in_themes(key), 6) for key in PERSONAS}
    habits = {key: phrases(chain.from_iterable(map(persona(key).__getitem__, HABITS)), 4) for key in PERSONAS}
    for one, other in combinations(PERSONAS, 2):
        assert in_themes[one] & in_themes[other] == set()
        assert habits[one] & habits[other] == set()


@pytest.mark.parametrize("key", PERSONAS)
def test_a_bot_never_says_what_its_soul_rules_out(key: str) -> None:
    banned = re.compile(f"{NEVER[key]}|{NOBODY}", re.IGNORECASE)
    assert [line for line in spoken(key) if banned.search(line)] == []


def test_grok_does_not_shout() -> None:
    assert [line for line in spoken("grok") if re.search(r"\b(?!API\b)[A-Z]{3,}\b", line)] == []


@pytest.mark.parametrize("pattern", [AGES, AMERICAN])
def test_no_line_ages_and_all_are_spelled_the_british_way(pattern: str) -> None:
    lines = [*openings(), *(line for key in PERSONAS for line in spoken(key))]
    assert [line for line in lines if re.search(pattern, line, re.IGNORECASE)] == []


@pytest.mark.parametrize("key", PERSONAS)
def test_any_topic_fits_into_a_persona_s_sentence(key: str) -> None:
    """A topic may be plural or a question, so that no verb may agree with it."""
    assert [line for line in spoken(key) if AGREES.search(line)] == []
