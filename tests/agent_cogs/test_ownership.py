"""One bot of the set has the commands; the others clear what they had."""

from __future__ import annotations

import pytest

from agent_cogs.slash_sync import ROUNDS_TO_WAIT, CommandOwnership, priority_of
from agent_config import load_settings

TOKENS = {"BOT_TOKEN_CLAUDE": "c", "BOT_TOKEN_GROK": "g", "ANTHROPIC_API_KEY": "k", "XAI_API_KEY": "k"}


class Key:
    """Where it stands whose the commands are."""

    def __init__(self, agent: str | None = None) -> None:
        self.agent = agent

    async def claim(self, agent: str, *, insist: bool = False) -> bool:
        if self.agent in (None, agent) or insist:
            self.agent = agent
        return self.agent == agent

    async def holder(self) -> str | None:
        return self.agent


class Servers:
    """What was done for which server; `refuse` are those that refuse."""

    def __init__(self, refuse: int | None = None) -> None:
        self.done: list[tuple[str, int]] = []
        self.refuse = refuse

    async def register(self, guild_id: int) -> bool:
        self.done.append(("register", guild_id))
        return guild_id != self.refuse

    async def clear(self, guild_id: int) -> bool:
        self.done.append(("clear", guild_id))
        return True


def keeper(agent: str, place, key: Key, servers: Servers, guilds=lambda: (1, 2)) -> CommandOwnership:
    return CommandOwnership(agent, place, key, servers, guilds)


def settings(**more: str):
    return load_settings({**TOKENS, "CHANNEL_THEME_MAP": "1", **more}, None)


def test_the_first_bot_with_a_token_and_a_key_has_the_commands_unless_the_owner_says_which():
    assert [priority_of(name, settings()) for name in ("chatgpt", "claude", "grok")] == ["later", "first", "later"]
    assert priority_of("chatgpt", settings(BOT_TOKEN_CHATGPT="o")) == "later", "it has no key and stays offline"
    chosen = settings(COMMANDS_BOT="grok")
    assert [priority_of(name, chosen) for name in ("claude", "grok")] == ["never", "chosen"]


async def test_the_first_registers_everywhere_and_once():
    key, servers = Key(), Servers()
    first = keeper("chatgpt", "first", key, servers)
    for _ in range(3):
        await first.update()
    assert (key.agent, servers.done) == ("chatgpt", [("register", 1), ("register", 2)])


async def test_the_others_leave_the_first_its_time_and_clear_what_they_had_once():
    key, servers = Key(), Servers()
    other = keeper("claude", "later", key, servers)
    await other.update()
    assert (key.agent, servers.done) == (None, [])
    key.agent = "chatgpt"
    for _ in range(4):
        await other.update()
    assert servers.done == [("clear", 1), ("clear", 2)]


async def test_another_takes_the_commands_when_the_first_does_not_come():
    key, servers = Key(), Servers()
    other = keeper("claude", "later", key, servers)
    for _ in range(ROUNDS_TO_WAIT + 1):
        await other.update()
    assert (key.agent, servers.done) == ("claude", [("register", 1), ("register", 2)])


async def test_whoever_had_the_commands_has_them_at_once_after_a_restart():
    servers = Servers()
    await keeper("claude", "later", Key("claude"), servers).update()
    assert servers.done == [("register", 1), ("register", 2)]


async def test_whom_the_owner_chose_takes_them_over_and_the_other_clears_its_own():
    key, old, new = Key(), Servers(), Servers()
    first, chosen = keeper("chatgpt", "first", key, old), keeper("grok", "chosen", key, new)
    await first.update()
    await chosen.update()
    await first.update()
    await chosen.update()
    assert key.agent == "grok"
    assert old.done == [("register", 1), ("register", 2), ("clear", 1), ("clear", 2)]
    assert new.done == [("register", 1), ("register", 2)]


async def test_a_server_that_comes_later_gets_them_and_one_that_refuses_is_not_pestered():
    guilds = [1]
    servers = Servers(refuse=1)
    first = keeper("chatgpt", "first", Key(), servers, lambda: list(guilds))
    await first.update()
    guilds.append(2)
    for _ in range(50):
        await first.update()
    assert servers.done == [("register", 1), ("register", 2)]
    for _ in range(20):
        await first.update()
    assert servers.done[2:] == [("register", 1)], "after an hour it is asked again"


@pytest.mark.parametrize("place", ["chosen", "never"])
async def test_the_place_says_who_never_has_them(place):
    key, servers = Key(), Servers()
    await keeper("grok", place, key, servers).update()
    assert key.agent == ("grok" if place == "chosen" else None)
    assert {what for what, _ in servers.done} == {"register" if place == "chosen" else "clear"}
