"""A model without a key: the Model interface over scenes and answers that were written in advance.

It reads only a prompt's labels, never its text, so messages cannot control it, and answers with the decision JSON of
agentic.turn.decision. Its tokens are estimated, its cost is 0.

An answer depends on the labels, on what the voices have said before, and on chance. A reply names the last two in its
label `voice`: a prompt that has this label gets the same answer again, from any voice of the agent (agentic.replay).
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agentic.llm.pricing import tokens_of
from agentic.llm.types import Drawing, Message, Picture, Prompt, Reply, Usage
from agentic.local.voices.drawing import draw_png
from agentic.local.voices.scenes import (
    Heard,
    Stage,
    all_phase_lines,
    answers_of,
    debate_stage,
    phase_lines,
    scene_on,
    scenes_of,
    seats,
)
from agentic.local.voices.turn import Turn
from agentic.local.voices.wording import capital, clipped, phrase, plain
from agentic.themes import theme_named
from agentic.turn.form import Decision, as_json

if TYPE_CHECKING:
    from agentic.local.voices.answering import Answers

MAX_TOPICS = 5
MAX_QUOTE = 90  # characters
MAX_CAPTION = 160
REACT = 0.2
HASTE = 0.25  # for each line of others that is due earlier: the share of turns that are taken anyway
ENDING_LINES = 2  # the last ones, which ask for the end of the conversation
DRAW = 0.06  # in themes with occasional pictures
VERDICT = "A scripted judge draws its points by lot. A judge with a model reads the debate."
STATE = "voice"  # the label that a recorded answer is given again by
_COMMON = re.compile(
    r"(?:about|after|again|also|another|because|been|before|being|both|does|each|ever|every|everyone|from|have|here|into"
    r"|just|like|many|more|most|much|must|need|never|nobody|nothing|often|only|other|over|really|same|should|some"
    r"|something|such|than|that|their|them|then|there|these|they|thing|things|think|this|those|through|under|very|what"
    r"|when|where|which|while|will|with|without|would|your)"
)


class ScriptedVoice:
    """Speaks for `agent`. `delay` returns the seconds that an answer takes; None: no delay.

    `remedy` tells people, now and then, what to do for a model's answer: "set ANTHROPIC_API_KEY and Claude answers
    itself". `heard` is shared by the voices of a process.
    """

    def __init__(
        self,
        agent: str,
        *,
        rng: random.Random,
        delay: Callable[[], float] | None = None,
        can_draw: bool = True,
        remedy: str = "",
        heard: Heard | None = None,
        answered: Mapping[str, int] | None = None,
    ) -> None:
        """`answered`: how many answers each person got."""
        self.name = f"scripted/{agent}"
        self._agent, self._seeds, self._delay = agent, rng, delay
        self.can_draw = can_draw
        self.free = True
        self._rng = random.Random()  # seeded for each answer
        self._remedy = remedy
        self._heard = Heard() if heard is None else heard
        self._answered = Counter(answered or {})

    @cached_property
    def _answers(self) -> Answers:
        """Imported once a person speaks: its patterns cost a start that nobody talks to 40 ms."""
        from agentic.local.voices.answering import Answers

        return Answers(self._agent, self._rng, self._heard, self._remedy, self._answered)

    async def complete(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        """Answer with a decision as JSON. Without labels, the prompt's text is a question."""
        prompt = Prompt.of(prompt)
        labels = prompt.labels or {"asked": prompt.text}
        turn = Turn(labels, me=self._agent.capitalize())
        if state := labels.get(STATE):  # a voice as it was before that answer
            was = json.loads(state)
            heard = Heard(was["said"])
            voice = ScriptedVoice(
                self._agent, rng=self._seeds, remedy=was["remedy"], heard=heard, answered=was["answered"]
            )
        else:  # a new seed; the label only names people of the turn
            people = (turn.asker, turn.human, *(who for who, _ in turn.taken_up), "")
            was = {"seed": self._seeds.getrandbits(64), "said": self._heard.marks, "remedy": self._remedy}
            was["answered"] = {name: times for name in people if (times := self._answered[name])}
            state, voice = json.dumps(was), self
        if labels.get("reflection"):
            text = written(labels)
            await self._think(prompt.timeout)
        elif labels.get("judge"):
            voice._rng.seed(was["seed"])
            text = verdict(prompt.schema or {}, voice._rng)
            await self._think(prompt.timeout)
        else:
            voice._rng.seed(was["seed"])
            decision = voice._decide(turn)
            text = as_json(decision)
            await self._think(0.0 if decision.skip else prompt.timeout)
        read = len(prompt.system) + len(prompt.text) + sum(len(message.text) for message in history)
        usage = Usage(model=self.name, calls=1, input_tokens=tokens_of(read), output_tokens=tokens_of(len(text)))
        return Reply(text=text, usage=usage, model=self.name, labels={STATE: state})

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

    def _decide(self, turn: Turn) -> Decision:
        if turn.trigger in ("mention", "call"):
            return self._say(turn, *self._answers.to_person(turn, turn.asker, turn.asked, files=turn.asked_files))
        if turn.trigger == "errand":
            return self._say(turn, self._answers.to_task(turn) if turn.query is None else news(turn.query))
        if turn.trigger == "reactive":
            return self._react(turn, self._say(turn, self._answers.joining(turn)))
        if turn.taken_up:
            texts, pictures = zip(*(self._answers.to_person(turn, *said) for said in turn.taken_up), strict=True)
            return self._say(turn, "\n".join(texts), next(filter(None, pictures), None))
        if turn.human and turn.human_said + "x" * turn.human_files:
            answer = self._answers.to_person(turn, turn.human, turn.human_said, files=turn.human_files)
            return self._react(turn, self._say(turn, *answer))
        return self._react(turn, self._play_phase(turn) if turn.format else self._play(turn))

    def _play_phase(self, turn: Turn) -> Decision:
        """Say the next line of this member's seat in the phase of a room's format, or repeat the oldest."""
        seated, topic = seats(turn.format, turn.sides), clipped(plain(turn.room_topic))
        scope, seat = f"{turn.format} {topic.casefold()}\n", seated.get(turn.me, "")
        names = {**{seat: name for name, seat in reversed(seated.items())}, "topic": topic}
        if turn.room_turn <= 1:
            for each in all_phase_lines(turn.format):
                self._heard.forget(scope + each.text)
        of_phase = phase_lines(turn.format, turn.phase)
        if seat == "guest":  # its answer follows the question that was asked last
            asked = self._heard.latest([scope + each.text for each in of_phase if each.seat != seat])
            at = next((n for n, each in enumerate(of_phase, 1) if scope + each.text == asked), 0)
            of_phase = of_phase[at : at + 1] or of_phase
        lines = [each.text for each in of_phase if each.fits(seat, names)]
        if not lines:  # a second member answers the other side's; without one, it takes what is left of the first's
            shared = (each.text for each in of_phase if each.fits(seat.rstrip("234"), names))
            lines = [text for text in shared if scope + text not in self._heard]
        if not lines:
            return self._say(turn, self._last_word())
        text = next((each for each in lines if scope + each not in self._heard), None)
        text = text or self._heard.pick(self._rng, [scope + each for each in lines]).removeprefix(scope)
        self._heard.add(scope + text)
        others = [name for name in turn.members if name not in (turn.me, turn.last_speaker)]
        next_speaker = others[0] if turn.names_next and others else None
        return replace(self._say(turn, text.format_map(names)), next_speaker=next_speaker)

    def _play(self, turn: Turn) -> Decision:
        """Begin a scene, or say its next line."""
        members = turn.members or (turn.me, *turn.others)
        begins = turn.trigger == "starter" or (turn.in_room and turn.room_turn <= 1)
        topic = turn.room_topic if turn.in_room else turn.topic
        if turn.in_room or (topic and scene_on(turn.theme, topic) is None):
            stage = debate_stage(topic, members, self._heard, begins=begins)
        else:
            scene = scene_on(turn.theme, topic) or self._heard.pick_scene(self._rng, scenes_of(turn.theme))
            stage, topic = Stage(scene, members, self._heard), scene.topic
        if begins and not turn.in_room:
            stage.begin()
        if turn.closing or (turn.in_room and turn.turns_left <= 0):
            return self._say(turn, self._last_word())
        line, is_free = stage.next_line(turn.me, turn.last_speaker), not begins and turn.trigger != "continue"
        if line is None:
            return Decision(skip=True) if is_free else self._say(turn, self._last_word())
        if is_free and self._rng.random() > HASTE**line.early:
            return Decision(skip=True)
        self._heard.add(line.key)
        decision = self._say(turn, line.text, topic=topic if begins else None)
        next_speaker = line.next_speaker if turn.names_next else None
        return replace(decision, end_conversation=line.left < ENDING_LINES, next_speaker=next_speaker)

    def _last_word(self) -> str:
        return self._heard.pick(self._rng, answers_of(self._agent)["last"])

    def _say(self, turn: Turn, text: str | None, picture: str | None = None, *, topic: str | None = None) -> Decision:
        if not text:
            return Decision(skip=True)
        theme = theme_named(turn.theme)
        if picture is None and (theme.always_draw or (theme.maybe_draw and self._rng.random() < DRAW)):
            caption = phrase(plain(text), MAX_CAPTION)
            picture = f"{turn.topic}: {caption}" if turn.topic else caption
        return Decision(text=text, generate_image=bool(picture), image_prompt=picture or None, topic=topic)

    def _react(self, turn: Turn, decision: Decision) -> Decision:
        """Sometimes add a reaction to the last message."""
        if decision.skip or turn.last_message_id is None or self._rng.random() >= REACT:
            return decision
        chosen = self._rng.choice(answers_of(self._agent)["emoji"])
        return replace(decision, react_emoji=chosen, react_to_message_id=turn.last_message_id)


