"""The message and the thread of a room, against the stand-in: each made once, also when asked for twice."""

from __future__ import annotations

import pytest

from agentic.chat.directory import Directory
from agentic.chat.outlet import CannotPost
from agentic.local.discord.world import CREATE_PUBLIC_THREADS, MANAGE_WEBHOOKS, Overwrite
from agentic.rooms.room_bot import ThreadNow
from agentic.services.discord.gate import Gate
from agentic.services.discord.room_threads import DiscordRoomBot
from agentic.state.leases import ALWAYS_HELD
from tests.support.discord.faults import RestFault
from tests.support.discord.gateway_scene import Scene, scene
from tests.support.doubles import MemoryPosts

TEXT = "**Is P equal to NP?**: Grok and <@&1> @everyone discuss it"


def room_bot(s: Scene) -> DiscordRoomBot:
    return DiscordRoomBot("claude", s.bot, Gate(), Directory(), MemoryPosts(), ALWAYS_HELD)


def posted(s: Scene) -> list[dict]:
    return [message for message in s.server.messages("lounge") if message["content"] == TEXT]


@pytest.mark.promise(270)
async def test_a_message_is_found_again_and_a_thread_that_is_there_will_do():
    async with scene() as s:
        made, request = room_bot(s), s.server.world.new_id()
        first = await made.post_opening(s.channel.id, TEXT, request, again=False)
        assert await made.post_opening(s.channel.id, TEXT, request, again=True) == first
        assert await made.post_opening(s.channel.id, TEXT, s.server.world.new_id(), again=True) != first, "another room"
        for _ in range(2):
            await made.start_thread(s.channel.id, first, "P and NP", 4320)
        thread = s.server.world.channel(first)
        assert (thread.name, thread.parent_id) == ("P and NP", s.channel.id)
        asked, again = (request.payload for request in s.server.requests if request.path.endswith("/threads"))
        assert (asked["auto_archive_duration"], again) == (4320, None), "the second was refused"
        assert len(posted(s)) == 2
        await made.edit_opening(s.channel.id, first, "There is no room.")
        assert len(posted(s)) == 1
        texts = [request.payload for request in s.server.requests if request.payload and "content" in request.payload]
        assert all(payload["allowed_mentions"]["parse"] == [] for payload in texts)


@pytest.mark.promise(276)
async def test_how_a_thread_is_now_is_asked_of_discord_only_where_the_bot_does_not_see_it():
    async with scene() as s:
        made = room_bot(s)
        first = await made.post_opening(s.channel.id, TEXT, s.server.world.new_id(), again=False)
        await made.start_thread(s.channel.id, first, "P and NP", 4320)
        await s.server.wait_for(lambda: s.bot.get_channel(first))
        assert await made.read_thread(s.channel.id, first) == ThreadNow()
        assert not any(request.path == f"/channels/{first}" for request in s.server.requests)
        await s.server.change_channel(first, archived=True, locked=True)
        await s.server.wait_for(lambda: s.bot.get_channel(first) is None)
        assert await made.read_thread(s.channel.id, first) == ThreadNow(archived=True, locked=True)
        assert await made.read_thread(s.channel.id, 424242) == ThreadNow(deleted=True)
        assert await made.read_thread(7, first) is None, "the bot does not see the channel"
        s.server.faults.add(RestFault("GET", f"/channels/{first}$", 403))
        assert await made.read_thread(s.channel.id, first) is None


async def test_without_a_permission_the_problem_names_it():
    async with scene() as s:
        made, lounge = room_bot(s), s.server.world.channel("lounge")
        assert made.room_problem(s.channel.id, webhooks=True) is None
        assert made.may_write_in_threads(s.channel.id) is True
        assert "can't see" in (made.room_problem(7, webhooks=False) or "")
        assert made.may_write_in_threads(7) is None
        everyone = s.server.world.guild.id
        denied = Overwrite(everyone, 0, 0, CREATE_PUBLIC_THREADS | MANAGE_WEBHOOKS)
        await s.server.change_channel(lounge.id, overwrites={everyone: denied})
        await s.server.wait_for(lambda: made.room_problem(s.channel.id, webhooks=False))
        assert made.room_problem(s.channel.id, webhooks=False) == "the bot lacks Create Public Threads there"
        assert (made.room_problem(s.channel.id, webhooks=True) or "").endswith(
            "Create Public Threads and Manage Webhooks there"
        )


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "not_permitted"), (404, "gone"), (400, "discord_failed")], ids=str
)
async def test_each_refusal_of_discord_has_its_reason(status: int, reason: str):
    async with scene() as s:
        s.server.faults.add(RestFault("POST", "/messages$", status, times=9))
        with pytest.raises(CannotPost) as refused:
            await room_bot(s).post_opening(s.channel.id, TEXT, 1, again=False)
        assert refused.value.reason == reason
