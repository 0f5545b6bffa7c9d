"""Carry a decision out: picture, post, reaction."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from agentic.agent.agent import Turn
from agentic.agent.events import POST_SECONDS, MentionEvent, asked_id
from agentic.agent.limits import day_total
from agentic.chat.outlet import ChannelSink, Post, Posted, TurnCost
from agentic.context.entries import Entry
from agentic.llm.errors import ModelError
from agentic.llm.types import Picture, Source, Usage
from agentic.turn.decision import Decision
from agentic.turn.progress import Done, Progress
from agentic.turn.room_turns import named_next
from agentic.turn.view import TurnView

FOUND_SECONDS = 2.0  # that a post waits for a found picture

log = logging.getLogger(__name__)


async def act(
    turn: Turn, progress: Progress, view: TurnView, decision: Decision, sources: tuple[Source, ...] = ()
) -> Done:
    """Draw, post text and picture as one message, react. Raises CannotPost when nothing could be posted.

    Each action is noted in `progress` as soon as it is done: the turn's time may end in the middle, or the process.
    """
    if not progress.posted:
        await _post(turn, progress, view, decision, sources)
        if progress.done.reason is not None:
            return progress.done
        if progress.posted and decision.react_emoji is not None:
            await progress.keep_posted()
    emoji, reacted_to = await _react(turn.outlet.sink, decision, view.context.target)
    done = replace(progress.done, emoji=emoji, reacted_to=reacted_to)
    return replace(done, reason="reaction_failed" if done.nothing else None)


async def _post(
    turn: Turn, progress: Progress, view: TurnView, decision: Decision, sources: tuple[Source, ...]
) -> None:
    agent, event = turn.agent, turn.event
    drawn = await progress.kept_picture() or await _draw(turn, progress, decision)
    text = decision.text
    picture = drawn if drawn is not None or text is None else await _found(turn)
    if text is None and picture is None and (event.forced or decision.react_emoji is None):
        progress.note(Done(reason="picture_failed"))
        return
    wanted = Done(
        text=text,
        end_conversation=decision.end_conversation,
        topic=decision.topic,
        answers=view.context.answers,
        leaves=decision.leave,
        next_agent=named_next(
            progress.room, decision.next_speaker, agent.key, agent.options.inner_names(turn.outlet.view)
        ),
    )

    def noted(posted: Posted) -> None:
        prompt = decision.image_prompt if posted.picture_url and drawn is not None else None
        url = posted.picture_url
        ids = posted.message_ids
        if (asked := asked_id(event)) is not None:
            turn.outlet.view.transcript.note_answers(ids or (posted.message_id,), asked)
        progress.note(
            replace(wanted, message_id=posted.message_id, message_ids=ids, picture_url=url, image_prompt=prompt)
        )

    if text is None and picture is None:
        progress.note(wanted)
    else:
        ping = event.ping if isinstance(event, MentionEvent) else None
        cost = await _cost(turn) if agent.show_costs else None
        post = Post(
            text=text,
            picture=picture,
            cost=cost,
            ping=ping,
            after=turn.after,
            split_at=view.options.split_at,
            sources=sources,
            reply_to=event.reply_to,
            asked=asked_id(event),
        )
        turn.trace.picture = picture
        noted(await turn.outlet.sink.post(post, event.id, noted))


async def _cost(turn: Turn) -> TurnCost:
    agent, usage = turn.agent, turn.spending.total
    return TurnCost(usage, await day_total(agent.costs, agent.key, agent.today(), usage), agent.colour)


async def _found(turn: Turn) -> Picture | None:
    """The picture that was looked for beside the turn's search, which the post waits for only briefly."""
    seconds = min(FOUND_SECONDS, turn.event.deadline - turn.agent.clock() - POST_SECONDS)
    return await turn.found_picture.taken(seconds)


async def _draw(turn: Turn, progress: Progress, decision: Decision) -> Picture | None:
    """The picture, kept until it is posted. None where none was wanted, or drawing failed, took too long or costs too
    much: the text is posted all the same."""
    if not decision.generate_image or not decision.image_prompt:
        return None
    agent, event, spending = turn.agent, turn.event, turn.spending
    cost = agent.model.tariff.picture()  # until more is known of it
    together = spending.total + cost
    if not await agent.limits.afford(event.id, together.cost_usd):
        log.info("%s: no picture is drawn, there is no money for it", agent.key)
        return None
    seconds = event.deadline - agent.clock() - POST_SECONDS
    if seconds <= 0:
        log.info("%s: no picture is drawn, there is no time for it", agent.key)
        return None
    await spending.foresee(together)
    try:
        with turn.trace.drawing(agent.model.name, decision.image_prompt) as call:
            async with asyncio.timeout(seconds) as limit:
                drawing = await agent.model.draw(decision.image_prompt)
        cost = drawing.usage
    except ModelError as error:
        log.warning("%s: drawing failed: %s", agent.key, error)
        cost = error.usage or Usage()
        return None
    except TimeoutError as error:
        if limit.expired():
            log.warning("%s: drawing took too long, it was cancelled", agent.key)
        else:
            log.warning("%s: drawing failed: a request in it timed out (%s)", agent.key, error or "no details")
        return None
    finally:
        spending.add(cost)
        call.usage = cost
    await progress.keep_picture(drawing.picture)
    return drawing.picture


async def _react(sink: ChannelSink, decision: Decision, target: Entry | None) -> tuple[str | None, int | None]:
    """The reaction that was given and to which message; one to a message that does not exist is dropped."""
    emoji, message_id = decision.react_emoji, decision.react_to_message_id
    if message_id is None and target is not None:
        message_id = target.id
    if emoji is None or message_id is None or not await sink.react(message_id, emoji):
        return None, None
    return emoji, message_id
