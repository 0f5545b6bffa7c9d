"""The parts of an agent's post besides its text: the picture, and the line about money."""

from __future__ import annotations

import asyncio
import io
import logging
from functools import partial

import discord

from agentic.chat.outlet import Post, TurnCost
from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.net.images import Fit, scale
from agentic.services.discord.channels import Channel
from agentic.services.discord.multipart import LIMIT, Extras
from agentic.services.discord.outbound import FILE_NOTE_ROOM

SMALLEST_FILE_LIMIT = 10 * 1024 * 1024  # bytes: Discord's limit in direct messages and servers without boosts
LONGEST_SIDE = 4096  # pixels of a picture that is scaled down to a server's limit

log = logging.getLogger(__name__)


async def extras_of(post: Post, channel: Channel, *, embeds: bool) -> Extras:
    """`embeds`: whether embeds may be posted there."""
    picture = await _within_file_limit(post.picture, channel) if post.picture else None
    return Extras(
        attach=partial(picture_file, picture) if picture else None,
        embed=cost_embed(post.cost) if post.cost and embeds else None,
    )


def text_limit(post: Post, most: int) -> int:
    """The longest text of a message of this post: below a picture there is room for the note that it was refused."""
    return min(post.split_at, most, LIMIT - FILE_NOTE_ROOM if post.picture else most)


async def _within_file_limit(picture: Picture, channel: Channel) -> Picture:
    """Scale a picture down that is larger than the server takes. One that cannot be scaled stays as it is."""
    if len(picture.data) <= SMALLEST_FILE_LIMIT:
        return picture
    guild = channel.guild if not isinstance(channel, discord.DMChannel) else None
    limit = guild.filesize_limit if guild is not None else SMALLEST_FILE_LIMIT
    if len(picture.data) <= limit:
        return picture
    try:
        scaled = await asyncio.to_thread(scale, picture.data, Fit(LONGEST_SIDE, limit))
    except FetchRefused as error:
        log.warning("channel %d: a picture of %d bytes cannot be scaled: %s", channel.id, len(picture.data), error)
        return picture
    return Picture(scaled.data, scaled.media_type)


def picture_file(picture: Picture) -> discord.File:
    suffix = picture.media_type.removeprefix("image/").replace("jpeg", "jpg")
    return discord.File(io.BytesIO(picture.data), filename=f"picture.{suffix}")


def cost_embed(cost: TurnCost) -> discord.Embed:
    """One line: model, cost, tokens in (of them cached) and out, the agent's total of the day."""
    usage = cost.usage
    tokens = f"{usage.input_tokens:,} in"
    if usage.cached_tokens:
        tokens += f" ({usage.cached_tokens:,} cached)"
    tokens += f" / {usage.output_tokens:,} out"
    extras = [f"{usage.searches} searches"] if usage.searches else []
    extras += [f"{usage.pictures} pictures"] if usage.pictures else []
    parts = [usage.model, f"${usage.cost_usd:.4f}", tokens, *extras, f"today ${cost.day_total_usd:.2f}"]
    return discord.Embed(colour=cost.colour).set_footer(text=" · ".join(part for part in parts if part))
