"""Carry a decision out: picture, post, reaction."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from agentic.agent.events import POST_SECONDS, MentionEvent, asked_id
from agentic.chat.outlet import Post, Posted, TurnCost
from agentic.llm.errors import ModelError
from agentic.llm.types import ImagePrompt, Picture, Prompt, Usage
from agentic.turn.form import Decision
from agentic.turn.progress import Done, Turn
from agentic.turn.room_turns import next_member
from agentic.turn.view import TurnView

FOUND_SECONDS = 2.0  # a post waits this long for a picture from the web

log = logging.getLogger(__name__)


async def act(turn: Turn, view: TurnView, decision: Decision) -> None:
    """Draw, post text and picture as one message, and react. Raises CannotPost if nothing could be posted. Each action
    is noted in `turn.state` immediately, since the turn may time out or the process may end at any point."""
    state, emoji = turn.state, decision.react_emoji
    if state.done.message_id is None:
        await _post(turn, view, decision)
        if state.done.reason is not None:
            return
        if state.done.message_id is not None and emoji is not None:
            await state.save_posted()
    target = view.context.task.target
    message_id = decision.react_to_message_id or (target.id if target is not None else None)
    # A reaction to a message that doesn't exist is dropped.
    if emoji is None or message_id is None or not await turn.outlet.sink.react(message_id, emoji):
        emoji, message_id = None, None
    if emoji is not None or state.done.reason is not None:
        state.done = replace(state.done, emoji=emoji, reacted_to=message_id, reason=None)
    if state.done.is_nothing:
        state.end("reaction_failed")


async def _post(turn: Turn, view: TurnView, decision: Decision) -> None:
    agent, event, state, outlet, text = turn.agent, turn.event, turn.state, turn.outlet, decision.text
    picture = drawn = await state.load_picture() or await _draw(turn, decision)
    if drawn is None and text is not None:  # a picture may have been looked for during the search
        seconds = min(FOUND_SECONDS, event.deadline - agent.now() - POST_SECONDS)
        picture = await turn.found_picture.take(seconds)
    if text is None and picture is None and (event.forced or decision.react_emoji is None):
        state.done = Done(reason="picture_failed")
        return
    decided = Done(
        text=text,
        end_conversation=decision.end_conversation,
        topic=decision.topic,
        answers=view.context.answers,
        leaves=decision.leave,
        next_agent=next_member(state.room, decision.next_speaker, agent.key, view.names),
    )
    if text is None and picture is None:
        state.done = decided
        return

    def note(posted: Posted) -> None:
        if (asked := asked_id(event)) is not None:
            outlet.view.transcript.note_answers(posted.message_ids or (posted.message_id,), asked)
        state.done = replace(
            decided,
            message_id=posted.message_id,
            message_ids=posted.message_ids,
            picture_url=posted.picture_url,
            image_prompt=decision.image_prompt if posted.picture_url and drawn is not None else None,
        )

    cost, usage = None, state.spending.total
    if agent.settings.show_cost_embeds:
        cost = TurnCost(usage, await turn.limits.day_total(agent.today(), usage), agent.color)
    post = Post(
        text=text,
        picture=picture,
        cost=cost,
        ping=event.ping if isinstance(event, MentionEvent) else None,
        after=state.after,
        split_at=view.options.split_at,
        sources=decision.sources,
        reply_to=event.reply_to,
        asked=asked_id(event),
    )
    state.trace.picture = picture
    note(await outlet.sink.post(post, event.id, note))


async def _draw(turn: Turn, decision: Decision) -> Picture | None:
    """Draw the picture, and save it until it's posted. Return None if no picture is wanted, or if drawing fails, takes
    too long, or is over budget."""
    if not decision.generate_image or not decision.image_prompt:
        return None
    agent, event, spending, trace = turn.agent, turn.event, turn.state.spending, turn.state.trace
    cost = turn.model.prices.picture()  # until the real cost is known
    together = spending.total + cost
    if not await turn.limits.reserve_more(event.id, together.cost_usd):
        log.info("%s: no picture was drawn: the budget is used up", agent.key)
        return None
    seconds = event.deadline - agent.now() - POST_SECONDS
    if seconds <= 0:
        log.info("%s: no picture was drawn: no time is left", agent.key)
        return None
    await spending.reserve(together)
    try:
        with trace.call(turn.model.name, Prompt(text=decision.image_prompt), kind="picture") as call:
            async with asyncio.timeout(seconds) as limit:
                drawing = await turn.model.draw(ImagePrompt(decision.image_prompt, turn.outlet.view.guild_id))
        cost = drawing.usage
    except ModelError as error:
        log.warning("%s: drawing failed: %s", agent.key, error)
        cost = error.usage or Usage()
        return None
    except TimeoutError as error:
        if limit.expired():
            log.warning("%s: drawing took too long and was canceled", agent.key)
        else:
            log.warning("%s: drawing failed: a request timed out (%s)", agent.key, error or "no details")
        return None
    finally:
        spending.add(cost)
        call.usage = cost
    await turn.state.save_picture(drawing.picture)
    return drawing.picture
