"""Take_turn: every step in order.

Admit a turn: what forbids it without asking the limits, and what it asks them for.

A turn that nothing forbids asks the limits in the step that claims it (inbox/runner.py), so that it begins in one step
in Redis, as it ends in one. Any other turn asks in `admit`.

The one path of every turn:

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
from agentic.agent.events import (
    LONGEST_TURN,
    InstructionEvent,
    MentionEvent,
    ReflectionEvent,
    TurnEvent,
    asked_id,
    is_unasked,
    trigger_of,
)
from agentic.agent.limits import budget_request
from agentic.chat.outlet import CannotPost, Outlet
from agentic.chat.transcript import Transcript
from agentic.context.window import Depth
from agentic.llm.errors import ModelError, Refused, SessionLost
from agentic.state.limits import TurnRequest
from agentic.state.rooms import Room
from agentic.turn.actions import act
from agentic.turn.decide import decide, kept_decision, may_ask_again
from agentic.turn.decision import UnreadableDecision
from agentic.turn.proactive import (
    check_able,
    check_quiet,
    check_unedited,
    check_wanted,
    words_alone,
    write,
    writing_request,
)
from agentic.turn.progress import Cancellation, Done, Facts, Progress
from agentic.turn.result import error_line, log_turn, reply_to_failure, result_of
from agentic.turn.room_turns import admit_to_room, check_room, wants
from agentic.turn.summary import summarise
from agentic.turn.tools import note_post
from agentic.turn.trace import Sources, authors
from agentic.turn.view import TurnView, called_off, gone, look, taken_back, wording
from agentic.wire.messages import Result
from agentic.wire.reasons import TurnOver

log = logging.getLogger(__name__)


def withdrawn(event: TurnEvent, outlet: Outlet) -> bool:
    """Whether the question was deleted or hidden, or no longer asks this agent; of an idle task, whether any message
    was that it is about."""
    transcript = outlet.view.transcript
    if isinstance(event, MentionEvent):
        return taken_back(event, transcript) or called_off(event, transcript, outlet.view.own_ids)
    about = event.reflection.message_ids if isinstance(event, ReflectionEvent) else ()
    return any(gone(each, transcript) for each in (asked_id(event) or event.reply_to or 0, *about))


def prepared(event: TurnEvent, transcript: Transcript, room: Room | None) -> TurnEvent:
    """The event right before its turn is claimed."""
    return on_account(without_gone(event, transcript), transcript, room)


def on_account(event: TurnEvent, transcript: Transcript, room: Room | None = None) -> TurnEvent:
    """The event with the person on whose account it is: in a room the one who opened it, otherwise the one whose
    message the turn answers."""
    if not isinstance(event, InstructionEvent):
        return event
    if room is not None:
        return replace(event, on_behalf=room.opened_by)
    asked = transcript.get(asked_id(event) or 0)
    return event if asked is None or asked.speaker.kind != "person" else replace(event, on_behalf=asked.speaker.id)


def without_gone(event: TurnEvent, transcript: Transcript) -> TurnEvent:
    """The event without the person's message to take up, where that was deleted or hidden before the turn began: it is
    a turn as any other then."""
    if not isinstance(event, InstructionEvent) or not gone(event.instruction.take_up or 0, transcript):
        return event
    return replace(event, instruction=event.instruction.model_copy(update={"take_up": None}))


def obstacle(agent: Agent, outlet: Outlet) -> str | None:
    """The reason that forbids the turn before the limits are asked."""
    return outlet.sink.refusal() or ("benched" if agent.model.backoff.seconds_left else None)


def request_of(agent: Agent, outlet: Outlet, event: TurnEvent) -> TurnRequest:
    """The turn's request to the limits."""
    if isinstance(event, ReflectionEvent) and event.writes:
        return writing_request(agent, event)
    options = agent.options_for(outlet)
    depth = Depth.of(options)
    wish = budget_request(
        event,
        trigger_of(event),
        agent.model.tariff,
        outlet.view.transcript,
        options,
        window=depth.messages + depth.step,
        frame=agent.frame.tokens,
    )
    return agent.limits.ask(
        event.channel_id,
        agent.today(),
        cools_down=event.cools_down,
        for_people=event.for_people,
        wish=wish,
        free=agent.model.tariff.free,
        private=outlet.view.is_private,
    )


def request_at_claim(agent: Agent, outlet: Outlet, event: TurnEvent, room: Room | None = None) -> TurnRequest | None:
    """The request that goes along with the claim; None where the turn will not come that far."""
    if event.deadline <= agent.clock() or withdrawn(event, outlet) or obstacle(agent, outlet):
        return None
    if not wants(room, event):
        return None
    return request_of(agent, outlet, event)


async def admit(turn: Turn, progress: Progress) -> None:
    """Take the turn from its limits, unless the step that claimed it did. A conversation's last turn is kept as such.

    Raises TurnOver with the reason that forbids the turn, and CannotPost for one that another process has taken over.
    """
    agent, outlet, spending = turn.agent, turn.outlet, turn.spending
    request, verdict = progress.request, progress.verdict
    if progress.continued:  # it was admitted when it began
        progress.room = await admit_to_room(turn, progress.room)
        if (refusal := outlet.sink.refusal()) is not None:
            raise TurnOver(refusal)
        request = request_of(agent, outlet, turn.event)
        agent.limits.resume(request, spending.total.cost_usd)
    elif request is None or verdict is None:
        progress.room = await admit_to_room(turn, progress.room)
        if (reason := obstacle(agent, outlet)) is not None:
            raise TurnOver(reason)
        request = request_of(agent, outlet, turn.event)
        verdict = await agent.limits.take(request)
    if verdict not in ("ok", "closing", None):
        raise TurnOver(verdict)
    spending.estimate = request.budget.estimate if request.budget else 0.0
    if verdict == "closing":
        await progress.keep_closing()
    progress.admitted = True


WITHDRAW_SECONDS = 10.0  # the failure reply comes after it

OnAdmitted = Callable[[], Awaitable[None]]

_FAILURES: Mapping[type[ModelError], str] = {Refused: "refused", SessionLost: "session_lost"}


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
