"""Scenes: short conversations, written in advance, that the scripted voices play in whatever order they are asked.

A file in scenes/ has the scenes of a theme. `debates.txt` is for rooms and for topics without a scene; its speakers are
parts (doubter, believer, builder, rememberer), which the members divide among themselves. `formats.txt` has the lines
of rooms with a format, by phase and seat; it says how.

    == a cat that was made project manager       the topic of the conversation
    open: Our new project manager is a cat.      the first line, by whoever begins
    claude: She has rejected every draft.        a line of a speaker, in the order in which lines make most sense

A line may name a speaker in braces, {grok}; without that speaker it is left out. Each speaker says its own lines in
order, so write a scene that still makes sense if two neighboring lines change places, or if a speaker is missing.

answers/ has what a voice says to people, in sections such as `[greet]`, one line each.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

from agentic.local.voices.wording import capital, phrase, plain
from agentic.themes import DEFAULT_THEME

FOLDER = Path(__file__).parent
PERSONAS = ("chatgpt", "claude", "gemini", "grok")
DEBATES = "debates"
SEATS: Mapping[str, int] = {"for": 2, "against": 2, "member": 4, "asker": 3}
"""How many members of a kind have lines of their own; other kinds have a single member."""
PARTS = ("doubter", "believer", "builder", "rememberer")
NATURAL_PARTS = {
    "sceptic": "doubter",
    "grok": "doubter",
    "optimist": "believer",
    "gemini": "believer",
    "engineer": "builder",
    "economist": "builder",
    "chatgpt": "builder",
    "historian": "rememberer",
    "ethicist": "rememberer",
    "claude": "rememberer",
}
OPEN = "open"
_NAMED = re.compile(r"\{(\w+)\}")
_MARK_DIGITS = 8
MAX_HEARD = 500
MAX_TOPIC = 60  # characters


@dataclass(frozen=True)
class Scene:
    """`lines` are (speaker, text), the first one by OPEN."""

    topic: str
    lines: tuple[tuple[str, str], ...]

    @property
    def opening(self) -> str:
        return self.lines[0][1]


@cache
def scenes_of(theme: str) -> tuple[Scene, ...]:
    """Return the scenes of a theme, or of the default theme if it's unknown."""
    path = FOLDER / "scenes" / f"{theme}.txt"
    if not path.exists():
        path = path.with_stem(DEFAULT_THEME)
    read: list[tuple[str, list[tuple[str, str]]]] = []
    for line in _content(path):
        if line.startswith("== "):
            read.append((line[3:], []))
        else:
            speaker, _, text = line.partition(": ")
            read[-1][1].append((speaker, text))
    return tuple(Scene(capital(topic), tuple(lines)) for topic, lines in read)


@cache
def answers_of(agent: str) -> Mapping[str, tuple[str, ...]]:
    """Return an agent's answers to people: section → lines. Other agents borrow a persona's lines."""
    sections: dict[str, list[str]] = {}
    for line in _content(FOLDER / "answers" / f"{persona_of(agent)}.txt"):
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), [])
        else:
            section.append(line)
    return {name: tuple(lines) for name, lines in sections.items()}


@dataclass(frozen=True)
class SeatLine:
    """A line of a seat in a phase. It's left out if the seat `without` is taken."""

    seat: str
    text: str
    without: str = ""

    def fits(self, seat: str, names: Mapping[str, str]) -> bool:
        """Whether the member with that seat can say it. `names`: seat → name, of the taken seats."""
        needed = set(_NAMED.findall(self.text)) - {"topic"}
        return self.seat == seat and self.without not in names and needed <= names.keys()


@cache
def _format_lines() -> Mapping[tuple[str, str], tuple[SeatLine, ...]]:
    """Return the lines by format and phase."""
    found, heading = dict[tuple[str, str], list[SeatLine]](), ("", "")
    for line in _content(FOLDER / "scenes" / "formats.txt"):
        if line.startswith("== "):
            room_format, _, phase = line[3:].partition(": ")
            heading = (room_format, phase)
        else:
            speaker, _, text = line.partition(": ")
            seat, _, without = speaker.partition(" without ")
            found.setdefault(heading, []).append(SeatLine(seat, text, without))
    return {place: tuple(lines) for place, lines in found.items()}


