"""The parts of an agent's post besides its text: the picture, and the line about money."""

from __future__ import annotations

import io
from functools import partial

import discord

from agent_chat.outlet import Post, TurnCost
from agent_discord.posting.multipart import Extras
from agent_llm.types import Picture


def extras_of(post: Post, *, embeds: bool) -> Extras:
    """`embeds`: whether embeds may be posted there."""
    return Extras(
        attach=partial(picture_file, post.picture) if post.picture else None,
        embed=cost_embed(post.cost) if post.cost and embeds else None,
    )


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
