"""take_turn: the one path of every turn.

    event → limits → context → model ⇄ tools → decision → actions → result

`take_turn` knows an agent and an outlet, never a cog or a bot account. Whatever happens, it ends in exactly one Result;
agentic.wire.reasons lists why a turn may have posted nothing. Most turns ask their limits in the step that claims them
(runner.py), so that a turn begins with one step in Redis and ends with one. Other turns ask in `admit`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace

from agentic.agent.agent import Agent
from agentic.agent.events import (
    LONGEST_TURN,
    InstructionEvent,
    MentionEvent,
    ReflectionEvent,
    TurnEvent,
    asked_id,
    is_proactive,
    is_writing,
    trigger_of,
)
from agentic.agent.limits import AFTER_DEADLINE, KINDS, first_call_usage, under_way
from agentic.chat.outlet import CannotPost, Outlet
from agentic.chat.transcript import Transcript
from agentic.context.window import Depth
from agentic.llm.errors import ModelError, Refused, ServerBusy, SessionLost
from agentic.llm.pricing import expected
from agentic.state.limits import LimitRequest
from agentic.state.rooms import Room
from agentic.turn.actions import act
from agentic.turn.decide import can_ask_again, decide, read_saved_decision
from agentic.turn.decision import UnreadableDecision
from agentic.turn.proactive import check_consent, prompt_of, text_only, write
from agentic.turn.progress import Done, Turn, TurnState
from agentic.turn.result import error_line, log_turn, notice_of, reply_to_failure, result_of
from agentic.turn.room_turns import admit_to_room, check_room, in_room, is_expected_turn
from agentic.turn.summary import summarize
from agentic.turn.view import TurnView, build_view, is_deleted, is_gone, no_longer_calls, wording
from agentic.wire.messages import Result
from agentic.wire.reasons import TurnAborted

log = logging.getLogger(__name__)

WITHDRAW_SECONDS = 10.0  # the failure reply waits for it

_FAILURES: Mapping[type[ModelError], str] = {
    Refused: "refused",
    ServerBusy: "busy",
    SessionLost: "session_lost",
}


async def take_turn(turn: Turn) -> Result:
    """Take or continue the turn, and return its result. Raises nothing but CancelledError."""
    agent, event, state = turn.agent, turn.event, turn.state
    began = agent.now()
    state.guild_id, state.asked_by = turn.outlet.view.guild_id, event.person_id
    try:
        line = await _run_with_deadline(turn)
    finally:
        turn.found_picture.drop()
        await turn.waiting.close()
    if turn.cancellation.reason is not None and state.done.is_nothing:
        state.end(turn.cancellation.reason)
    done = state.done
    if done.is_nothing and state.admitted and event.cools_down and done.reason != "not_ours":
        await turn.limits.release_cooldown(event.channel_id)  # nothing was answered, so the next question may be asked
    state.posted = done.message_ids
    with state.trace.phase("posting"):
        if done.message_id is None:
            await _withdraw(turn)
        if done.is_nothing and done.reason is not None and isinstance(event, MentionEvent) and event.by_person:
            stays_silent = done.reason == "muted" and event.unaddressed
            reply = None if stays_silent else await reply_to_failure(turn, event, done.reason, line)
            state.posted = reply.message_ids if reply else state.posted
    prices = turn.model.prices
    state.model = state.spending.total.model or f"{prices.provider}/{prices.model}"
    state.seconds = agent.now() - began
    # The result doesn't wait for the log.
    asyncio.get_running_loop().call_soon(log_turn, agent.key, event, state)
    return result_of(agent.key, event.id, done, state.spending.total)


def abandoned_result(agent: Agent, event: TurnEvent, state: TurnState, reason: str) -> Result:
    """Return the result of a turn that isn't continued, with its posts and costs so far."""
    state.end(reason)
    state.model, state.posted = state.spending.total.model, state.done.message_ids
    log_turn(agent.key, event, state)
    return result_of(agent.key, event.id, state.done, state.spending.total)


async def _run_with_deadline(turn: Turn) -> str | None:
    """Run the steps, and set the reason if they fail. Return a line for the person if it says more than the reason."""
    seconds = min(turn.event.deadline - turn.agent.now(), LONGEST_TURN)
    line = None
    try:
        if seconds <= 0:
            raise TurnAborted("deadline")
        async with turn.cancellation.within(seconds):
            await run_steps(turn)
            return None
    except (TurnAborted, CannotPost) as error:
        reason = error.reason
    except UnreadableDecision as error:
        log.warning("%s: cannot read the model's answer: %s", turn.agent.key, error.reason)
        reason = "unreadable"
    except ModelError as error:
        log.warning("%s: %s", turn.agent.key, error)
        reason = _FAILURES.get(type(error), "model_failed")
        line = error_line(error) if reason == "model_failed" else None
    except Exception as error:
        # This is the outermost edge of a turn, which must have a result.
        log.exception("%s: turn %s failed", turn.agent.key, turn.event.id)
        reason, line = "internal_error", error_line(error)
    turn.state.end(reason)
    return line