def phase_lines(room_format: str, phase: str) -> tuple[SeatLine, ...]:
    """Return the lines of a phase, in the order in which each seat says its own."""
    return _format_lines().get((room_format, phase), ())


def all_phase_lines(room_format: str) -> tuple[SeatLine, ...]:
    return tuple(line for (name, _), lines in _format_lines().items() if name == room_format for line in lines)


def seats(room_format: str, sides: Mapping[str, str]) -> dict[str, str]:
    """Return name → seat: the first member for it is `for`, the second `for2`. In a panel and an interview, members
    without a side are `member` and `asker`. Of a large side, the third member has the first seat again."""
    usual = "asker" if room_format == "interview" else "member"
    taken, seated = Counter[str](), dict[str, str]()
    for name, side in sides.items():
        kind = side or usual
        number = taken[kind] % SEATS.get(kind, 1)
        taken[kind] += 1
        seated[name] = f"{kind}{number + 1}" if number else kind
    return seated


def persona_of(agent: str) -> str:
    """Return the persona whose lines an agent says: itself, a persona with the same part, or else a fixed one."""
    if agent in PERSONAS:
        return agent
    part = NATURAL_PARTS.get(agent)
    return next(
        (name for name in PERSONAS if NATURAL_PARTS[name] == part), PERSONAS[crc32(agent.encode()) % len(PERSONAS)]
    )


def cast(scene: Scene, members: Iterable[str]) -> dict[str, str]:
    """Member's name → speaker: the one that it is, or fits best. The others take what is left, then share."""
    speakers = tuple(dict.fromkeys(speaker for speaker, _ in scene.lines if speaker != OPEN))
    names = list(dict.fromkeys(members))
    parts: dict[str, str] = {}
    for name in names:
        key = name.casefold()
        wanted = key if key in speakers else NATURAL_PARTS.get(key)
        if wanted in speakers and wanted not in parts.values():
            parts[name] = wanted
    for number, name in enumerate(name for name in names if name not in parts):
        free = [speaker for speaker in speakers if speaker not in parts.values()]
        parts[name] = free[0] if free else speakers[number % len(speakers)]
    return parts


@dataclass(frozen=True)
class Line:
    """A line to say. `key`: what `Heard` remembers it by; `early`: the number of unsaid lines before it that others can
    say now; `left`: the number of unsaid lines besides it; `next_speaker`: the member who says the first of those."""

    text: str
    key: str
    early: int
    left: int
    next_speaker: str | None


class Stage:
    """A scene with its players. All voices of a process share `heard`; `scope` keeps two plays of one scene apart."""

    def __init__(self, scene: Scene, members: Iterable[str], heard: Heard, scope: str = "") -> None:
        self.scene, self._heard, self._scope = scene, heard, scope
        self._parts = cast(scene, members)
        self._names = {part: name for name, part in reversed(self._parts.items())}

    def begin(self) -> None:
        """Count nothing as heard: the scene may have been played before."""
        for _, text in self.scene.lines:
            self._heard.forget(self._scope + text)

    def unheard(self) -> list[tuple[str, str]]:
        """The lines, with their speakers, that nobody has said and a member can say."""
        return [
            (speaker, text)
            for speaker, text in self.scene.lines
            if (speaker == OPEN or speaker in self._names)
            and all(name in self._names for name in _NAMED.findall(text))
            and self._scope + text not in self._heard
        ]

    def due(self, after: str | None) -> str | None:
        """Return the member who says the next line after `after` has spoken, or None at the end."""
        others = (self._names.get(speaker) for speaker, _ in self.unheard() if speaker != self._parts.get(after or ""))
        return next(others, None)

    def next_line(self, me: str, after: str = "") -> Line | None:
        """Return this member's next line, after one of the member `after`; None if none is left. Anybody may open."""
        part, lines = self._parts.get(me), self.unheard()
        place = next((place for place, (speaker, _) in enumerate(lines) if speaker in (OPEN, part)), None)
        if place is None:
            return None
        early = sum(speaker != self._parts.get(after) for speaker, _ in lines[:place])
        text = lines.pop(place)[1]
        following = next((self._names[speaker] for speaker, _ in lines if speaker != part), None)
        return Line(text.format_map(self._names), self._scope + text, early, len(lines), following)


