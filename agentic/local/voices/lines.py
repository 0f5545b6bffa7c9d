"""The lines that voices speak from, read from the text files under lines/.

A persona file, or that of a debater (debating.py), has sections, `[lead]` and one line each below. A theme file has
topics, `== silence`, with `open:` lines that any agent may start with and lines of each agent, `claude: …`. Its
`== any` holds lines that fit every topic, and `claude lead: …`, `claude end: …`, `claude ask: …` or `claude emoji: …`
where the personas' own would not fit (a story, a kind word). The fields in lines, such as {last}, are explained in
composing.py and debating.py.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentic.local.voices.phrases import words_of
from agentic.themes import DEFAULT_THEME

Lines = Mapping[str, tuple[str, ...]]

FOLDER = Path(__file__).parent / "lines"
PERSONAS = ("chatgpt", "claude", "gemini", "grok")
DEBATERS, GUEST = "debaters", "guest"
ANY = "any"
TELLING = 4  # letters of a word that tells a subject
_COMMON = words_of(
    "about again from have idea into more never only over some than that their them they thing this with would your"
)


@dataclass(frozen=True, slots=True)
class Topic:
    """Lines on a topic, by "open", an agent's key, or a key with "lead", "end", "ask" or "emoji"."""

    name: str
    lines: Lines

    def of(self, key: str) -> tuple[str, ...]:
        return self.lines.get(key, ())


@dataclass(frozen=True, slots=True)
class ThemeLines:
    """A theme's topics, and the lines that fit each of them."""

    topics: tuple[Topic, ...]
    any: Topic

    @property
    def own_tone(self) -> bool:
        """Whether it has transitions of its own, because the personas' remarks would not fit its tone."""
        return any(key.endswith(" lead") for key in self.any.lines)

    def topic(self, name: str) -> Topic | None:
        """The topic of that name, None if there are no lines for it."""
        wanted = name.strip().casefold()
        return next((topic for topic in self.topics if topic.name.casefold() == wanted), None)


def persona_key(agent: str) -> str:
    """The persona of an agent: its own, otherwise always the same borrowed one."""
    return agent if agent in PERSONAS else PERSONAS[zlib.crc32(agent.encode()) % len(PERSONAS)]


@cache
def persona(agent: str) -> Lines:
    """The sections of an agent's persona file."""
    return _sections(FOLDER / "personas" / f"{persona_key(agent)}.txt")


@cache
def debater(agent: str) -> Lines:
    """The sections of the lines with which a persona without an account debates; GUEST's for one that has none."""
    return _sections(FOLDER / DEBATERS / f"{agent if agent in debaters() else GUEST}.txt")


@cache
def debaters() -> frozenset[str]:
    """The personas that have lines of their own to debate with."""
    return frozenset(path.stem for path in (FOLDER / DEBATERS).glob("*.txt")) - {GUEST}


def _sections(path: Path) -> Lines:
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in _content(path):
        if line.startswith("[") and line.endswith("]"):
            current = sections.setdefault(line[1:-1], [])
        else:
            current.append(line)
    return {name: tuple(lines) for name, lines in sections.items()}


@cache
def theme_lines(theme: str) -> ThemeLines:
    """The lines of a theme; an unknown one counts as casual."""
    path = FOLDER / "themes" / f"{theme}.txt"
    if theme not in known_themes():
        path = path.with_name(f"{DEFAULT_THEME}.txt")
    topics = _topics(path)
    return ThemeLines(tuple(topic for topic in topics if topic.name != ANY), _named(ANY, topics))


def topic_in(text: str, subject: str = "") -> Topic | None:
    """The topic that a text names with all its words, or that a subject names with half of them. Themes with a tone of
    their own do not count: their lines say nothing by themselves."""
    words, part = _words(text), _words(subject)
    for topic, name in _topics_by_words():
        if name <= words or (part <= name and len(part) * 2 >= len(name)):
            return topic
    return None


@cache
def _topics_by_words() -> tuple[tuple[Topic, frozenset[str]], ...]:
    themes = [theme_lines(theme) for theme in sorted(known_themes())]
    topics = [topic for theme in themes if not theme.own_tone for topic in theme.topics]
    return tuple((topic, name) for topic in topics if (name := _words(topic.name)))


def _words(text: str) -> frozenset[str]:
    """The words that tell a subject, without their plurals."""
    found = (word.removesuffix("s") for word in re.findall(r"[\w'-]+", text.casefold()))
    return frozenset(word for word in found if len(word) >= TELLING and word not in _COMMON)


@cache
def known_themes() -> frozenset[str]:
    return frozenset(path.stem for path in (FOLDER / "themes").glob("*.txt"))


def _topics(path: Path) -> list[Topic]:
    topics: list[tuple[str, dict[str, list[str]]]] = []
    for line in _content(path):
        if line.startswith("== "):
            topics.append((line[3:], {}))
        else:
            key, _, text = line.partition(": ")
            topics[-1][1].setdefault(key, []).append(text)
    return [Topic(name, {key: tuple(texts) for key, texts in lines.items()}) for name, lines in topics]


def _named(name: str, topics: list[Topic]) -> Topic:
    return next((topic for topic in topics if topic.name == name), Topic(name, {}))


def _content(path: Path) -> list[str]:
    """The lines that are neither empty nor a comment (%)."""
    stripped = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in stripped if line and not line.startswith("%")]
