"""The one path of every turn:

    event → limits → context → model → decision → actions → result

`take_turn` knows an agent and an outlet, never a cog or a bot user. It ends in exactly one Result, whatever happens on
the way; the reasons of results that posted nothing are in agent_cogs.events.REASONS.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace

from agentic.agent.agent import Agent, Turn
from agentic.agent.events import LONGEST_TURN, MentionEvent, ReflectionEvent, TurnEvent, is_unasked
from agentic.chat.outlet import CannotPost, Outlet
from agentic.llm.errors import ModelError, Refused, SessionLost
from agentic.turn.actions import act
from agentic.turn.admission import admit, withdrawn
from agentic.turn.cancellation import Cancellation
from agentic.turn.decide import decide, kept_decision
from agentic.turn.decision import UnreadableDecision
from agentic.turn.failure_replies import error_line, reply_to_failure
from agentic.turn.model_call import may_ask_again
from agentic.turn.progress import Done, Facts, Progress
from agentic.turn.question import wording
from agentic.turn.result import log_turn, result_of
from agentic.turn.room_turns import check_room
from agentic.turn.summary import summarise
from agentic.turn.tools import note_post
from agentic.turn.trace import Sources
from agentic.turn.unasked import check_quiet, check_unedited, check_wanted, words_alone
from agentic.turn.view import TurnView, look
from agentic.turn.words import authors
from agentic.turn.writing import check_able, write
from agentic.wire.messages import Result
from agentic.wire.reasons import TurnOver

WITHDRAW_SECONDS = 10.0  # the failure reply comes after it

OnAdmitted = Callable[[], Awaitable[None]]

_FAILURES: Mapping[type[ModelError], str] = {Refused: "refused", SessionLost: "session_lost"}

log = logging.getLogger(__name__)


async def take_turn(
    agent: Agent,
    outlet: Outlet,
    event: TurnEvent,
    progress: Progress,
    cancellation: Cancellation,
    on_admitted: OnAdmitted,
) -> Result:
    """Take the turn, or continue it, and return how it ended.

    `cancellation` ends it early. `on_admitted` is awaited once no limit forbids the turn, before anything is read.
    Raises nothing but CancelledError.
    """
    began = agent.clock()
    trace = progress.trace
    turn = Turn(agent=agent, outlet=outlet, event=event, spending=progress.spending, after=progress.after, trace=trace)
    progress.facts = Facts(guild_id=outlet.view.guild_id, asked_by=event.person_id)
    try:
        done, line = await _ended(turn, progress, cancellation, on_admitted)
    finally:
        turn.found_picture.drop()
    if cancellation.reason is not None and done.nothing:
        done = Done(reason=cancellation.reason)
    if done.nothing and progress.admitted and event.cools_down and done.reason != "not_ours":
        await agent.limits.release_cooldown(event.channel_id)  # nothing was answered, so the next question may come
    with trace.phase("posting"):
        if done.message_id is None:
            await _withdraw(turn, progress)
        reply = None
        hushed = done.reason == "muted" and isinstance(event, MentionEvent) and event.unaddressed
        if (
            done.nothing
            and done.reason is not None
            and isinstance(event, MentionEvent)
            and event.by_person
            and not hushed
        ):
            reply = await reply_to_failure(agent, outlet.sink, event, done.reason, line)
    usage, tariff, seconds = turn.spending.total, agent.model.tariff, agent.clock() - began
    progress.facts = replace(
        progress.facts,
        model=usage.model or f"{tariff.provider}/{tariff.model}",
        seconds=seconds,
        posted=reply.message_ids if reply else done.message_ids,
    )
    # The result need not wait for the log.
    asyncio.get_running_loop().call_soon(log_turn, agent.key, event, done, usage, seconds)
    return result_of(agent.key, event.id, done, usage)


def given_up(agent: Agent, event: TurnEvent, progress: Progress, reason: str, guild_id: int | None) -> Result:
    """The result of a turn that is not continued: what it has posted and cost by now. `guild_id` is its channel's, as
    far as the channel is still known."""
    done, usage = replace(progress.done, reason=reason), progress.spending.total
    progress.facts = Facts(model=usage.model, guild_id=guild_id, posted=done.message_ids)
    log_turn(agent.key, event, done, usage, 0.0)
    return result_of(agent.key, event.id, done, usage)


async def _ended(
    turn: Turn, progress: Progress, cancellation: Cancellation, on_admitted: OnAdmitted
) -> tuple[Done, str | None]:
    """Walk the path to its end, whatever that is. Returns also the line for a person, where the cause of a failure is
    known better than its reason says."""
    seconds = min(turn.event.deadline - turn.agent.clock(), LONGEST_TURN)
    line = None
    try:
        if seconds <= 0:
            raise TurnOver("deadline")
        async with cancellation.within(seconds):
            return await _walk(turn, progress, on_admitted), None
    except (TurnOver, CannotPost) as error:
        reason = error.reason
    except UnreadableDecision as error:
        log.warning("%s: no decision in the model's answer: %s", turn.agent.key, error.reason)
        return Done(reason="unreadable"), None
    except ModelError as error:
        log.warning("%s: %s", turn.agent.key, error)
        reason = _FAILURES.get(type(error), "model_failed")
        return Done(reason=reason), error_line(error) if reason == "model_failed" else None
    except Exception as error:
        # The outermost edge of a turn, which must have a result.
        log.exception("%s: turn %s failed", turn.agent.key, turn.event.id)
        reason, line = "internal_error", error_line(error)
    return replace(progress.done, reason=reason), line


async def _walk(turn: Turn, progress: Progress, on_admitted: OnAdmitted) -> Done:
    agent, outlet, event = turn.agent, turn.outlet, turn.event
    if isinstance(event, ReflectionEvent) and event.writes:
        return await _write(turn, event, progress, on_admitted)
    _check_question(turn)
    if is_unasked(event):
        await check_wanted(turn, event)
    with turn.trace.phase("waiting"):
        await admit(turn, progress)
    with outlet.sink.typing() if event.forced else nullcontext():
        with turn.trace.phase("waiting"):
            await on_admitted()
        view = _noted(turn, progress, await look(turn, closing=progress.closing))
        _check_question(turn)
        if progress.answer is not None:
            decision, sources = kept_decision(turn, view, progress.answer.text), progress.answer.sources
        else:
            decision, sources = await decide(turn, view)
            _check_question(turn)
            if wording(event, outlet.view.transcript) != view.wording and await may_ask_again(turn):
                log.info("%s: asking once more, the question was edited", agent.key)
                await _withdraw(turn, progress)
                view = _noted(turn, progress, await look(turn, closing=progress.closing))
                decision, sources = await decide(turn, view)
                _check_question(turn)
        if decision.is_empty:
            raise TurnOver("budget" if progress.closing else "skipped")
        if is_unasked(event):
            decision = words_alone(event, decision)
            await check_wanted(turn, event)
        with turn.trace.phase("posting"):
            if progress.answer is None:
                await progress.keep_answer(decision, sources)
            _check_overtaken(turn, view)
            if progress.room is not None:
                await check_room(turn)
            _check_clock(turn)
            done = await act(turn, progress, view, decision, sources)
        note_post(turn, done.message_id)
        if done.message_id is not None and progress.room is not None:
            await summarise(turn, view)
        return replace(done, reason="budget") if progress.closing else done


async def _write(turn: Turn, event: ReflectionEvent, progress: Progress, on_admitted: OnAdmitted) -> Done:
    check_able(turn.agent)
    with turn.trace.phase("waiting"):
        await admit(turn, progress)
        await on_admitted()
    return Done(text=await write(turn, event), written=True)


def _noted(turn: Turn, progress: Progress, view: TurnView) -> TurnView:
    """The view, once the turn's record and its trace know of it."""
    progress.facts = _with_view(progress.facts, view)
    turn.trace.sources = _sources(turn, view)
    return view


