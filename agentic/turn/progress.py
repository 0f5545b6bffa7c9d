"""A turn and its progress, which is saved step by step so that another process can continue it after a crash:

    begun → answered (the decision and its cost) → drawn → posted → done

The model isn't asked again after its decision was saved. The process may have died right after it posted, so a
continued turn looks for its own posts before it posts. Costs are saved too, and charged once, when the turn ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from pydantic import TypeAdapter

from agentic.agent.agent import Agent
from agentic.agent.events import TurnEvent, is_writing, read_kept, read_saved_event
from agentic.agent.limits import AgentLimits, TurnSpending, read_under_way
from agentic.agent.side_calls import ModelBinding
from agentic.chat.outlet import CannotPost, Outlet
from agentic.llm.types import NO_USAGE, Picture, Source, Usage
from agentic.process.tasks import BackgroundResult
from agentic.record.notes import TurnWatcher, TurnWatchers
from agentic.state.limits import LimitRequest, Verdict
from agentic.state.rooms import Room
from agentic.state.shared_state import SharedState
from agentic.state.turns import Checkpoint, Claim
from agentic.turn.form import Decision, as_json
from agentic.turn.trace import TurnTrace
from agentic.turn.waiting import WaitingSign
from agentic.wire.reasons import TurnAborted


class Cancellation:
    """Cancel one turn from outside: a person stops it, or its hook runs out of time. Then `reason` is one of
    agentic.wire.reasons.REASONS. `has_answer`: the model has produced something."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.has_answer = False
        self._scope: asyncio.Timeout | None = None

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Limit the block to these seconds, and end it when the turn is canceled. Raises TurnAborted with `reason` or
        "deadline". A TimeoutError raised inside passes unchanged."""
        if self.reason is not None:
            raise TurnAborted(self.reason)
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
            raise TurnAborted(self.reason or "deadline") from error

    def cancel(self, reason: str) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a turn did, with a `reason` if it did nothing or less than it decided. `written`: its text is for the
    coordinator and isn't posted."""

    text: str | None = None
    written: bool = False
    message_id: int | None = None
    message_ids: tuple[int, ...] = ()  # all messages of a text that was too long for one
    picture_url: str | None = None
    image_prompt: str | None = None
    emoji: str | None = None
    reacted_to: int | None = None
    end_conversation: bool = False
    topic: str | None = None
    answers: int | None = None  # in a conversation: the newest message from a person that it answers
    leaves: bool = False  # the agent leaves the room for good
    next_agent: str | None = None  # the key of the agent it chose to speak next
    reason: str | None = None

    @property
    def is_nothing(self) -> bool:
        return self.message_id is None and self.emoji is None and not self.written


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer:
    """A decision as JSON, its sources, the turn's costs so far, and the saved picture's size (`drawn`, in bytes) and
    type."""

    text: str
    sources: tuple[Source, ...] = ()
    usage: Usage = NO_USAGE
    drawn: int = 0
    media_type: str = ""


_ANSWER: TypeAdapter[SavedAnswer] = TypeAdapter(SavedAnswer)
_DONE: TypeAdapter[Done] = TypeAdapter(Done)