async def run_steps(turn: Turn) -> None:
    """Take every step of a turn in order. Raises TurnAborted, CannotPost, UnreadableDecision, and ModelError."""
    event, state = turn.event, turn.state
    if is_writing(event):
        if turn.model.runs_own_tools:  # a coding agent would run its own tools on what people wrote
            raise TurnAborted("unknown_action")
        await admit(turn)
        state.done = Done(text=await write(turn, event), written=True)
        return
    check_question(turn)
    if is_proactive(event):
        await check_consent(turn, event)
    await admit(turn)
    shows_thinking = event.forced or in_room(event)  # people wait, or the room's thread shows who thinks
    with turn.outlet.sink.typing() if shows_thinking else nullcontext():
        with state.trace.phase("waiting"):
            await turn.hooks.before(event)
        view = await build_view(turn)
        check_question(turn)
        if state.answer is not None:
            decision = read_saved_decision(turn, view, state.answer)
        else:
            decision = await decide(turn, view)
            check_question(turn)
            if wording(event, turn.outlet.view.transcript) != view.wording and await can_ask_again(turn):
                log.info("%s: the question was edited; asking again", turn.agent.key)
                await _withdraw(turn)
                view = await build_view(turn)
                decision = await decide(turn, view)
                check_question(turn)
        if decision.is_empty:
            raise TurnAborted("budget" if state.closing else "skipped")
        if is_proactive(event):
            decision = text_only(event, decision)
            await check_consent(turn, event)
        with state.trace.phase("posting"):
            if state.answer is None:
                await state.save_answer(decision)
            await _check_before_posting(turn, view)
            await act(turn, view, decision)
        if state.done.message_id is not None:
            if (records := turn.agent.tool_records) is not None:  # the turn's tool calls led to this post
                records.belongs_to(turn.agent.key, event.channel_id, event.id, state.done.message_id)
            if state.room is not None:
                await summarize(turn, view)
        if state.closing:
            state.end("budget")


async def admit(turn: Turn) -> None:
    """Ask the limits for the turn, unless the step that claimed it did. Save whether it's a conversation's last turn.
    Raises TurnAborted with the reason that forbids the turn, and CannotPost if another process has taken it over."""
    agent, state = turn.agent, turn.state
    with state.trace.phase("waiting"):
        request, verdict = state.request, state.verdict
        if state.continued or request is None or verdict is None:
            await admit_to_room(turn)
            # A continued turn was admitted when it began, even if its model is backing off now.
            if reason := turn.outlet.sink.refusal() if state.continued else blocking_reason(turn):
                raise TurnAborted(reason)
            request = _request(turn)
            if state.continued:
                turn.limits.state.limits.resume(request, state.spending.total.cost_usd)
                verdict = None
            else:
                verdict = await turn.limits.state.limits.take(request)
        if verdict not in ("ok", "closing", None):
            raise TurnAborted(verdict)
        state.spending.estimate = request.estimate
        if verdict == "closing":
            await state.save_closing()
        state.admitted = True
    turn.watcher.began(notice_of(agent.key, turn.event, "began", agent.now()))


def with_payer_and_target(event: TurnEvent, transcript: Transcript, room: Room | None) -> TurnEvent:
    """Set the person whose budget pays for the event: a room's payer, or the person whose message the turn answers.
    Drop the messages that it must answer if they were deleted or hidden meanwhile."""
    if not isinstance(event, InstructionEvent):
        return event
    given = event.instruction
    left = tuple(each for each in given.questions if not is_gone(each, transcript))
    if left != given.questions or is_gone(given.take_up or 0, transcript):
        changes = {"take_up": max(left, default=None), "questions": left if len(left) > 1 else ()}
        event = replace(event, instruction=given.model_copy(update=changes))
    if room is not None:
        return replace(event, on_behalf=room.payer)
    asked = transcript.get(asked_id(event) or 0)
    return event if asked is None or asked.speaker.kind != "person" else replace(event, on_behalf=asked.speaker.id)


