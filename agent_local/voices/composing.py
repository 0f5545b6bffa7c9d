"""Composing a turn of a voice from its lines, without repeating itself.

Fields of lines: {last} the previous speaker, {quote} some of their words, {topic}, {other} another agent, {human} the
person that wrote meanwhile, {asker} the person that is answered, {x} the subject of the question, {pick} the chosen
option, {me} the voice's own name.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_discord.objects.mentions import clean_name
from agent_local.voices.asking import SMALL_TALK, Utterance, understand
from agent_local.voices.lines import ThemeLines, Topic, persona, persona_key, theme_lines
from agent_local.voices.memory import SaidLines
from agent_local.voices.phrases import capital, gist, phrase, plain, quotable

PAIR = 0.25  # of the turns: two points as a list, for personas with a section "pair"
ECHO = 0.25  # quote the previous speaker
ASIDE = 0.3  # a line that fits any topic, while there are unused ones on this topic
GENERAL = 0.5  # of the asides: one of the persona's own
ASK = 0.3  # end with a question to another agent
MAX_TOPIC = 60  # characters
MAX_CAPTION = 160


@dataclass(frozen=True, slots=True)
class Scene:
    """A voice's knowledge of its turn: the labels of a Prompt, cleaned."""

    me: str
    others: tuple[str, ...]
    theme: str
    trigger: str
    topic: str
    round: int
    asked: str
    asker: str
    last: str | None  # None if there is no message yet, or the last one is the voice's own
    last_text: str
    last_message_id: str | None
    human: str | None
    human_said: str

    @classmethod
    def of(cls, labels: Mapping[str, str], *, me: str) -> Scene:
        """Read a prompt's labels; all of them are optional."""

        def said(key: str) -> str:
            return labels.get(key, "").strip()

        me = said("display_name") or me
        last = clean_name(said("last_speaker")) if said("last_speaker") else None
        message_id = said("last_message_id")
        return cls(
            me=me,
            others=tuple(clean_name(name) for name in said("others").split(",") if name.strip()),
            theme=said("theme"),
            trigger=said("trigger") or "mention",
            topic=phrase(plain(said("topic")), MAX_TOPIC),
            round=int(said("round")) if said("round").isdecimal() else 1,
            asked=said("asked"),
            asker=clean_name(said("asker")) if said("asker") else "friend",
            last=None if last == me else last,
            last_text=said("last_text"),
            last_message_id=message_id if message_id.isdecimal() and last != me else None,
            human=clean_name(said("human_name")) if said("human_said") else None,
            human_said=said("human_said"),
        )


@dataclass(frozen=True, slots=True)
class Words:
    """The text of a turn; `picture` describes a requested picture."""

    text: str
    topic: str | None = None
    picture: str | None = None


