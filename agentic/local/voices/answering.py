"""Answering people from prepared lines, and saying so.

A note under the first answer to a person, and under every sixth from then on, says that it is a prepared line. A
question that needs a model gets an answer that says that, in the persona's voice; a subject that the themes have lines
on gets one of them.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from agentic.local.voices.asking import Kind, Utterance, understand
from agentic.local.voices.lines import Topic, persona, persona_key, theme_lines, topic_in
from agentic.local.voices.memory import SaidLines
from agentic.local.voices.phrases import capital, first_sentence, phrase, plain
from agentic.local.voices.scene import Scene, Words

NOTE = "prepared line"
NOTE_EVERY = 6  # answers to a person
MAX_TASK = 100  # characters of an instruction

_ON_A_SUBJECT: frozenset[Kind] = frozenset({"about", "opinion"})
_ON_A_TOPIC: frozenset[Kind] = _ON_A_SUBJECT | {"unknown", "reflect", "heard"}
_SET_PIECES: frozenset[Kind] = frozenset(
    {"crisis", "sad", "sum", "draw", "joke", "choice", "thanks", "bye", "language", "who", "help", "how", "greet"}
)
_LED: frozenset[Kind] = frozenset({"reflect", "heard"})  # the other kinds' lines turn to the person by themselves


class Answers:
    """The answers of an agent. `remedy` says what to do for a real model's answer, "" for nothing; `answered` counts
    the answers by the name of who asked."""

    def __init__(self, agent: str, rng: random.Random, said: SaidLines, remedy: str, answered: Counter[str]) -> None:
        self._key, self._persona = persona_key(agent), persona(agent)
        self._rng, self._said = rng, said
        self._note = f"\n-# {NOTE}; {remedy}" if remedy else f"\n-# {NOTE}"
        self._answered = answered

    def to_asker(self, scene: Scene) -> Words:
        """Answer the person that called."""
        words = self._reply(scene, self._understood(scene, scene.asked, scene.asked_files), scene.asker)
        return words if scene.nameless else self.noted(words, scene.asker)  # the note has its name

    def to_human(self, scene: Scene) -> Words:
        """Answer the person that wrote into the conversation."""
        human = scene.human or ""
        said = self._understood(scene, scene.human_said, scene.human_files)
        words = self._reply(scene, said, human)
        if said.kind in _LED and not theme_lines(scene.theme).own_tone:
            lead = self._said.pick(self._persona["human"]).format_map(scene.fields)
            words = Words(f"{lead} {words.text.replace(f', {human}', '', 1)}")  # the lead has named them
        return self.noted(words, human)

    def is_set_piece(self, text: str) -> bool:
        """Whether a message is one that a script answers best in its own way: a greeting, a sum, a person in need."""
        return understand(text).kind in _SET_PIECES

    def joining(self, scene: Scene) -> Words | None:
        """Add to another agent's answer where that is more than a second excuse."""
        asked = self._understood(scene, scene.asked, scene.asked_files)
        topic = self._topic(asked)
        if asked.kind != "choice" and topic is None:
            return None
        words = Words(self._on(topic)) if topic else self._reply(scene, asked, scene.asker)
        if scene.last in (None, scene.asker):
            return words
        lead = self._said.pick(self._persona["join"]).format_map(scene.fields)
        return Words(f"{lead} {words.text}")

    def to_task(self, scene: Scene) -> Words | None:
        """Take up an instruction of automation; None where nobody would read it."""
        if scene.unheard:
            return None
        subject = phrase(first_sentence(plain(scene.task)), MAX_TASK)
        line = self._pick("news" if scene.news else "task", subject)
        return self.noted(Words(capital(line.format_map(scene.fields | {"x": subject}))), "")

    def _understood(self, scene: Scene, text: str, files: bool) -> Utterance:
        said = understand(text, (scene.me, *scene.others, "bots"), files=files)
        quoted_in_tone = said.kind != "reflect" or not theme_lines(scene.theme).own_tone
        return said if quoted_in_tone else replace(said, kind="heard")

    def _reply(self, scene: Scene, asked: Utterance, asker: str) -> Words:
        fields = scene.fields | {
            "asker": asker,
            "x": asked.x,
            "pick": asked.result or (self._rng.choice(asked.options) if asked.options else ""),
        }
        if (topic := self._topic(asked)) is not None:
            lead = self._pick("know").format_map(fields | {"topic": topic.name})
            return Words(f"{capital(lead)} {self._on(topic)}")
        text = capital(self._pick(asked.kind, asked.x).format_map(fields))
        return Words(text, picture=asked.x if asked.kind == "draw" else None)

    def _topic(self, asked: Utterance) -> Topic | None:
        """The topic of a theme that the message is about."""
        if asked.kind not in _ON_A_TOPIC:
            return None
        return topic_in(asked.said, asked.x if asked.kind in _ON_A_SUBJECT else "")

    def _on(self, topic: Topic) -> str:
        return self._said.pick([line for line in topic.of(self._key) if "{" not in line])

    def _pick(self, section: str, x: str = "") -> str:
        """A line that names the subject, or one for no subject."""
        lines = self._persona[section]
        fitting = [line for line in lines if ("{x}" in line or "{pick}" in line) == bool(x)]
        return self._said.pick(fitting or lines)

    def noted(self, words: Words, asker: str) -> Words:
        """Words to a person, with the note where it is due."""
        due = self._answered[asker] % NOTE_EVERY == 0
        self._answered[asker] += 1
        return Words(words.text + self._note, words.topic, words.picture) if due else words