def limit_request(turn: Turn) -> LimitRequest | None:
    """Return the request to send with the claim; None if the turn won't get that far."""
    event = turn.event
    if event.deadline <= turn.agent.now() or is_withdrawn(event, turn.outlet) or blocking_reason(turn):
        return None
    return _request(turn) if is_expected_turn(turn.state.room, event) else None


def blocking_reason(turn: Turn) -> str | None:
    """Return the reason that forbids the turn even before the limits are asked, if any."""
    return turn.outlet.sink.refusal() or ("benched" if turn.model.backoff.seconds_left else None)


def _request(turn: Turn) -> LimitRequest:
    agent, outlet, event = turn.agent, turn.outlet, turn.event
    prices, trigger = turn.model.prices, trigger_of(event)
    if is_writing(event):
        most = prices.worst_case(expected(prompt_of(event.reflection, agent.key)))
    else:
        options, transcript, overhead = agent.options_for(outlet), outlet.view.transcript, turn.limits.overhead.tokens
        depth = Depth.of(options)
        window = depth.messages + depth.step
        most = first_call_usage(event, trigger, prices, transcript, options, window=window, overhead=overhead)
    request = LimitRequest(
        agent=agent.key,
        channel_id=event.channel_id,
        guild_id=outlet.view.guild_id,
        date=agent.today(),
        turn_id=event.id,
        is_free=is_writing(event) or prices.free,  # it isn't a daily turn
        estimate=most.cost_usd,
        until=event.deadline + AFTER_DEADLINE,
        kind="idle" if isinstance(event, ReflectionEvent) else KINDS[trigger],
        person_id=event.person_id,
        message_id=event.asked.id if isinstance(event, MentionEvent) and event.by_person else None,
        under_way=under_way(most),
        notice=notice_of(agent.key, event, "began", agent.now()).to_wire(),
    )
    return turn.limits.apply_to(
        request, cools_down=event.cools_down, for_people=event.for_people, is_private=outlet.view.is_private
    )


def is_withdrawn(event: TurnEvent, outlet: Outlet) -> bool:
    """Return whether the question, one of a room's questions, or a message that a background task is about, was
    deleted, hidden, or edited so that it calls nobody."""
    transcript = outlet.view.transcript
    if isinstance(event, MentionEvent):
        return is_deleted(event, transcript) or no_longer_calls(event, transcript, outlet.view.own_ids)
    about = event.reflection.message_ids if isinstance(event, ReflectionEvent) else ()
    if isinstance(event, InstructionEvent):
        about = event.instruction.questions
    return any(is_gone(each, transcript) for each in (asked_id(event) or event.reply_to or 0, *about))


def check_question(turn: Turn) -> None:
    """Raise TurnAborted if the question was withdrawn."""
    if is_withdrawn(turn.event, turn.outlet):
        raise TurnAborted("withdrawn")


async def _check_before_posting(turn: Turn, view: TurnView) -> None:
    """Raise TurnAborted if the decision may no longer be posted. In a round, a post that ignores a person's new message
    is dropped, and the next turn reads that message. Answers to people and turns in rooms are posted anyway, or a
    lively channel or audience would silence the bots."""
    context, transcript = view.context, turn.outlet.view.transcript
    has_new_words = transcript.person_spoke_after(view.newest)
    if is_proactive(turn.event):
        now = ((transcript.get(message_id), text) for message_id, text in view.about.items())
        if any(entry is not None and entry.text != text for entry, text in now):
            raise TurnAborted("edited")  # the post may quote words that their author took back
        if has_new_words:
            raise TurnAborted("person_wrote")
    round_turn = context.task.trigger == "round" and context.talk.room is None
    yields = turn.agent.settings.barge_in == "yield" and round_turn and context.answers is None
    if yields and has_new_words:
        raise TurnAborted("overtaken")
    if turn.state.room is not None:
        await check_room(turn)
    if turn.agent.now() >= turn.event.deadline:  # timers don't notice a sleeping machine or a changed clock
        raise TurnAborted("deadline")


async def _withdraw(turn: Turn) -> None:
    """Delete the streamed part of an answer that isn't posted, including an earlier run's."""
    state = turn.state
    may_have_begun = state.continued or turn.model.is_at_home or turn.agent.options_for(turn.outlet).stream
    if not (turn.event.forced and may_have_begun):
        return
    try:
        async with asyncio.timeout(WITHDRAW_SECONDS):
            await turn.outlet.sink.withdraw(turn.event.id, state.after)
    except TimeoutError:
        log.warning("channel %d: deleting half an answer timed out; it stays", turn.event.channel_id)
