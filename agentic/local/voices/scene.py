"""A voice's turn, read from the labels of a prompt; the lines that it speaks from, and those that it has used.

Lines are text files under lines/. A persona file, or that of a debater (debating.py), has sections, `[lead]` and one
line each below. A theme file has topics, `== silence`, with `open:` lines that any agent may start with and lines of
each agent, `claude: …`. Its `== any` holds lines that fit every topic, and `claude lead: …`, `claude end: …`,
`claude ask: …` or `claude emoji: …` if the personas' own would not fit (a story, a kind word). The fields in lines,
such as {last}, are explained in composing.py and debating.py.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from zlib import crc32

from agentic.chat.directory import clean_name
from agentic.local.voices.wording import phrase, plain, words_of
from agentic.themes import DEFAULT_THEME

Lines = Mapping[str, tuple[str, ...]]
Marks = dict[int, int]
"""Line's mark → when it was used: 0, 1, 2, …"""

FOLDER = Path(__file__).parent / "lines"
PERSONAS = ("chatgpt", "claude", "gemini", "grok")
DEBATERS, GUEST = "debaters", "guest"
ANY = "any"
MAX_TOPIC = 60  # characters
MAX_ROOMS = 32  # that are remembered, the newest ones
_DIGITS = 8  # of a line's mark
TELLING = 4  # letters of a word that tells a subject
_COMMON = words_of(
    "about again from have idea into more never only over some than that their them they thing this with would your"
)


class RoomScene:
    """A turn in a room: the number of the post to make, and the limit. `members` in speaking order; `closing`: the room
    ends after this turn; `angle`: what to bring in, because the talk repeats itself; `take_up`: what a person said."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.topic = labels.get("topic", "")
        self.turn = _whole(labels.get("room", ""), 1)
        self.turns = _whole(labels.get("room_turns", ""), 0)
        self.members = _names(labels.get("members", ""))
        self.names_next = bool(labels.get("names_next"))
        self.closing = bool(labels.get("closing"))
        self.angle = labels.get("angle", "")
        self.take_up = labels.get("take_up", "")
        self.taken_up_by = clean_name(labels.get("take_up_by") or labels.get("human_name") or "friend")

    @property
    def left(self) -> int:
        """Turns after this one; many if there is no limit."""
        return self.turns - self.turn if self.turns else 1_000


class Scene:
    """`last`: the previous speaker, None for nobody or the voice itself. `aside`: a person has just spoken or was just
    answered, so the last message is no part of the bots' conversation. `human` wrote into it and waits for an answer,
    `asker` has called the voice. `task`: the instruction of automation, or `news` from outside; `unheard`: the answer
    is not posted."""

    def __init__(self, labels: Mapping[str, str], *, me: str) -> None:
        """Read a prompt's labels; all of them are optional."""

        def said(key: str) -> str:
            return labels.get(key, "").strip()

        self.me = said("display_name") or me
        last = clean_name(said("last_speaker")) if said("last_speaker") else None
        message_id = said("last_message_id")
        self.others = _names(said("others"))
        self.theme = said("theme")
        self.trigger = said("trigger") or "mention"
        self.topic = phrase(plain(said("topic")), MAX_TOPIC)
        self.round = _whole(said("round"), 1)
        self.asked, self.asked_files = said("asked"), bool(said("asked_files"))
        self.asker = clean_name(said("asker")) if said("asker") else "friend"
        self.last = None if last == self.me else last
        self.last_text = said("last_text")
        self.last_message_id = int(message_id) if message_id.isdecimal() and last != self.me else None
        self.aside = bool(said("aside"))
        self.human = clean_name(said("human_name")) if said("human_name") else None
        self.human_said, self.human_files = said("human_said"), bool(said("human_files"))
        self.task, self.news = said("task"), bool(said("task_from_outside"))
        self.unheard = bool(said("task_unheard"))
        self.query = said("task_query") if said("task_unasked") else None  # of an unprompted message: its subject
        self.room = RoomScene(labels) if said("room") else None
        self.nameless = bool(said("arena"))  # nobody may learn who answers

    def copy_with(self, **changes: str) -> Scene:
        copied = copy(self)
        vars(copied).update(changes)
        return copied

    @property
    def previous(self) -> str | None:
        """The previous speaker of the bots' conversation; None for the voice itself or after an aside."""
        return None if self.aside else self.last

    @property
    def fields(self) -> dict[str, str]:
        """The fields of lines."""
        return {
            "me": self.me,
            "last": self.last or "",
            "topic": self.topic or "this",
            "human": self.human or "",
            "asker": self.asker,
        }


@dataclass(frozen=True, slots=True)
class Words:
    """The text of a turn; `picture` describes a requested picture."""

    text: str
    topic: str | None = None
    picture: str | None = None


def _names(text: str) -> tuple[str, ...]:
    return tuple(clean_name(name) for name in text.split(",") if name.strip())


def _whole(text: str, default: int) -> int:
    return int(text) if text.strip().isdecimal() else default


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
    return agent if agent in PERSONAS else PERSONAS[crc32(agent.encode()) % len(PERSONAS)]


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
    read: list[tuple[str, dict[str, list[str]]]] = []
    for line in _content(path):
        if line.startswith("== "):
            read.append((line[3:], {}))
        else:
            key, _, text = line.partition(": ")
            read[-1][1].setdefault(key, []).append(text)
    topics = [Topic(name, {key: tuple(texts) for key, texts in lines.items()}) for name, lines in read]
    general = next((topic for topic in topics if topic.name == ANY), Topic(ANY, {}))
    return ThemeLines(tuple(topic for topic in topics if topic.name != ANY), general)


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


def _content(path: Path) -> list[str]:
    """The lines that are neither empty nor a comment (%)."""
    stripped = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in stripped if line and not line.startswith("%")]


def new_room_lines() -> Callable[[str], Marks]:
    """Return a function that gives the lines said in a room, by its topic. The voices of a process share it, so that
    nobody says a line twice in a room."""
    return lru_cache(MAX_ROOMS)(lambda _: {})


class UsedLines:
    """Choose lines: an unused one if there is one, otherwise the one used longest ago. A line is remembered by a mark
    of 32 bits."""

    def __init__(self, rng: random.Random, marks: str = "", said: Marks | None = None) -> None:
        """`marks`: what `marks` of another object returned; `said`: a memory to share."""
        self._rng = rng
        starts = range(0, len(marks), _DIGITS)
        self._said = {} if said is None else said
        self._said |= {int(marks[start : start + _DIGITS], 16): number for number, start in enumerate(starts)}

    @property
    def marks(self) -> str:
        """The marks of the used lines, the one used longest ago first."""
        return "".join(f"{mark:0{_DIGITS}x}" for mark in self._said)

    def fresh(self, lines: Iterable[str]) -> list[str]:
        return [line for line in lines if _mark(line) not in self._said]

    def pick(self, lines: Sequence[str]) -> str:
        """Choose a line and remember it. Raises ValueError without lines."""
        if not lines:
            raise ValueError("no lines to choose from")
        unsaid = self.fresh(lines)
        line = self._rng.choice(unsaid) if unsaid else min(lines, key=lambda used: self._said[_mark(used)])
        self._said.pop(_mark(line), None)
        self._said[_mark(line)] = max(self._said.values(), default=0) + 1
        return line


def _mark(line: str) -> int:
    return crc32(line.encode())