class Heard:
    """The last MAX_HEARD lines that were said, the latest last, each as a mark of 32 bits."""

    def __init__(self, marks: str = "") -> None:
        """`marks`: as `marks` of another object."""
        starts = range(0, len(marks), _MARK_DIGITS)
        self._marks = [int(marks[start : start + _MARK_DIGITS], 16) for start in starts]

    @property
    def marks(self) -> str:
        return "".join(f"{mark:0{_MARK_DIGITS}x}" for mark in self._marks)

    def __contains__(self, line: str) -> bool:
        return crc32(line.encode()) in self._marks

    def add(self, line: str) -> None:
        self.forget(line)
        self._marks.append(crc32(line.encode()))
        del self._marks[:-MAX_HEARD]

    def forget(self, line: str) -> None:
        if line in self:
            self._marks.remove(crc32(line.encode()))

    def latest(self, lines: Iterable[str]) -> str | None:
        """Return the line that was said last; None if none was."""
        said = {crc32(line.encode()): line for line in lines}
        return next((said[mark] for mark in reversed(self._marks) if mark in said), None)

    def pick(self, rng: random.Random, lines: Sequence[str]) -> str:
        """Choose and note a line that was not heard, or was heard longest ago. Raises IndexError without lines."""
        line = lines[self._freshest(rng, lines)]
        self.add(line)
        return line

    def pick_scene(self, rng: random.Random, scenes: Sequence[Scene]) -> Scene:
        """Choose a scene that was not begun, otherwise the one begun longest ago."""
        return scenes[self._freshest(rng, [scene.opening for scene in scenes])]

    def _freshest(self, rng: random.Random, lines: Sequence[str]) -> int:
        unheard = [place for place, line in enumerate(lines) if line not in self]
        if unheard:
            return rng.choice(unheard)
        return min(range(len(lines)), key=lambda place: self._marks.index(crc32(lines[place].encode())), default=0)


def scene_on(theme: str, topic: str) -> Scene | None:
    """The theme's scene with that topic, in any case and without closing punctuation."""
    wanted = phrase(topic).casefold()
    return next((scene for scene in scenes_of(theme) if phrase(scene.topic).casefold() == wanted), None)


def stage_on(theme: str, topic: str, members: Sequence[str], heard: Heard) -> Stage:
    """Return the stage of a conversation about this topic: the theme's scene on it, otherwise a debate."""
    topic = phrase(plain(topic), MAX_TOPIC)
    scene = scene_on(theme, topic)
    return debate_stage(topic, members, heard) if scene is None else Stage(scene, members, heard)


def debate_stage(topic: str, members: Sequence[str], heard: Heard, *, begins: bool = False) -> Stage:
    """The debate on a topic that no scene was written for: the first, from a place that depends on the topic, in which
    lines are left. `begins`: nothing was said yet, whatever was said on the same topic before."""
    scenes, scope = scenes_of(DEBATES), f"{topic.casefold()}\n"
    start = crc32(scope.encode()) % len(scenes)
    stages = [Stage(scene, members, heard, scope) for scene in (*scenes[start:], *scenes[:start])]
    if begins:
        for stage in stages:
            stage.begin()
    return next((stage for stage in stages if stage.unheard()), stages[0])


def _content(path: Path) -> list[str]:
    """The lines that are neither empty nor a comment (%)."""
    stripped = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in stripped if line and not line.startswith("%")]
