"""TurnState: checkpoints, cancellation, usage.

Cancel a turn from outside: a person stops it, or its hook runs out of time.

How far a turn came, kept in its record step by step, so that another process continues it after a crash.

    begun → answered (the decision and what it cost) → drawn → posted → done

A decision that was kept is not asked for again. The post that follows it may have been made when the process died: a
continued turn looks for its own posts before it makes them. Costs are kept too, and booked once, when the turn ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from agentic.agent.events import read_begun
from agentic.agent.limits import TurnSpending, read_under_way
from agentic.chat.outlet import CannotPost
from agentic.llm.types import Picture, Source, Usage
from agentic.state.limits import TurnRequest, Verdict
from agentic.state.rooms import Room
from agentic.state.turns import Checkpoint, Claim
from agentic.turn.decision import Decision, as_json
from agentic.turn.trace import TurnTrace
from agentic.wire.reasons import TurnOver

log = logging.getLogger(__name__)


class Cancellation:
    """Cancel one turn. `reason`, one of agent_cogs.events.REASONS, is set once it is cancelled."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._scope: asyncio.Timeout | None = None

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Limit what runs inside to these seconds, to none once it is cancelled.

        Raises TurnOver with `reason` or "deadline". A TimeoutError of something inside passes as it is.
        """
        if self.reason is not None:
            raise TurnOver(self.reason)
        limit = asyncio.timeout(seconds)
        try:
            async with limit as self._scope:
                try:
                    yield
                finally:
                    self._scope = None
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TurnOver(self.reason or "deadline") from error

    def cancel(self, reason: str) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())


T = TypeVar("T")


class Checkpoints(Protocol):
    """A store of progress; agentic.state.turns is the one in Redis."""

    async def checkpoint(self, agent: str, turn_id: str, name: Checkpoint, text: str) -> bool: ...


class PictureStore(Protocol):
    """A store of pictures until they are posted; agentic.state.turns is the one in Redis."""

    async def keep(self, agent: str, turn_id: str, data: bytes) -> bool: ...
    async def read(self, agent: str, turn_id: str, size: int) -> bytes | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The outcome of a turn, with a `reason` where it did nothing, or less than was decided. `written`: its text is for
    the coordinator, and is posted nowhere."""

    text: str | None = None
    written: bool = False
    message_id: int | None = None
    message_ids: tuple[int, ...] = ()  # all of a text that was too long for one
    picture_url: str | None = None
    image_prompt: str | None = None
    emoji: str | None = None
    reacted_to: int | None = None
    end_conversation: bool = False
    topic: str | None = None
    answers: int | None = None  # in a conversation: the newest message of a person that it answers
    leaves: bool = False  # in a room: for good
    next_agent: str | None = None  # the key of the agent that it names as the next
    reason: str | None = None

    @property
    def nothing(self) -> bool:
        return self.message_id is None and self.emoji is None and not self.written


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A turn's record beyond its result."""

    model: str = ""  # provider/model
    entries: int = 0  # messages that were read
    seconds: float = 0.0
    guild_id: int | None = None
    asked_by: int | None = None  # a person
    posted: tuple[int, ...] = ()  # messages, in order


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """A decision as it is kept: its JSON, its sources, what the turn had cost by then, and the kept picture's length
    (`drawn`, in bytes) and type."""

    text: str
    sources: tuple[Source, ...] = ()
    usage: Usage = field(default_factory=Usage)
    drawn: int = 0
    media_type: str = ""


_ANSWER: TypeAdapter[KeptAnswer] = TypeAdapter(KeptAnswer)
_DONE: TypeAdapter[Done] = TypeAdapter(Done)


class Progress:
    """The progress of one turn. `continued`: an earlier run of the program began it; its posts would be behind the
    message `after`."""

    def __init__(self, store: Checkpoints, pictures: PictureStore, agent: str, turn_id: str) -> None:
        self._store, self._pictures, self._agent, self._turn_id = store, pictures, agent, turn_id
        self.continued = False
        self.lost = False  # another process has taken the turn over
        self.request: TurnRequest | None = None  # to the limits, in the step that claimed it
        self.verdict: Verdict | None = None
        self.admitted = False  # by this process
        self.closing = False  # it was admitted as its conversation's last turn
        self.spending = TurnSpending(partial(self._keep, "under_way"))
        self.after: int | None = None
        self.answer: KeptAnswer | None = None
        self.done = Done()  # what can be seen of the turn so far
        self.room: Room | None = None  # as it stood when the turn was admitted
        self.facts = Facts()  # complete when it has ended
        self.trace = TurnTrace()  # of this process's part of the turn

    def take_over(self, left: Claim) -> Progress:
        """Take over the progress that another process kept."""
        self.continued = True
        self.after = read_begun(left.event).after
        self.closing = bool(left.closing)
        self.answer = _read(_ANSWER, left.answer)
        self.done = _read(_DONE, left.posted) or Done()
        self.spending.total = read_under_way(left.under_way) or (self.answer.usage if self.answer else Usage())
        return self

    def begin(self, request: TurnRequest | None, verdict: Verdict | None) -> Progress:
        """Begin a new turn, with the limits' verdict where they were asked in the step that claimed it."""
        self.request, self.verdict = request, verdict
        if request is not None and request.budget is not None and verdict in ("ok", "closing"):
            self.spending.foreseen = request.budget.estimate
        return self

    @property
    def posted(self) -> bool:
        return self.done.message_id is not None

    def note(self, done: Done) -> None:
        """Note what can be seen by now, in this process alone."""
        self.done = done

    async def keep_closing(self) -> None:
        """The turn is its conversation's last one. Raises CannotPost as `keep_answer` does."""
        self.closing = True
        await self._keep("closing", "1")

    async def keep_answer(self, decision: Decision, sources: tuple[Source, ...]) -> None:
        """The model has answered, and nothing is posted yet. Raises CannotPost where another process has the turn."""
        await self._keep_answer(KeptAnswer(text=as_json(decision), sources=sources, usage=self.spending.total))

    async def keep_picture(self, picture: Picture) -> None:
        """The picture is drawn. Raises CannotPost as `keep_answer` does."""
        if self.answer is None:
            return
        kept = await self._pictures.keep(self._agent, self._turn_id, picture.data)
        drawn, media_type = (len(picture.data), picture.media_type) if kept else (0, "")
        await self._keep_answer(replace(self.answer, usage=self.spending.total, drawn=drawn, media_type=media_type))

    async def kept_picture(self) -> Picture | None:
        """The picture of an earlier run; None where it drew none, or the picture is lost."""
        if self.answer is None or not self.answer.drawn:
            return None
        data = await self._pictures.read(self._agent, self._turn_id, self.answer.drawn)
        return Picture(data, self.answer.media_type) if data is not None else None

    async def keep_posted(self) -> None:
        """All is posted, and something is left to do. Raises CannotPost as `keep_answer` does."""
        await self._keep("posted", _DONE.dump_json(self.done, exclude_defaults=True).decode())

    async def _keep_answer(self, answer: KeptAnswer) -> None:
        self.answer = answer
        await self._keep("answer", _ANSWER.dump_json(answer, exclude_defaults=True).decode())

    async def _keep(self, name: Checkpoint, text: str) -> None:
        self.lost = not await self._store.checkpoint(self._agent, self._turn_id, name, text)
        if self.lost:
            raise CannotPost("not_ours")


def _read(kind: TypeAdapter[T], text: str | None) -> T | None:
    try:
        return kind.validate_json(text) if text else None
    except ValidationError as error:
        log.warning("a turn's kept progress cannot be read and is ignored: %d errors", error.error_count())
        return None
