"""The list of commands of a server, against an application's list at the stand-in."""

import pytest

from agent_cogs.slash_sync import CommandSync
from agentic.services.discord.gate import Gate
from tests.support.discord.faults import RestFault
from tests.support.discord.gateway_scene import scene

COMMAND = {"name": "hello", "type": 1, "description": "Says hello.", "options": []}


async def test_what_discord_says_against_the_commands_is_logged_with_its_status_and_words(caplog):
    async with scene() as s:
        says = {"code": 50035, "message": "Invalid Form Body", "errors": {"0": {"name": {"_errors": [
            {"code": "BASE_TYPE_BAD_LENGTH", "message": "Must be between 1 and 32 in length."}
        ]}}}}  # fmt: skip
        s.server.faults.add(RestFault("PUT", "/commands$", 400, body=says))
        guild = s.bot.guilds[0].id
        sync = CommandSync(s.bot, Gate(), [COMMAND])
        assert not await sync.register(guild)
        assert f"server {guild}: updating commands failed: HTTP 400, code 50035" in caplog.text
        assert "Must be between 1 and 32 in length." in caplog.text
        assert len(caplog.messages[-1].splitlines()) == 1
        assert await sync.register(guild)


@pytest.mark.parametrize("kept", [{"message": "no list"}, [5], [{"id": "1"}]])
async def test_a_list_of_commands_that_cannot_be_read_is_named_and_asked_for_again(caplog, kept):
    async with scene() as s:
        s.server.faults.add(RestFault("GET", "/commands$", 200, body=kept))
        guild = s.bot.guilds[0].id
        sync = CommandSync(s.bot, Gate(), [COMMAND])
        assert not await sync.register(guild)
        assert "updating commands failed: UnreadableAnswer" in caplog.text
        assert await sync.register(guild)