class Composer:
    """Compose turns of an agent. All chance comes from `rng`; no line is repeated while there are unused ones."""

    def __init__(self, agent: str, rng: random.Random) -> None:
        self._key, self._rng, self._said = persona_key(agent), rng, SaidLines(rng)
        self._persona = persona(agent)

    def opening(self, scene: Scene) -> Words:
        """Start a conversation on one of the topics that this voice has said least about, and name it."""
        theme = theme_lines(scene.theme)
        least = min(map(self._lines_said, theme.topics))
        topic = self._rng.choice([topic for topic in theme.topics if self._lines_said(topic) == least])
        intro = "" if self._own_tone(theme) else self._said.pick(self._persona["open"])
        return Words(f"{intro} {self._said.pick(topic.of('open'))}".strip(), topic.name)

    def answer(self, scene: Scene) -> Words:
        """Answer a person's question."""
        return self._answer(scene, scene.asked, scene.asker)

    def join(self, scene: Scene) -> Words:
        """Add to the answer that another agent gave to a person."""
        asked = self._understood(scene, scene.asked)
        words = self._reply(scene, asked, scene.asker)
        if scene.last in (None, scene.asker) or asked.kind in SMALL_TALK:
            return words
        lead = self._said.pick(self._persona["join"]).format_map(_fields(scene))
        return Words(f"{lead} {words.text}", picture=words.picture)

    def turn(self, scene: Scene) -> Words:
        """A turn of a round: respond to the person that wrote meanwhile, otherwise to the previous speaker."""
        if scene.human:
            lead = self._said.pick(self._persona["human"]).format_map(_fields(scene))
            words = self._answer(scene, scene.human_said, scene.human)
            return Words(f"{lead} {words.text}", picture=words.picture)
        return Words(self._contribution(scene))

    def farewell(self, scene: Scene) -> str:
        """A sentence that closes the topic."""
        own = theme_lines(scene.theme).any.of(f"{self._key} end")
        return self._fill(self._said.pick(own or self._persona["end"]), scene)

    def emoji(self) -> str:
        return self._rng.choice(self._persona["emoji"])

    def _answer(self, scene: Scene, text: str, asker: str) -> Words:
        return self._reply(scene, self._understood(scene, text), asker)

    def _understood(self, scene: Scene, text: str) -> Utterance:
        return understand(text, (scene.me, *scene.others, "bots"))

    def _reply(self, scene: Scene, asked: Utterance, asker: str) -> Words:
        section = self._rng.choice(("yes", "no")) if asked.kind == "yesno" else asked.kind
        fields = _fields(scene) | {
            "asker": asker,
            "x": asked.x,
            "pick": self._rng.choice(asked.options) if asked.options else "",
        }
        text = capital(self._said.pick(self._persona[section]).format_map(fields))
        return Words(text, picture=asked.x if asked.kind == "draw" else None)

    def _contribution(self, scene: Scene) -> str:
        theme = theme_lines(scene.theme)
        points = self._points(scene, theme)
        paired = "pair" in self._persona and not self._own_tone(theme)
        if self._chance(PAIR) and scene.last and len(points) > 1 and paired:
            return self._pair(scene, points)
        point = self._said.pick(points or self._everything(scene, theme))
        if "{last}" in point:
            text = self._fill(point, scene)
        else:
            text = f"{self._lead(scene, theme)} {self._fill(point, scene)}".strip()
        if self._chance(ASK) and scene.others and not self._own_tone(theme):
            text += " " + self._fill(self._said.pick(self._persona["ask"]), scene)
        return text

    def _points(self, scene: Scene, theme: ThemeLines) -> list[str]:
        """Unused lines: on this topic first, now and then asides."""
        topic = theme.topic(scene.topic)
        about = self._said.fresh(_sayable(topic.of(self._key) if topic else (), scene))
        if about and not self._chance(ASIDE):
            return about
        return self._asides(scene, theme) or about

    def _asides(self, scene: Scene, theme: ThemeLines) -> list[str]:
        """Unused lines that fit any topic: the theme's or the persona's."""
        fitting = self._said.fresh(_sayable(theme.any.of(self._key), scene))
        if self._own_tone(theme):
            return fitting
        general = self._said.fresh(self._persona["body"])
        return general if general and (not fitting or self._chance(GENERAL)) else fitting

    def _everything(self, scene: Scene, theme: ThemeLines) -> Sequence[str]:
        topic = theme.topic(scene.topic)
        about = _sayable([*(topic.of(self._key) if topic else ()), *theme.any.of(self._key)], scene)
        return about if about and self._own_tone(theme) else [*about, *self._persona["body"]]

    def _own_tone(self, theme: ThemeLines) -> bool:
        """Whether the theme has transitions of its own, because the persona's remarks would not fit its tone."""
        return bool(theme.any.of(f"{self._key} lead"))

    def _lines_said(self, topic: Topic) -> int:
        lines = (*topic.of("open"), *topic.of(self._key))
        return len(lines) - len(self._said.fresh(lines))

    def _lead(self, scene: Scene, theme: ThemeLines) -> str:
        """A transition from the previous speaker, by name."""
        if scene.last is None:
            return "" if self._own_tone(theme) else self._said.pick(self._persona["solo"])
        quote = quotable(scene.last_text)
        if own := theme.any.of(f"{self._key} lead"):
            lead = self._said.pick(own)
        elif quote and self._chance(ECHO):
            lead = self._said.pick(self._persona["echo"])
        else:
            lead = self._said.pick(self._persona["lead"])
        return self._fill(lead, scene, quote or "")

    def _pair(self, scene: Scene, points: list[str]) -> str:
        plain_points = [point for point in points if "{last}" not in point]
        if len(plain_points) < 2:
            plain_points = points
        first = self._said.pick(plain_points)
        second = self._said.pick([point for point in plain_points if point != first])
        intro = self._fill(self._said.pick(self._persona["pair"]), scene)
        return f"{intro}\n- {self._fill(first, scene)}\n- {self._fill(second, scene)}"

    def _fill(self, line: str, scene: Scene, quote: str = "") -> str:
        others = [name for name in scene.others if name != scene.last] or list(scene.others)
        other = self._rng.choice(others) if others and "{other}" in line else ""
        return capital(line.format_map(_fields(scene) | {"other": other, "quote": quote}))

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability


def caption_picture(scene: Scene, text: str) -> str:
    """Describe a picture for a post."""
    scene_of = phrase(plain(gist(text)), MAX_CAPTION)
    return f"{scene.topic}: {scene_of}" if scene.topic else scene_of


def _fields(scene: Scene) -> dict[str, str]:
    return {
        "me": scene.me,
        "last": scene.last or "",
        "topic": scene.topic or "this",
        "human": scene.human or "",
        "asker": scene.asker,
    }


def _sayable(lines: Sequence[str], scene: Scene) -> list[str]:
    """Leave out lines with {last} if there is no previous speaker."""
    return [line for line in lines if scene.last or "{last}" not in line]
