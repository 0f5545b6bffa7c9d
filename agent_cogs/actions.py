"""A decision becomes deeds: picture, post, reaction."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_cogs.agent import Agent, Outlet
from agent_cogs.decision import Decision
from agent_cogs.events import MentionEvent, TurnEvent
from agent_cogs.spending import Spending
from agent_context.entries import Entry
from agent_discord.embeds import cost_embed
from agent_discord.outlet import Post, Posted
from agent_discord.splitting import FENCE
from agent_llm.errors import ModelError
from agent_llm.types import Drawing, Source, Usage

MAX_SOURCES = 3
POST_SECONDS = 10.0  # of the deadline, kept for posting

_LINK = re.compile(r"https?://[^\s<>/?#]+[^\s<>]{0,1000}")
_PLAIN = str.maketrans("[]", "()", "`")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a turn did; with a `reason` where it did nothing, or less than it wanted."""

    text: str | None = None
    message_id: int | None = None
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
class Deed:
    """What is to be done: the decision, the sources its text rests on, the message that the turn is about."""

    decision: Decision
    sources: tuple[Source, ...] = ()
    target: Entry | None = None


async def act(
    agent: Agent, outlet: Outlet, event: TurnEvent, deed: Deed, spending: Spending, keep: Callable[[Done], None]
) -> Done:
    """Draws, posts text and picture as one message, reacts. Raises CannotPost when nothing could be posted.

    `keep` hears of what is done as soon as it is: the turn's time may be over in the middle.
    """
    decision = deed.decision
    drawing = await _draw(agent, decision, spending, event)
    text = with_sources(decision.text, deed.sources)
    if text is None and drawing is None and (event.forced or decision.react_emoji is None):
        return Done(reason="picture_failed")
    done = Done(text=text, end_conversation=decision.end_conversation, topic=decision.topic)

    def noted(posted: Posted) -> None:
        nonlocal done
        prompt = decision.image_prompt if posted.picture_url else None
        done = replace(done, message_id=posted.message_id, picture_url=posted.picture_url, image_prompt=prompt)
        keep(done)

    if text is not None or drawing is not None:
        picture = drawing.picture if drawing else None
        ping = event.asked.speaker.id if isinstance(event, MentionEvent) else None
        embed = cost_embed(spending.total, await spending.day_total(), agent.colour) if agent.show_costs else None
        noted(await outlet.post(Post(text=text, picture=picture, embed=embed, ping=ping), event.id, noted))
    emoji, reacted_to = await _react(outlet, deed)
    return replace(
        done, emoji=emoji, reacted_to=reacted_to, reason=None if done.message_id or emoji else "reaction_failed"
    )


async def _draw(agent: Agent, decision: Decision, spending: Spending, event: TurnEvent) -> Drawing | None:
    """The picture, or None where none was wanted or drawing failed, took too long or is too dear: words are posted all
    the same."""
    if not decision.generate_image or not decision.image_prompt:
        return None
    if not await agent.limits.afford(event.id, spending.total.cost_usd + agent.tariff.picture()):
        log.info("%s does not draw: there is no money for a picture", agent.key)
        return None
    try:
        async with asyncio.timeout(event.deadline - agent.clock() - POST_SECONDS):
            drawing = await agent.draw(decision.image_prompt)
    except ModelError as error:
        log.warning("%s could not draw: %s", agent.key, error)
        spending.add(error.usage or Usage())
        return None
    except TimeoutError:
        log.warning("%s could not draw: the picture took too long", agent.key)
        return None
    spending.add(drawing.usage)
    return drawing


async def _react(outlet: Outlet, deed: Deed) -> tuple[str | None, int | None]:
    """The reaction that was given and where; a reaction to a message that is not there is dropped."""
    emoji, message_id = deed.decision.react_emoji, deed.decision.react_to_message_id
    if message_id is None and deed.target is not None:
        message_id = deed.target.id
    if emoji is None or message_id is None or not await outlet.react(message_id, emoji):
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
