"""An agent and an outlet, as a turn knows them: no cog, no bot user, no Discord object.

An agent may one day speak without a token, an outlet may one day not be Discord; a turn must not notice.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal, Protocol

from agent_cogs.bench import Bench
from agent_cogs.limits import Limits
from agent_cogs.money import Tariff
from agent_cogs.told import Told
from agent_context.build import Identity
from agent_context.entries import Entry
from agent_context.window import WindowMemory
from agent_discord.outlet import Post, Posted
from agent_discord.transcript import Transcript
from agent_llm.types import Drawing, Message, Picture, Prompt, Reply
from agent_protocol.costs import Costs

BargeIn = Literal["yield", "finish", "ignore"]
Think = Callable[[Prompt, Sequence[Message]], Awaitable[Reply]]
Draw = Callable[[str], Awaitable[Drawing]]


class Outlet(Protocol):
    """A place to listen, post, type and react. See agent_discord.outlet for what each promises."""

    @property
    def channel_id(self) -> int: ...
    @property
    def guild_id(self) -> int | None: ...
    @property
    def name(self) -> str: ...
    @property
    def transcript(self) -> Transcript: ...
    @property
    def may_attach(self) -> bool: ...
    def refusal(self) -> str | None: ...
    async def settle(self) -> None: ...
    async def pictures(self, entries: Sequence[Entry]) -> Mapping[int, tuple[Picture, ...]]: ...
    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ...) -> Posted: ...
    async def react(self, message_id: int, emoji: str) -> bool: ...
    def typing(self) -> AbstractContextManager[None]: ...


Find = Callable[[int], Awaitable[Outlet | None]]  # the channel with this id, where the bot may speak there


async def never_reset(_: int) -> int:
    """Everything is context."""
    return 0


@dataclass(frozen=True, kw_only=True)
class Agent:
    """Who takes the turn. `think` and `draw` call its model; `names` maps all agents' keys to shown names."""

    identity: Identity
    names: Mapping[str, str]
    think: Think
    draw: Draw
    can_draw: bool
    limits: Limits
    bench: Bench
    tariff: Tariff
    costs: Costs
    told: Told  # who has heard lately that there is no answer
    windows: WindowMemory
    context_size: int
    show_costs: bool
    colour: int
    timezone: tzinfo
    clock: Callable[[], float]
    rng: random.Random
    reset: Callable[[int], Awaitable[int]] = never_reset  # channel → the last message that is context no longer
    barge_in: BargeIn = "yield"  # what a person's message does to a conversation's turns

    @property
    def key(self) -> str:
        return self.identity.key

    def today(self) -> str:
        """The local date, as it stands in Redis keys: 2026-11-20."""
        return f"{datetime.fromtimestamp(self.clock(), self.timezone):%Y-%m-%d}"
