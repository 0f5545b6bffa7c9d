"""The one path that every turn walks:

    event → limits → context → model → decision → actions → result

`take_turn` knows an agent and an outlet, never a cog or a bot user. It ends in exactly one Result, whatever happens on
the way; the reasons of results that posted nothing are in REASONS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace

from agent_chat.outlet import CannotPost, Outlet, Posted
from agent_cogs.agent import Agent
from agent_cogs.answer.decision import UnreadableDecision
from agent_cogs.events import LONGEST_TURN, MentionEvent, TurnEvent, TurnOver
from agent_cogs.limits.reply_throttle import EVERYBODY
from agent_cogs.limits.usage import TurnSpending
from agent_cogs.prompt.model_call import ModelCall
from agent_cogs.prompt.question import wording
from agent_cogs.prompt.tools import belongs_to
from agent_cogs.prompt.view import TurnView, ViewBuilder
from agent_cogs.turn.actions import Deed, act
from agent_cogs.turn.admission import ask_of, obstacle, withdrawn
from agent_cogs.turn.cancellation import Brake
from agent_cogs.turn.failure_replies import MEANINGS, error_line, excuse
from agent_cogs.turn.progress import Done, Facts, Progress
from agent_cogs.turn.result import log_turn, result_of
from agent_llm.errors import ModelError, Refused, SessionLost
from agent_protocol.wire.messages import Result

WITHDRAW_SECONDS = 10.0  # the person who waits hears of the failure after it

LetIn = Callable[[], Awaitable[None]]

_FAILURES: Mapping[type[ModelError], str] = {Refused: "refused", SessionLost: "session_lost"}


log = logging.getLogger(__name__)


async def no_op() -> None:
    """For turns around which nothing happens."""


async def take_turn(
    agent: Agent,
    outlet: Outlet,
    event: TurnEvent,
    progress: Progress,
    brake: Brake | None = None,
    on_admitted: LetIn = no_op,
) -> Result:
    """Take the turn, or continue it, and say how it ended; `brake` ends it early. `on_admitted` is awaited when no
    limit stands against the turn, before anything is read.

    Raises nothing but CancelledError.
    """
    began = agent.clock()
    spending = _spent(agent, progress)
    turn = _Turn(agent, outlet, event, spending, progress, on_admitted)
    brake = brake or Brake()
    done = await _ended(turn, min(event.deadline - began, LONGEST_TURN), brake)
    if brake.reason is not None and done.nothing:
        done = Done(reason=brake.reason)
    if done.message_id is None:
        await _taken_back(turn)
    said = None
    if done.nothing and done.reason is not None and isinstance(event, MentionEvent) and event.by_person:
        said = await _excused(agent, outlet, event, done.reason, turn.trouble)
    seconds = agent.clock() - began
    progress.facts = turn.facts(seconds, said.message_ids if said else done.message_ids)
    # Whoever waits for the result need not wait for the log.
    asyncio.get_running_loop().call_soon(log_turn, agent.key, event, done, spending, seconds)
    return result_of(agent.key, event.id, done, spending)


async def _taken_back(turn: _Turn) -> None:
    """What has grown of an answer that came to nothing does not stay, nor what an earlier run has left of it."""
    if not turn.event.forced or not (turn.progress.going_on or turn.eyes.options().stream):
        return
    try:
        async with asyncio.timeout(WITHDRAW_SECONDS):
            await turn.outlet.sink.withdraw(turn.event.id, turn.progress.after)
    except TimeoutError:
        log.warning("channel %d: half an answer could not be taken back in time", turn.event.channel_id)


async def _excused(agent: Agent, outlet: Outlet, event: MentionEvent, reason: str, line: str | None) -> Posted | None:
    """At most one line for a person in a channel and minute; of a rest only one is said in a channel. What a sign means
    is said to each person once, and in a channel once a minute: a crowd would hold the answers back."""
    channel_id, person = who = (event.channel_id, event.asked.speaker.id)
    quiet = agent.reply_throttle.recently(*who) or (
        reason == "benched" and not agent.model.backoff.first_notice_in(channel_id)
    )
    known = agent.sign_throttle.recently(channel_id, person, reason) or agent.reply_throttle.recently(
        channel_id, EVERYBODY
    )
    explains = reason in MEANINGS and not quiet and not known
    if explains:  # before anything is awaited: others ask meanwhile
        agent.sign_throttle.note(channel_id, person, reason)
        agent.reply_throttle.note(channel_id, EVERYBODY)
    said = await excuse(outlet.sink, event, reason, line=line, quiet=quiet, explains=explains)
    if said is not None:
        agent.reply_throttle.note(*who)
    return said


def given_up(agent: Agent, event: TurnEvent, progress: Progress, reason: str) -> Result:
    """The result of a turn that is not gone on with: what can be seen of it, and what it has cost so far."""
    done, spending = replace(progress.done, reason=reason), _spent(agent, progress)
    progress.facts = Facts(model=spending.total.model, posted=done.message_ids)
    log_turn(agent.key, event, done, spending, 0.0)
    return result_of(agent.key, event.id, done, spending)


def _spent(agent: Agent, progress: Progress) -> TurnSpending:
    """What an earlier run spent on the turn counts with what this one spends."""
    spending = TurnSpending(agent.costs, agent.key, agent.today())
    spending.add(progress.spent)
    return spending


async def _ended(turn: _Turn, seconds: float, brake: Brake) -> Done:
    """Every way in which a turn can end, as what it did."""
    try:
        if seconds <= 0:
            raise TurnOver("deadline")
        async with brake.within(seconds):
            return await turn.walk()
    except TurnOver as over:
        return replace(turn.progress.done, reason=over.reason)
    except TimeoutError:
        return replace(turn.progress.done, reason=brake.reason or "deadline")
    except UnreadableDecision as error:
        log.warning("%s: no decision in the model's answer: %s", turn.agent.key, error.reason)
        return Done(reason="unreadable")
    except ModelError as error:
        log.warning("%s: %s", turn.agent.key, error)
        reason = _FAILURES.get(type(error), "model_failed")
        turn.trouble = error_line(error) if reason == "model_failed" else None
        return Done(reason=reason)
    except CannotPost as error:
        return replace(turn.progress.done, reason=error.reason)
    except Exception as error:
        # The outermost edge of a turn: whoever gave it is owed a result.
        turn.trouble = error_line(error)
        log.exception("%s: turn %s failed", turn.agent.key, turn.event.id)
        return replace(turn.progress.done, reason="internal_error")


class _Turn:
    """The steps in their order; what they share."""

    def __init__(
        self,
        agent: Agent,
        outlet: Outlet,
        event: TurnEvent,
        spending: TurnSpending,
        progress: Progress,
        on_admitted: LetIn = no_op,
    ) -> None:
        self.on_admitted = on_admitted
        self.agent, self.outlet, self.event, self.spending, self.progress = agent, outlet, event, spending, progress
        self.can_draw = agent.model.can_draw and outlet.sink.may_attach
        self.eyes = ViewBuilder(agent, outlet, event, can_draw=self.can_draw)
        self.trouble: str | None = None  # what a person is told of it, where more is known than the reason
        self.closing = False  # the conversation's last turn: there is no money for another
        self.estimate = 0.0  # of one call, in US dollars
        self.read = 0  # messages
        self.wording: str | None = None  # what was asked, as it was read
        self.asked_by = event.person_id
        self.seen: int | None = None  # the newest message when it began to think, where a newer one is given way to

    def facts(self, seconds: float, posted: tuple[int, ...]) -> Facts:
        """For the turn's record, when it has ended."""
        tariff = self.agent.model.tariff
        return Facts(
            model=self.spending.total.model or f"{tariff.provider}/{tariff.model}",
            entries=self.read,
            seconds=seconds,
            guild_id=self.outlet.view.guild_id,
            asked_by=self.asked_by,
            posted=posted,
        )

    async def walk(self) -> Done:
        self._check_question()
        await self._admit()
        with self.outlet.sink.typing() if self.event.forced else nullcontext():
            await self.on_admitted()
            sight = await self._look()
            self._check_question()
            decision, reply = await self._mind().decide(sight)
            self._check_question()
            if await self._is_reworded():
                sight = await self._look()
                decision, reply = await self._mind().decide(sight)
            if decision.is_empty:
                await self._give_back()
                raise TurnOver("budget" if self.closing else "skipped")
            self._check_question()
            if self.progress.answer is None:
                await self.progress.keep_answer(reply, self.spending.total)
            self._check_overtaken()
            self._check_clock()
            split_at = sight.options.split_at
            deed = Deed(decision=decision, sources=reply.sources, target=sight.context.target, split_at=split_at)
            done = await act(self.agent, self.outlet, self.event, deed, self.spending, self.progress)
            belongs_to(self.agent, self.event, done.message_id)
            return replace(done, reason="budget") if self.closing else done

    def _check_question(self) -> None:
        if withdrawn(self.event, self.outlet):
            raise TurnOver("withdrawn")

    async def _is_reworded(self) -> bool:
        """Whether the question was changed while the agent thought about it, and there is time and money to think of
        it as it reads now. What has grown of the first answer is taken back."""
        reads = wording(self.event, self.outlet.view.transcript)
        if self.progress.answer is not None or reads == self.wording or not await self._mind().may_ask_again():
            return False
        log.info("%s: asking once more, the question was changed", self.agent.key)
        await _taken_back(self)
        return True

    def _check_clock(self) -> None:
        """A machine that slept, or a clock that was set, ends no timer: the deadline is looked at once more."""
        if self.agent.clock() >= self.event.deadline:
            raise TurnOver("deadline")

    def _check_overtaken(self) -> None:
        """Words that pass by what a person has just said are not posted; the next turn hears the person."""
        if self.seen is not None and self.outlet.view.transcript.person_spoke_after(self.seen):
            raise TurnOver("overtaken")

    async def _admit(self) -> None:
        agent, outlet, progress = self.agent, self.outlet, self.progress
        if progress.going_on:  # it was let in when it began
            if (refusal := outlet.sink.refusal()) is not None:
                raise TurnOver(refusal)
            self.closing = progress.closing
            resumed = ask_of(agent, outlet, self.event)
            agent.limits.resume(resumed, self.spending.total.cost_usd)
            self.estimate = resumed.wish.estimate if resumed.wish else 0.0
            return
        ask, verdict = progress.asked, progress.verdict
        if ask is None or verdict is None:
            if (reason := obstacle(agent, outlet)) is not None:
                raise TurnOver(reason)
            ask = ask_of(agent, outlet, self.event)
            verdict = await agent.limits.take(ask)
        if verdict not in ("ok", "closing"):
            raise TurnOver(verdict)
        self.closing, self.estimate = verdict == "closing", ask.wish.estimate if ask.wish else 0.0
        if self.closing:
            await self.progress.keep_closing()

    async def _give_back(self) -> None:
        if self.event.cools_down:
            await self.agent.limits.release_cooldown(self.event.channel_id)

    async def _look(self) -> TurnView:
        """What the agent knows when it begins to think."""
        sight = await self.eyes.look(closing=self.closing)
        self.wording = wording(self.event, self.outlet.view.transcript)
        context = sight.context
        self.read = len(context.window.entries)
        if context.trigger == "reactive" and context.target is not None and context.target.speaker.kind == "person":
            self.asked_by = context.target.speaker.id
        # What turns to a person is not given up for another one, or a lively channel would silence the bots.
        if self.agent.barge_in == "yield" and context.trigger == "round" and not context.unheard:
            self.seen = sight.newest
        return sight

    def _mind(self) -> ModelCall:
        return ModelCall(
            agent=self.agent,
            outlet=self.outlet,
            event=self.event,
            spending=self.spending,
            progress=self.progress,
            can_draw=self.can_draw,
            estimate=self.estimate,
        )
