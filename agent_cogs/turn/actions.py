"""A decision becomes deeds: picture, post, reaction."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, replace

from agent_chat.outlet import SPLIT_AT, Outlet, Post, Posted, TurnCost
from agent_cogs.agent import Agent
from agent_cogs.answer.decision import Decision
from agent_cogs.events import POST_SECONDS, MentionEvent, TurnEvent
from agent_cogs.limits.usage import TurnSpending
from agent_cogs.turn.progress import Done, Progress
from agent_context.entries import Entry
from agent_discord.posting.splitting import FENCE
from agent_llm.errors import ModelError
from agent_llm.types import Picture, Source, Usage

MAX_SOURCES = 3


_LINK = re.compile(r"https?://[^\s<>/?#]+[^\s<>]{0,1000}")

_PLAIN = str.maketrans("[]", "()", "`")


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What is to be done: the decision, the sources its text rests on, the message that the turn is about, the length
    at which a text is split."""

    decision: Decision
    sources: tuple[Source, ...] = ()
    target: Entry | None = None
    split_at: int = SPLIT_AT


async def act(
    agent: Agent, outlet: Outlet, event: TurnEvent, deed: Deed, spending: TurnSpending, progress: Progress
) -> Done:
    """Draws, posts text and picture as one message, reacts. Raises CannotPost when nothing could be posted.

    `progress` hears of what is done as soon as it is: the turn's time may be over in the middle, or the process.
    """
    if not progress.posted:
        await _post(agent, outlet, event, deed, spending, progress)
        if progress.done.reason is not None:
            return progress.done
        if progress.posted and deed.decision.react_emoji is not None:
            await progress.keep_posted()
    emoji, reacted_to = await _react(outlet, deed)
    done = replace(progress.done, emoji=emoji, reacted_to=reacted_to)
    return replace(done, reason="reaction_failed" if done.nothing else None)


async def _post(
    agent: Agent, outlet: Outlet, event: TurnEvent, deed: Deed, spending: TurnSpending, progress: Progress
) -> None:
    decision = deed.decision
    picture = await progress.kept_picture() or await _draw(agent, decision, spending, event, progress)
    text = with_sources(decision.text, deed.sources)
    if text is None and picture is None and (event.forced or decision.react_emoji is None):
        progress.note(Done(reason="picture_failed"))
        return
    wanted = Done(text=text, end_conversation=decision.end_conversation, topic=decision.topic)

    def noted(posted: Posted) -> None:
        prompt = decision.image_prompt if posted.picture_url else None
        url = posted.picture_url
        ids = posted.message_ids
        progress.note(
            replace(wanted, message_id=posted.message_id, message_ids=ids, picture_url=url, image_prompt=prompt)
        )

    if text is None and picture is None:
        progress.note(wanted)
    else:
        ping = event.ping if isinstance(event, MentionEvent) else None
        cost = TurnCost(spending.total, await spending.day_total(), agent.colour) if agent.show_costs else None
        post = Post(text=text, picture=picture, cost=cost, ping=ping, after=progress.after, split_at=deed.split_at)
        noted(await outlet.sink.post(post, event.id, noted))


async def _draw(
    agent: Agent, decision: Decision, spending: TurnSpending, event: TurnEvent, progress: Progress
) -> Picture | None:
    """The picture, or None where none was wanted or drawing failed, took too long or is too dear: words are posted all
    the same. What was drawn is kept until it is posted."""
    if not decision.generate_image or not decision.image_prompt:
        return None
    cost = agent.model.tariff.picture()  # until more is known of it
    together = spending.total + cost
    if not await agent.limits.afford(event.id, together.cost_usd):
        log.info("%s does not draw: there is no money for a picture", agent.key)
        return None
    seconds = event.deadline - agent.clock() - POST_SECONDS
    if seconds <= 0:
        log.info("%s does not draw: there is no time for a picture", agent.key)
        return None
    await progress.foresee(together)
    try:
        async with asyncio.timeout(seconds):
            drawing = await agent.model.draw(decision.image_prompt)
        cost = drawing.usage
    except ModelError as error:
        log.warning("%s could not draw: %s", agent.key, error)
        cost = error.usage or Usage()
        return None
    except TimeoutError:
        log.warning("%s could not draw: the picture took too long", agent.key)
        return None
    finally:
        spending.add(cost)
    await progress.keep_picture(drawing.picture, spending.total)
    return drawing.picture


async def _react(outlet: Outlet, deed: Deed) -> tuple[str | None, int | None]:
    """The reaction that was given and where; a reaction to a message that is not there is dropped."""
    emoji, message_id = deed.decision.react_emoji, deed.decision.react_to_message_id
    if message_id is None and deed.target is not None:
        message_id = deed.target.id
    if emoji is None or message_id is None or not await outlet.sink.react(message_id, emoji):
        return None, None
    return emoji, message_id


def with_sources(text: str | None, sources: tuple[Source, ...]) -> str | None:
    """The text with a line of the sources that it does not link itself; addresses in <> so that no previews pile up."""
    if text is None:
        return None
    lacking = [source for source in sources if _LINK.fullmatch(source.url) and source.url not in text][:MAX_SOURCES]
    if not lacking:
        return text
    links = " · ".join(f"[{_title(source)}](<{source.url}>)" for source in lacking)
    closing = f"\n{FENCE}" if text.count(FENCE) % 2 else ""
    return f"{text}{closing}\n-# {links}"


def _title(source: Source) -> str:
    cleaned = " ".join(source.title.translate(_PLAIN).split())
    return cleaned[:60] or source.url.split("/")[2]
