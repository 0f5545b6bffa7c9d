"""Ask Discord and the providers of models. Each call blocks until the answer, for SECONDS or a little more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from agent_config import ModelSettings
from agentic.check.agents import error_of
from agentic.check.discord import (
    Application,
    BotView,
    NoAnswerError,
    TokenRefusedError,
    logged_in,
    read_application,
    read_bot_view,
    read_guild_channels,
    read_guild_names,
)
from agentic.check.run import quiet
from agentic.llm.errors import ModelError
from agentic.services.signal.client import SignalClient, SignalError

T = TypeVar("T")
SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class FoundBot:
    """The bot that a token belongs to."""

    id: int
    name: str
    application: Application


def look_up_bot(token: str) -> FoundBot:
    """Log in with the token. Raises TokenRefusedError, NoAnswerError."""

    async def ask() -> FoundBot:
        async with logged_in(token, SECONDS) as (http, me):
            return FoundBot(int(me["id"]), str(me["username"]), await read_application(http))

    return _run(ask())


def answers_on_signal(address: str) -> bool:
    """Whether a signal-cli-rest-api answers at the address."""

    async def ask() -> bool:
        try:
            async with asyncio.timeout(SECONDS), SignalClient(address) as client:
                return await client.about()
        except (SignalError, TimeoutError):
            return False

    return _run(ask())


def look_up_servers(tokens: Mapping[str, str]) -> tuple[dict[str, dict[int, str]], dict[str, str]]:
    """By agent: its servers (id → name), or the reason why they could not be read."""

    async def ask(token: str) -> dict[int, str]:
        async with logged_in(token, SECONDS) as (http, _):
            return await read_guild_names(http)

    return _run(_all(tokens, ask))


def look_up_channels(tokens: Mapping[str, str], servers: Iterable[int]) -> tuple[dict[str, BotView], dict[str, str]]:
    """By agent: its view of these servers with all their channels, or the reason why they could not be read."""

    async def ask(token: str) -> BotView:
        async with logged_in(token, SECONDS) as (http, me):
            view = await read_bot_view(http, me, (), tuple(servers))
            for guild_id in view.guilds:
                view.channels |= {channel.id: channel for channel in await read_guild_channels(http, guild_id)}
            return view

    return _run(_all(tokens, ask))


def model_error(model: ModelSettings) -> ModelError | None:
    """Ask the provider about the model, at no cost; None if it can be used."""
    return _run(error_of(model, model.model))


async def _all(tokens: Mapping[str, str], ask: Callable[[str], Awaitable[T]]) -> tuple[dict[str, T], dict[str, str]]:
    found: dict[str, T] = {}
    failed: dict[str, str] = {}

    async def one(agent: str, token: str) -> None:
        try:
            found[agent] = await ask(token)
        except TokenRefusedError:
            failed[agent] = "refuses the token"
        except NoAnswerError as error:
            failed[agent] = str(error)

    await asyncio.gather(*(one(agent, token) for agent, token in tokens.items()))
    return {agent: found[agent] for agent in tokens if agent in found}, failed


def _run(question: Coroutine[Any, Any, T]) -> T:
    with quiet():
        return asyncio.run(question)
