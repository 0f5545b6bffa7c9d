"""The small embed that shows what a turn cost, where the owner wants it (SHOW_COST_EMBEDS)."""

from __future__ import annotations

import discord

from agent_llm.types import Usage


def cost_embed(usage: Usage, day_total_usd: float, colour: int) -> discord.Embed:
    """One line: model, cost, tokens in and out (of them cached), the agent's total of the day."""
    tokens = f"{usage.input_tokens:,} in"
    if usage.cached_tokens:
        tokens += f" ({usage.cached_tokens:,} cached)"
    tokens += f" / {usage.output_tokens:,} out"
    extras = [f"{usage.searches} searches"] if usage.searches else []
    extras += [f"{usage.pictures} pictures"] if usage.pictures else []
    parts = [usage.model, f"${usage.cost_usd:.4f}", tokens, *extras, f"today ${day_total_usd:.2f}"]
    return discord.Embed(colour=colour).set_footer(text=" · ".join(part for part in parts if part))
