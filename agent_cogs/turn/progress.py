"""How far a turn came, kept in its record step by step, so that a turn that a crash cut off goes on from there.

    begun → answered (the model's answer and what it cost) → drawn → posted → done

An answer that was kept is not asked for again. What follows it, the post, may have been made when the process died: a
turn that goes on looks for its own posts before it makes them. Costs stand in what is kept, and are booked at the end,
once, by whoever ends the turn.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from agent_chat.outlet import CannotPost
from agent_cogs.limits.cost_estimate import read_under_way, under_way
from agent_cogs.turn.event_codec import read_begun
from agent_llm.types import Picture, Reply, Source, Usage
from agent_protocol.turns.limits import TurnRequest, Verdict
from agent_protocol.turns.turns import Checkpoint, Claim

T = TypeVar("T")

log = logging.getLogger(__name__)


class Checkpoints(Protocol):
    """Where progress is kept; agent_protocol.turns.turns is the one in Redis."""

    async def checkpoint(self, agent: str, turn_id: str, name: Checkpoint, text: str) -> bool: ...


class PictureStore(Protocol):
    """Where pictures are kept that are not posted yet; agent_protocol.turns.drawn_images is the one in Redis."""

    async def keep(self, agent: str, turn_id: str, data: bytes) -> bool: ...
    async def read(self, agent: str, turn_id: str, size: int) -> bytes | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a turn did; with a `reason` where it did nothing, or less than it wanted."""

    text: str | None = None
    message_id: int | None = None
    message_ids: tuple[int, ...] = ()  # all of a text that was too long for one
    picture_url: str | None = None
    image_prompt: str | None = None
    emoji: str | None = None
    reacted_to: int | None = None
    end_conversation: bool = False
    topic: str | None = None
    reason: str | None = None

    @property
    def nothing(self) -> bool:
        return self.message_id is None and self.emoji is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a turn's record says of it and its result does not."""

    model: str = ""  # provider/model
    entries: int = 0  # how many messages were read
    seconds: float = 0.0
    guild_id: int | None = None
    asked_by: int | None = None  # the person behind it
    posted: tuple[int, ...] = ()  # messages, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model answered, what the turn had cost by then, and what is kept of its picture (`drawn` bytes)."""

    text: str
    sources: tuple[Source, ...] = ()
    usage: Usage = field(default_factory=Usage)
    drawn: int = 0
    media_type: str = ""

    def reply(self) -> Reply:
        return Reply(text=self.text, sources=self.sources)


_ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)
_DONE: TypeAdapter[Done] = TypeAdapter(Done)


class Progress:
    """One turn's. `going_on` where an earlier run began it; `after` is the message behind which its posts would be."""

    def __init__(self, store: Checkpoints, pictures: PictureStore, agent: str, turn_id: str) -> None:
        self._store, self._pictures, self._agent, self._turn_id = store, pictures, agent, turn_id
        self.going_on = False
        self.lost = False  # another process has taken the turn over
        self.asked: TurnRequest | None = None  # of the limits, in the step that claimed it, and what they said
        self.verdict: Verdict | None = None
        self.closing = False  # it was let in as its conversation's last turn
        self.foreseen = 0.0  # US dollars: what the turn comes to by its record, with the call that is made
        self.spent = Usage()  # by earlier runs
        self.after: int | None = None
        self.answer: Answer | None = None
        self.done = Done()  # what can be seen of the turn so far
        self.facts = Facts()  # known when it has ended

    def go_on(self, left: Claim) -> Progress:
        """Takes over what another process kept of the turn."""
        self.going_on = True
        self.after = read_begun(left.event).after
        self.closing = bool(left.closing)
        self.answer = _read(_ANSWER, left.answer)
        self.done = _read(_DONE, left.posted) or Done()
        self.spent = read_under_way(left.under_way) or (self.answer.usage if self.answer else Usage())
        return self

    def begin(self, ask: TurnRequest | None, verdict: Verdict | None) -> Progress:
        """A new turn, and what the limits said where they were asked in the step that claimed it."""
        self.asked, self.verdict = ask, verdict
        if ask is not None and ask.wish is not None and verdict in ("ok", "closing"):
            self.foreseen = ask.wish.estimate
        return self

    @property
    def posted(self) -> bool:
        return self.done.message_id is not None

    def note(self, done: Done) -> None:
        """What can be seen by now; kept in this process."""
        self.done = done

    async def keep_closing(self) -> None:
        """The turn is its conversation's last one. Raises CannotPost as `keep_answer` does."""
        self.closing = True
        await self._keep("closing", b"1")

    async def foresee(self, usage: Usage) -> None:
        """A call is about to be made, with which the turn comes to this: whoever goes on with it after a crash charges
        it. Raises CannotPost as `keep_answer` does."""
        self.foreseen = usage.cost_usd
        await self._keep("under_way", under_way(usage).encode())

    async def keep_answer(self, reply: Reply, usage: Usage) -> None:
        """The model has answered, and nothing is posted yet. Raises CannotPost for a turn that is not ours any more."""
        self.answer = Answer(text=reply.text, sources=reply.sources, usage=usage)
        await self._keep("answer", _ANSWER.dump_json(self.answer, exclude_defaults=True))

    async def keep_picture(self, picture: Picture, usage: Usage) -> None:
        """The picture is drawn, and the turn has cost that more. Raises CannotPost as `keep_answer` does."""
        if self.answer is None:
            return
        kept = await self._pictures.keep(self._agent, self._turn_id, picture.data)
        drawn, media_type = (len(picture.data), picture.media_type) if kept else (0, "")
        self.answer = replace(self.answer, usage=usage, drawn=drawn, media_type=media_type)
        await self._keep("answer", _ANSWER.dump_json(self.answer, exclude_defaults=True))

    async def kept_picture(self) -> Picture | None:
        """What an earlier run drew; None where it drew nothing, or what it drew is lost."""
        if self.answer is None or not self.answer.drawn:
            return None
        data = await self._pictures.read(self._agent, self._turn_id, self.answer.drawn)
        return Picture(data, self.answer.media_type) if data is not None else None

    async def keep_posted(self) -> None:
        """All is posted, and something is left to do. Raises CannotPost as `keep_answer` does."""
        await self._keep("posted", _DONE.dump_json(self.done, exclude_defaults=True))

    async def _keep(self, name: Checkpoint, text: bytes) -> None:
        self.lost = not await self._store.checkpoint(self._agent, self._turn_id, name, text.decode())
        if self.lost:
            raise CannotPost("not_ours")


def _read(kind: TypeAdapter[T], text: str | None) -> T | None:
    try:
        return kind.validate_json(text) if text else None
    except ValidationError as error:
        log.warning("what a turn kept cannot be read: %d errors", error.error_count())
        return None