class TurnState:
    """A turn's progress, and the facts for its record. If an earlier run of the program began it, it's `continued`, and
    posts of that run come after the message `after`. Methods that save raise CannotPost if another process has the
    turn."""

    def __init__(self, shared: SharedState, agent: str, turn_id: str) -> None:
        self.shared, self._agent, self._turn_id = shared, agent, turn_id
        self.continued = False
        self.lost = False  # another process has taken over the turn
        self.request: LimitRequest | None = None  # sent to the limits in the step that claimed the turn
        self.verdict: Verdict | None = None
        self.admitted = False  # by this process
        self.closing = False  # admitted as its conversation's last turn
        self.spending = TurnSpending(partial(self._save, "under_way"))
        self.after: int | None = None
        self.answer: SavedAnswer | None = None
        self.done = Done()  # the visible actions so far
        self.room: Room | None = None  # as it was when the turn was admitted
        self.trace = TurnTrace()  # of this process's part of the turn
        # for the record, complete when the turn has ended:
        self.model = ""  # provider/model
        self.entries = 0  # messages that were read
        self.seconds = 0.0
        self.guild_id: int | None = None
        self.asked_by: int | None = None  # a person
        self.posted: tuple[int, ...] = ()  # messages, in order

    def resume_from(self, left: Claim) -> None:
        """Take over the state that another process saved."""
        self.continued = True
        self.after = read_saved_event(left.event).after
        self.closing = bool(left.closing)
        self.answer = read_kept(_ANSWER, left.answer, "the answer")
        self.done = read_kept(_DONE, left.posted, "the post") or Done()
        self.spending.total = read_under_way(left.under_way) or (self.answer.usage if self.answer else Usage())

    def begin(self, request: LimitRequest | None, verdict: Verdict | None) -> None:
        """Begin a new turn; if the limits were asked in the step that claimed it, with their verdict."""
        self.request, self.verdict = request, verdict
        if request is not None and verdict in ("ok", "closing"):
            self.spending.reserved = request.estimate

    def end(self, reason: str) -> None:
        self.done = replace(self.done, reason=reason)

    async def save_closing(self) -> None:
        """Save that the turn is its conversation's last one."""
        self.closing = True
        await self._save("closing", "1")

    async def save_answer(self, decision: Decision) -> None:
        """Save the model's decision before anything is posted."""
        answer = SavedAnswer(text=as_json(decision), sources=decision.sources, usage=self.spending.total)
        await self._save_answer(answer)

    async def save_picture(self, picture: Picture) -> None:
        if self.answer is None:
            return
        kept = await self.shared.turns.drawn_images.keep(self._agent, self._turn_id, picture.data)
        drawn, media_type = (len(picture.data), picture.media_type) if kept else (0, "")
        await self._save_answer(replace(self.answer, usage=self.spending.total, drawn=drawn, media_type=media_type))

    async def load_picture(self) -> Picture | None:
        """Return the picture drawn in an earlier run; None if there is none, or it was lost."""
        if self.answer is None or not self.answer.drawn:
            return None
        data = await self.shared.turns.drawn_images.read(self._agent, self._turn_id, self.answer.drawn)
        return Picture(data, self.answer.media_type) if data is not None else None

    async def save_posted(self) -> None:
        """Save that everything is posted but something is left to do."""
        await self._save("posted", _DONE.dump_json(self.done, exclude_defaults=True).decode())

    async def _save_answer(self, answer: SavedAnswer) -> None:
        self.answer = answer
        await self._save("answer", _ANSWER.dump_json(answer, exclude_defaults=True).decode())

    async def _save(self, name: Checkpoint, text: str) -> None:
        self.lost = not await self.shared.turns.checkpoint(self._agent, self._turn_id, name, text)
        if self.lost:
            raise CannotPost("not_ours")


class TurnHooks:
    """Hooks to run before and after each turn; this class has none."""

    async def before(self, event: TurnEvent) -> None:
        del event

    async def after(self, event: TurnEvent) -> None:
        del event


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of an agent. Every step of the turn takes it."""

    agent: Agent
    outlet: Outlet
    event: TurnEvent
    state: TurnState
    hooks: TurnHooks = field(default_factory=TurnHooks)
    watcher: TurnWatcher = field(default_factory=TurnWatchers)
    cancellation: Cancellation = field(default_factory=Cancellation)
    waiting: WaitingSign = field(default_factory=WaitingSign)
    found_picture: BackgroundResult[Picture] = field(default_factory=BackgroundResult)  # looked for during a search

    @cached_property
    def model(self) -> ModelBinding:
        """The model for the channel's server, or the model that writes notes."""
        agent, guild_id = self.agent, self.outlet.view.guild_id
        return agent.model_for_notes(guild_id) if is_writing(self.event) else agent.models.for_guild(guild_id)

    @cached_property
    def limits(self) -> AgentLimits:
        """The agent's limits. For notes only the budgets apply, and the size of their prompts is learned separately."""
        limits = self.agent.limits
        return limits.budgets_alone() if is_writing(self.event) else limits