def _sources(turn: Turn, view: TurnView) -> Sources:
    """The sources of the prompt, for the record: pins set names in it, and a question may be of several messages."""
    agent, event = turn.agent, turn.event
    pins = [(pin.message_id, pin.author_id) for pin in agent.options.of(agent.key, turn.outlet.view).pins]
    asked = (event.asked, *event.pieces) if isinstance(event, MentionEvent) else ()
    people, quoted = view.noted, view.summarised
    if is_unasked(event):
        people, quoted = people | event.about, (*quoted, *event.reflection.message_ids)
    without_author = ((message_id, None) for message_id in quoted)  # their authors are among the people
    return Sources(context=view.context, quoted=(*without_author, *pins, *authors(asked)), people=people)


def _with_view(facts: Facts, view: TurnView) -> Facts:
    """The facts with those of the view: the number of messages read, and the person to whom bots react."""
    target = view.context.target if view.context.trigger == "reactive" else None
    asked_by = target.speaker.id if target is not None and target.speaker.kind == "person" else facts.asked_by
    return replace(facts, entries=len(view.context.window.entries), asked_by=asked_by)


def _check_question(turn: Turn) -> None:
    if withdrawn(turn.event, turn.outlet):
        raise TurnOver("withdrawn")


def _check_clock(turn: Turn) -> None:
    """Look at the deadline once more: a machine that slept, or a clock that was set, ends no timer."""
    if turn.agent.clock() >= turn.event.deadline:
        raise TurnOver("deadline")


def _check_overtaken(turn: Turn, view: TurnView) -> None:
    """In a round, do not post words that ignore what a person has just said; the next turn reads it. An answer to
    people is posted all the same, or a lively channel would silence the bots, and so is a turn in a room, or its
    audience would."""
    context = view.context
    if is_unasked(turn.event):
        check_unedited(turn, view.about)
        check_quiet(turn, view.newest)
    round_turn = context.trigger == "round" and context.room is None
    yields = turn.agent.barge_in == "yield" and round_turn and context.answers is None
    if yields and turn.outlet.view.transcript.person_spoke_after(view.newest):
        raise TurnOver("overtaken")


async def _withdraw(turn: Turn, progress: Progress) -> None:
    """Delete the streamed part of an answer that is not posted, also that of an earlier run."""
    if not turn.event.forced or not (progress.continued or turn.agent.options_for(turn.outlet).stream):
        return
    try:
        async with asyncio.timeout(WITHDRAW_SECONDS):
            await turn.outlet.sink.withdraw(turn.event.id, turn.after)
    except TimeoutError:
        log.warning("channel %d: deleting half an answer timed out, it stays", turn.event.channel_id)
