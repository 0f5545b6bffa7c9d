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
from agent_cogs.option_book import OptionBook
from agent_cogs.pin_lines import PinLines
from agent_cogs.told import Told
from agent_cogs.window_keeper import WindowKeeper
from agent_context.blocks import ToolLine
from agent_context.build import Identity
from agent_context.entries import Entry
from agent_context.history import Interval
from agent_context.options import Options
from agent_context.window import WindowMemory
from agent_discord.attachments import ANY_MODEL, Look
from agent_discord.chores import Chores
from agent_discord.outlet import Post, Posted
from agent_discord.text_files import TextFile
from agent_discord.transcript import Transcript
from agent_llm.types import Drawing, Message, Picture, Prompt, Reply
from agent_net.scaling import Fit
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
    @property
    def parent(self) -> Outlet | None: ...
    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]: ...
    @property
    def chores(self) -> Chores: ...
    def refusal(self) -> str | None: ...
    async def settle(self) -> None: ...
    async def reach(self, interval: Interval, messages: int) -> Sequence[Entry] | None: ...
    def know_as(self, inner_names: Mapping[str, str]) -> None: ...
    async def pictures(self, entries: Sequence[Entry], look: Look = ...) -> Mapping[int, tuple[Picture, ...]]: ...
    async def text_files(
        self, entries: Sequence[Entry], *, max_characters: int, most: int = ...
    ) -> Mapping[int, TextFile]: ...
    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ...) -> Posted: ...
    async def react(self, message_id: int, emoji: str) -> bool: ...
    def typing(self) -> AbstractContextManager[None]: ...


def no_tool_lines(channel_id: int, first: int) -> Sequence[ToolLine]:
    """For an agent without tools: nothing from the message `first` on."""
    del channel_id, first
    return ()


Find = Callable[[int], Awaitable[Outlet | None]]  # the channel with this id, where the bot may speak there


@dataclass(frozen=True, kw_only=True)
class Agent:
    """Who takes the turn. `think` and `draw` call its model; `names` maps all agents' keys to shown names, `user_id`
    gives an agent's in Discord. `book` says what is set for it, and for the others, in a channel; `fit` is what a
    picture must be for its model. `tool_lines`: what its tools said since a message of a channel."""

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
    book: OptionBook
    windows: WindowMemory
    keeper: WindowKeeper
    show_costs: bool
    colour: int
    timezone: tzinfo
    clock: Callable[[], float]
    rng: random.Random
    user_id: Callable[[str], int | None]
    fit: Fit = ANY_MODEL
    pin_lines: PinLines | None = None
    tool_lines: Callable[[int, int], Sequence[ToolLine]] = no_tool_lines
    barge_in: BargeIn = "yield"  # what a person's message does to a conversation's turns

    @property
    def key(self) -> str:
        return self.identity.key

    def options_for(self, outlet: Outlet) -> Options:
        """What is set for the agent in this channel."""
        return self.book.options(self.key, outlet)

    def today(self) -> str:
        """The local date, as it stands in Redis keys: 2026-11-20."""
        return f"{datetime.fromtimestamp(self.clock(), self.timezone):%Y-%m-%d}"
