"""A model without a key: the Model interface over prepared lines.

It reads only a prompt's labels, never its text, so messages cannot control it, and answers with the decision JSON of
agentic.turn.decision. Its tokens are estimated, its cost is 0.

An answer depends on the labels, on what the voice has said before, and on chance. A reply names the last two in its
label `voice`: a prompt that has this label gets the same answer again, from any voice of the agent (agentic.replay).

A voice cannot look anything up, and says so: what it posts unprompted only shows when and how such a message comes.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from agentic.llm.pricing import tokens_of
from agentic.llm.types import Drawing, Message, Picture, Prompt, Reply, Usage
from agentic.local.voices.composing import Composer, draw_png
from agentic.local.voices.debating import END, Debater, read_topic
from agentic.local.voices.scene import PERSONAS, Marks, RoomScene, Scene, UsedLines, Words, new_room_lines
from agentic.local.voices.wording import capital, gist, phrase, plain
from agentic.themes import theme_named
from agentic.turn.form import Decision, as_json

if TYPE_CHECKING:
    from agentic.local.voices.answering import Answers


MAX_TOPICS = 5
MAX_QUOTE = 90  # characters
MAX_CAPTION = 160
SKIP = 0.12
REACT = 0.2
ONLY_REACT = 0.04
DRAW = 0.06  # in themes with occasional pictures
FIRST_ENDING_ROUND = 4
ENDING_STEP = 0.12  # added in each round from then on
MAX_ENDING = 0.9
STATE = "voice"  # the label that a recorded answer is given again by


class ScriptedVoice:
    """Speaks for `agent` from prepared lines. `delay` returns the seconds that an answer takes; None: no delay.

    `remedy` tells people, now and then, what to do for a model's answer: "set ANTHROPIC_API_KEY and Claude answers
    itself".
    """

    def __init__(
        self,
        agent: str,
        *,
        rng: random.Random,
        delay: Callable[[], float] | None = None,
        can_draw: bool = True,
        remedy: str = "",
        marks: str = "",
        answered: Mapping[str, int] | None = None,
        rooms: Callable[[str], Marks] | None = None,
    ) -> None:
        """`rooms` is shared with the other voices. `marks` and `answered`: the lines that it has said, and the number
        of its answers by the name of who asked, both as its label `voice` has them."""
        self.name = f"scripted/{agent}"
        self._agent, self._seeds, self._delay = agent, rng, delay
        self.can_draw = can_draw
        self.free = True
        self._rng = random.Random()  # seeded for each answer
        self._marks, self._remedy = marks, remedy
        self._said = UsedLines(self._rng, marks)
        self._rooms = rooms or new_room_lines()
        self._composer = Composer(agent, self._rng, self._said)
        self._answered = Counter(answered or {})

    @cached_property
    def _answers(self) -> Answers:
        """Imported once a person speaks: its patterns take a start that nobody talks to 40 ms."""
        from agentic.local.voices.answering import Answers

        return Answers(self._agent, self._rng, self._said, self._remedy, self._answered)

    async def complete(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        """Answer with a decision as JSON. Without labels the prompt's text counts as a question."""
        prompt = Prompt.of(prompt)
        await self._think(prompt.timeout)
        labels = prompt.labels or {"asked": prompt.text}
        scene = Scene(labels, me=self._agent.capitalize())
        if state := labels.get(STATE):  # a voice as it was before that answer
            was = json.loads(state)
            voice = ScriptedVoice(
                self._agent, rng=self._seeds, remedy=was["remedy"], marks=was["said"], answered=was["answered"]
            )
        else:  # a new seed; the label names no person whom the scene does not name
            answered = {name: self._answered[name] for name in (scene.asker, scene.human or "", "")}
            said = self._said if scene.room is None else self._said_in(scene.room)
            was = {"seed": self._seeds.getrandbits(64), "said": said.marks, "remedy": self._remedy}
            was["answered"] = {name: times for name, times in answered.items() if times}
            state, voice = json.dumps(was), self
        if labels.get("reflection"):
            text = written(labels)
        else:
            voice._rng.seed(was["seed"])
            text = as_json(voice._decide(scene))
        read = len(prompt.system) + len(prompt.text) + sum(len(message.text) for message in history)
        usage = Usage(model=self.name, calls=1, input_tokens=tokens_of(read), output_tokens=tokens_of(len(text)))
        return Reply(text=text, usage=usage, model=self.name, labels={STATE: state})

    def _said_in(self, room: RoomScene) -> UsedLines:
        return UsedLines(self._rng, self._marks, self._rooms(room.topic))

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        """Draw a picture that depends only on the words."""
        await self._think(timeout)
        picture = Picture(draw_png(prompt, self._agent), "image/png")
        return Drawing(picture=picture, usage=Usage(model=self.name, calls=1, pictures=1), model=self.name)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    async def _think(self, seconds: float) -> None:
        if self._delay is not None:
            await asyncio.sleep(min(self._delay(), seconds))

    def _decide(self, scene: Scene) -> Decision:
        if scene.room is not None:
            return self._in_room(scene, scene.room)
        match scene.trigger:
            case "starter":
                return self._say(scene, self._composer.opening(scene))
            case "mention" | "call":
                return self._say(scene, self._answers.to_asker(scene))
            case "continue":
                return self._say(scene, self._composer.turn(scene) or Words(self._composer.farewell(scene)))
            case "errand":
                words = self._answers.to_task(scene) if scene.query is None else Words(news(scene.query))
                return self._say(scene, words)
            case "reactive":
                return self._react(scene, self._say(scene, self._answers.joining(scene)))
        return self._round(scene)

    def _round(self, scene: Scene) -> Decision:
        if scene.human:
            return self._react(scene, self._say(scene, self._answers.to_human(scene)))
        if self._rng.random() < SKIP:
            return Decision(skip=True)
        if scene.last_message_id and scene.round > 1 and self._rng.random() < ONLY_REACT:
            return Decision(react_emoji=self._composer.emoji(scene), react_to_message_id=scene.last_message_id)
        ending = self._rng.random() < wish_to_end(scene.round)
        return self._react(scene, self._say(scene, self._composer.turn(scene, ending=ending), ending=ending))

    def _in_room(self, scene: Scene, room: RoomScene) -> Decision:
        """A turn in a room. A bot speaks as in any conversation, on the room's topic."""
        # A person is answered, unless the debate itself answers better.
        if room.take_up and (self._agent in PERSONAS or self._answers.is_set_piece(room.take_up)):
            heard = scene.copy_with(human=room.taken_up_by, human_said=room.take_up)
            return self._say(scene, self._answers.to_human(heard))
        if self._agent in PERSONAS:
            return self._round_in_room(scene, room)
        debater = Debater(self._agent, scene, room, self._rng, self._said_in(room))
        section, text = debater.speech()
        if room.take_up:
            text = self._answers.noted(Words(text), room.taken_up_by).text
        decision = Decision(
            skip=not text,
            text=text or None,
            end_conversation=section == "last" and not room.closing,
            leave=section == "leave",
            next_speaker=debater.next_speaker(),
        )
        return self._react(scene, decision, debater.emoji)

    def _round_in_room(self, scene: Scene, room: RoomScene) -> Decision:
        composer = Composer(self._agent, self._rng, self._said_in(room))
        about = scene.copy_with(topic=read_topic(room.topic).it)
        if room.turn == 1:
            return self._say(about, composer.opening(scene.copy_with(topic=read_topic(room.topic).name)))
        last = room.closing or room.left == 0
        ending = last or (room.left < len(room.members) and self._rng.random() < END)
        words = composer.turn(about, ending=ending) or Words(composer.farewell(about))
        decision = self._react(about, self._say(about, words, ending=ending and not last))
        others = [name for name in room.members if name != scene.me]
        return replace(decision, next_speaker=self._rng.choice(others) if room.names_next and others else None)

    def _say(self, scene: Scene, words: Words | None, *, ending: bool = False) -> Decision:
        if words is None:
            return Decision(skip=True)
        theme = theme_named(scene.theme)
        picture = words.picture
        if picture is None and (theme.always_draw or (theme.maybe_draw and self._rng.random() < DRAW)):
            caption = phrase(plain(gist(words.text)), MAX_CAPTION)
            picture = f"{scene.topic}: {caption}" if scene.topic else caption
        return Decision(
            text=words.text,
            generate_image=picture is not None,
            image_prompt=picture,
            end_conversation=ending,
            topic=words.topic,
        )

    def _react(self, scene: Scene, decision: Decision, emoji: Callable[[], str] | None = None) -> Decision:
        """Sometimes add a reaction to the last message."""
        if decision.skip or scene.last_message_id is None or self._rng.random() >= REACT:
            return decision
        chosen = emoji() if emoji is not None else self._composer.emoji(scene)
        return replace(decision, react_emoji=chosen, react_to_message_id=scene.last_message_id)


def wish_to_end(round_number: int) -> float:
    """The probability (0 to 1) that a voice asks to end in this round."""
    return min(MAX_ENDING, ENDING_STEP * max(0, round_number - FIRST_ENDING_ROUND + 1))


def written(labels: Mapping[str, str]) -> str:
    """The text of the task in the label `reflection`: a summary, or a person's topics, one a line."""
    parts = (line.strip().partition(": ") for line in labels.get("material", "").splitlines())
    said = [(name, plain(text)) for name, colon, text in parts if colon]
    if labels.get("reflection") == "profile":
        # The words that stand out most often, the longer ones first among equals.
        texts = (text for name, text in said if name == labels.get("person"))
        counts = Counter(word.lower() for text in texts for word in read_topic(text).words)
        ranked = sorted(counts, key=lambda word: (-counts[word], -len(word), word))
        return "\n".join(capital(word) for word in ranked[:MAX_TOPICS]) or "none"
    if not said:
        return "Nothing was said."
    (first, began), (last, ended) = said[0], said[-1]
    others = [name for name in dict.fromkeys(name for name, _ in said) if name != first]
    whom = f" with {' and '.join(others)}" if others else ""
    closing = f" Last {last} said: “{phrase(ended, MAX_QUOTE)}”." if len(said) > 1 else ""
    return f"{first} talked{whom} about “{phrase(began, MAX_QUOTE)}”.{closing}"


def news(query: str) -> str:
    """A line about what a model would have looked up."""
    subject = phrase(plain(query), MAX_QUOTE) or "what you like to talk about"
    return f"About “{subject}”: this is where I would say what is new. A scripted voice cannot look it up, a model can."