def written(labels: Mapping[str, str]) -> str:
    """The text of the task in the label `reflection`: a summary, or a person's topics, one a line."""
    parts = (line.strip().partition(": ") for line in labels.get("material", "").splitlines())
    said = [(name, plain(text)) for name, colon, text in parts if colon]
    if labels.get("reflection") == "profile":
        # The words that stand out most often, the longer ones first among equals.
        texts = [text for name, text in said if name == labels.get("person")]
        words = (word.lower() for text in texts for word in re.findall(r"[^\W\d_]{4,}", text))
        counts = Counter(word for word in words if not _COMMON.fullmatch(word))
        ranked = sorted(counts, key=lambda word: (-counts[word], -len(word), word))
        return "\n".join(capital(word) for word in ranked[:MAX_TOPICS]) or "none"
    if not said:
        return "Nothing was said."
    (first, began), (last, ended) = said[0], said[-1]
    others = [name for name in dict.fromkeys(name for name, _ in said) if name != first]
    whom = f" with {' and '.join(others)}" if others else ""
    closing = f" Last {last} said: “{phrase(ended, MAX_QUOTE)}”." if len(said) > 1 else ""
    return f"{first} talked{whom} about “{phrase(began, MAX_QUOTE)}”.{closing}"


def verdict(schema: Mapping[str, Any], rng: random.Random) -> str:
    """A judge's answer, with points by chance for each contender and criterion of the schema."""
    asked = schema.get("properties", {}).get("scores", {}).get("properties", {})
    scores = {name: {each: rng.randint(4, 9) for each in points["properties"]} for name, points in asked.items()}
    return json.dumps({"scores": scores, "verdict": VERDICT})


def news(query: str) -> str:
    """A line about what a model would have looked up."""
    subject = phrase(plain(query), MAX_QUOTE) or "what you like to talk about"
    return f"About “{subject}”: a real model would tell you what's new. My lines are scripted, so I can't look it up."
