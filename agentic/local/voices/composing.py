"""Composes a voice's turn in the bots' conversation from its lines, without repeating itself, and draws small pictures.

Fields of lines: {last} the previous speaker, {quote} some of their words, {topic}, {other} another agent, {human} the
person that wrote meanwhile, {asker} the person that is answered, {x} the subject of the question or task, {pick} the
chosen option or a sum's result, {me} the voice's own name.

A picture is pixel art, 32 cells square, as a PNG written with zlib: a sky in the agent's color, a sun or a moon, hills
and a small symmetric creature. The description seeds the random generator, so the same words draw the same picture.
https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import hashlib
import random
import re
import struct
import zlib
from collections.abc import Iterable, Sequence

from agentic.local.voices.scene import Scene, ThemeLines, Topic, UsedLines, Words, persona, persona_key, theme_lines
from agentic.local.voices.wording import capital, first_sentence, quotable

PAIR = 0.25  # of the turns: two points as a list, for personas with a section "pair"
ECHO = 0.25  # quote the previous speaker
ASIDE = 0.3  # a line that fits any topic, while there are unused ones on this topic
GENERAL = 0.3  # of the asides: one of the persona's own
ASK = 0.3  # end with a question to another agent

Color = tuple[int, int, int]

CELLS = 32
SCALE = 8  # pixels a cell
SIZE = CELLS * SCALE
COLORS: dict[str, Color] = {
    "chatgpt": (16, 163, 127),
    "claude": (217, 119, 87),
    "gemini": (66, 133, 244),
    "grok": (122, 104, 174),
}
OTHER: Color = (110, 120, 140)
WHITE: Color = (250, 250, 245)
INK: Color = (32, 30, 40)
WARM: Color = (255, 214, 120)

BODY_WIDTH, BODY_HEIGHT = 5, 9  # cells of the creature's left half
GROUND = 24  # the row of its feet

_NEEDS_COLON = re.compile(r"\b(?:add|and|but|do|is|it|look|now|on|or|so|then|this|which|with|\w+ing):$")
_ONE = re.compile(r"\{topic\} (?:is|was|has|does|gets|looks|depends|behaves|shows|works|comes|resists|deserves)\b")
_NOT_MANY = re.compile(r"(?:ss|us|is|news)$")
_AFTER_HEAD = re.compile(r"\b(?:that|of|in|on|for|to|with|from|who|before|after|at|over|or)\b")


class Composer:
    """Compose turns of an agent. All chance comes from `rng`; no line is repeated while there are unused ones."""

    def __init__(self, agent: str, rng: random.Random, said: UsedLines) -> None:
        self._key, self._rng, self._said = persona_key(agent), rng, said
        self._persona = persona(agent)

    def opening(self, scene: Scene) -> Words:
        """Start on one of the topics that this voice has said least about, or on the given one, and name it."""
        theme = theme_lines(scene.theme)
        least = min(map(self._lines_said, theme.topics))
        topic = self._rng.choice([topic for topic in theme.topics if self._lines_said(topic) == least])
        if scene.topic:
            given = theme.topic(scene.topic)
            if given is None:
                return Words(f"{capital(scene.topic)}: where does everybody stand on that?", scene.topic)
            topic = given
        opening = self._said.pick(topic.of("open"))
        # An introduction that promises a question needs one.
        intros = [intro for intro in self._persona["open"] if "?" in opening or "question" not in intro]
        intro = "" if theme.own_tone else self._said.pick(intros)
        return Words(f"{intro} {opening}".strip(), topic.name)

    def turn(self, scene: Scene, *, ending: bool = False) -> Words | None:
        """Respond to the previous speaker; None if nothing that fits is left to say. `ending`: close the topic, with
        no question to another agent."""
        text = self._contribution(scene, asks=not ending)
        if not text or not ending:
            return Words(text) if text else None
        gap = "\n" if "\n" in text else " "
        return Words(f"{text}{gap}{self.farewell(scene)}")

    def farewell(self, scene: Scene) -> str:
        """A sentence that closes the topic."""
        own = theme_lines(scene.theme).any.of(f"{self._key} end")
        return self._fill(self._said.pick(own or _agreeing(self._persona["end"], scene)), scene)

    def emoji(self, scene: Scene) -> str:
        """A reaction in the theme's tone, otherwise in the persona's."""
        return self._rng.choice(theme_lines(scene.theme).any.of(f"{self._key} emoji") or self._persona["emoji"])

    def _contribution(self, scene: Scene, *, asks: bool) -> str:
        theme = theme_lines(scene.theme)
        points = self._points(scene, theme)
        if not points and theme.own_tone:
            return ""
        single = [point for point in points if "{last}" not in point]
        if (
            self._rng.random() < PAIR
            and scene.previous
            and len(single) > 1
            and "pair" in self._persona
            and not theme.own_tone
        ):
            first = self._said.pick(single)
            second = self._said.pick([point for point in single if point != first])
            intro = self._fill(self._said.pick(self._persona["pair"]), scene)
            return f"{intro}\n- {self._fill(first, scene)}\n- {self._fill(second, scene)}"
        if not points:  # used lines too, once no unused one is left
            topic = theme.topic(scene.topic)
            about = [*(topic.of(self._key) if topic else ()), *theme.any.of(self._key)]
            points = [*_sayable(about, scene), *_agreeing(self._persona["body"], scene)]
        point = self._said.pick(points)
        if "{last}" in point:
            text = self._fill(point, scene)
        else:
            lead, point = self._lead(scene, theme), self._fill(point, scene)
            if ":" in first_sentence(point) and not _NEEDS_COLON.search(lead):
                lead = re.sub(r":$", ".", lead)  # a point with a colon of its own gets no second one before it
            text = f"{lead} {point}".strip()
        if asks and self._rng.random() < ASK and scene.others:
            questions = theme.any.of(f"{self._key} ask") or (() if theme.own_tone else self._persona["ask"])
            if questions:
                text += " " + self._fill(self._said.pick(questions), scene)
        return text

    def _points(self, scene: Scene, theme: ThemeLines) -> list[str]:
        """Unused lines: on this topic first, now and then asides."""
        topic = theme.topic(scene.topic)
        about = self._said.fresh(_sayable(topic.of(self._key) if topic else (), scene))
        if about and self._rng.random() >= ASIDE:
            return about
        # Unused lines that fit any topic: the theme's or the persona's.
        fitting = self._said.fresh(_sayable(theme.any.of(self._key), scene))
        general = [] if theme.own_tone else self._said.fresh(_agreeing(self._persona["body"], scene))
        if general and (not fitting or self._rng.random() < GENERAL):
            return general
        return fitting or about

    def _lines_said(self, topic: Topic) -> int:
        lines = (*topic.of("open"), *topic.of(self._key))
        return len(lines) - len(self._said.fresh(lines))

    def _lead(self, scene: Scene, theme: ThemeLines) -> str:
        """A transition from the previous speaker, by name, or back to the topic after an aside."""
        own = theme.any.of(f"{self._key} lead")
        if scene.previous is None:
            section = "back" if scene.aside else "solo"
            return "" if own else self._fill(self._said.pick(_agreeing(self._persona[section], scene)), scene)
        quote = quotable(scene.last_text)
        if own:
            lead = self._said.pick(own)
        elif quote and self._rng.random() < ECHO:
            lead = self._said.pick(self._persona["echo"])
        else:
            lead = self._said.pick(self._persona["lead"])
        return self._fill(lead, scene, quote or "")

    def _fill(self, line: str, scene: Scene, quote: str = "") -> str:
        others = [name for name in scene.others if name != scene.last] or list(scene.others)
        other = self._rng.choice(others) if others and "{other}" in line else ""
        return capital(line.format_map(scene.fields | {"other": other, "quote": quote}))


def _sayable(lines: Sequence[str], scene: Scene) -> list[str]:
    """Leave out lines with {last} if there is no previous speaker."""
    return [line for line in lines if scene.previous or "{last}" not in line]


def _agreeing(lines: Iterable[str], scene: Scene) -> list[str]:
    """Leave out lines whose verb does not agree with a topic in the plural."""
    head = _AFTER_HEAD.split(scene.topic)[0].strip()
    many = " and " in head or (head.endswith("s") and not _NOT_MANY.search(head))
    return [line for line in lines if not (many and _ONE.search(line))]


def draw_png(description: str, agent: str) -> bytes:
    """A PNG of SIZE × SIZE pixels, the same for the same description and agent."""
    rng = random.Random(hashlib.sha256(f"{agent}\n{description}".encode()).digest())
    color = COLORS.get(agent, OTHER)
    canvas = _sky(rng, color)
    _light(canvas, rng)
    _hills(canvas, rng, color)
    _creature(canvas, rng, color)
    # 8 bits a channel, RGB, each row with filter 0.
    lines = (b"\0" + b"".join(bytes(cell) * SCALE for cell in row) for row in canvas)
    pixels = b"".join(line * SCALE for line in lines)
    header = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _sky(rng: random.Random, color: Color) -> list[list[Color]]:
    top, bottom = _mix(color, INK, 0.55), _mix(color, WHITE, 0.65)
    rows = [[_mix(top, bottom, y / GROUND if y < GROUND else 1.0)] * CELLS for y in range(CELLS)]
    for _ in range(14):
        rows[rng.randrange(12)][rng.randrange(CELLS)] = WHITE
    return rows


def _light(canvas: list[list[Color]], rng: random.Random) -> None:
    """A sun, or a moon with a bite."""
    cx, cy, radius = rng.choice((6, 25)), rng.randrange(5, 8), rng.randrange(3, 5)
    bite = rng.choice((0, 2))
    for y in range(cy - radius, cy + radius + 1):
        for x in range(cx - radius, cx + radius + 1):
            inside = (x - cx) ** 2 + (y - cy) ** 2 <= radius**2
            bitten = bite and (x - cx - bite) ** 2 + (y - cy + 1) ** 2 <= (radius - 1) ** 2
            if inside and not bitten and 0 <= x < CELLS:
                canvas[y][x] = WARM


def _hills(canvas: list[list[Color]], rng: random.Random, color: Color) -> None:
    for depth, shade in ((0, 0.25), (3, 0.5)):
        height = GROUND - 3 + depth
        for x in range(CELLS):
            height = max(GROUND - 4 + depth, min(GROUND + 1 + depth, height + rng.choice((-1, 0, 0, 1))))
            for y in range(height, CELLS):
                canvas[y][x] = _mix(color, INK, shade)


def _creature(canvas: list[list[Color]], rng: random.Random, color: Color) -> None:
    """A rounded body, mirrored, with eyes, a mouth, feet, and ears, a hat or a feeler."""
    fur, middle = _mix(color, WHITE, rng.uniform(0.35, 0.75)), CELLS // 2
    top = GROUND - BODY_HEIGHT + 1
    for row in range(BODY_HEIGHT):
        width = BODY_WIDTH + (0 if 1 <= row < BODY_HEIGHT - 1 else -2) + (rng.random() < 0.25)
        for x in range(width):
            spot = rng.random() < 0.12 and row > 5
            _both(canvas, middle, x, top + row, _mix(fur, color, 0.5) if spot else fur)
    for x in (1, 2):
        for y in (2, 3):
            _both(canvas, middle, x, top + y, WHITE)
    _both(canvas, middle, rng.choice((1, 2)), top + 3, INK)
    _both(canvas, middle, 0, top + 6, INK)
    _both(canvas, middle, 1, top + rng.choice((5, 6)), INK)
    _extras(canvas, rng, middle, top, fur)


def _extras(canvas: list[list[Color]], rng: random.Random, middle: int, top: int, fur: Color) -> None:
    for x in (1, 3):
        _both(canvas, middle, x, top + BODY_HEIGHT, INK)
    kind = rng.choice(("ears", "hat", "feeler"))
    if kind == "ears":
        for x, y in ((3, 1), (4, 1), (4, 2)):
            _both(canvas, middle, x, top - y, fur)
    elif kind == "hat":
        for x, y in ((0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (1, 2), (0, 3), (1, 3)):
            _both(canvas, middle, x, top - y, INK if y > 1 else _mix(INK, WARM, 0.3))
    else:
        for x, y in ((1, 1), (2, 2)):
            _both(canvas, middle, x, top - y, INK)
        _both(canvas, middle, 3, top - 3, WARM)


def _both(canvas: list[list[Color]], middle: int, x: int, y: int, color: Color) -> None:
    canvas[y][middle + x] = canvas[y][middle - 1 - x] = color


def _mix(one: Color, other: Color, share: float) -> Color:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue
