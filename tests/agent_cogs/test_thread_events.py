"""What py-cord lets through of threads' events, against the stand-in's gateway."""

from __future__ import annotations

import pytest

from agent_cogs.thread_events import ThreadEvents
from tests.support.discord.gateway_scene import Scene, scene


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    async def changed(self, thread_id: int, *, archived: bool, locked: bool) -> None:
        self.heard.append(("changed", thread_id, archived, locked))
        if archived and locked:
            raise RuntimeError("a fault of the program")

    async def deleted(self, thread_id: int) -> None:
        self.heard.append(("deleted", thread_id))

    async def channel_deleted(self, channel_id: int) -> None:
        self.heard.append(("channel deleted", channel_id))

    async def permissions_changed(self, guild_id: int) -> None:
        self.heard.append(("permissions", guild_id))


def listening(s: Scene) -> Listener:
    listener = Listener()
    s.bot.add_cog(ThreadEvents(s.bot, listener))
    return listener


@pytest.mark.promise(272)
async def test_an_archived_thread_is_heard_of_each_time_though_it_leaves_the_cache():
    async with scene() as s:
        listener = listening(s)
        thread = int((await s.server.create_thread("Alice", "lounge", "a room"))["id"])
        await s.server.change_channel(thread, archived=True)
        await s.server.change_channel(thread, archived=False)
        await s.server.change_channel(thread, archived=True, locked=True)
        await s.server.change_channel(thread, archived=False, locked=False)
        await s.server.delete_channel(thread)
        await s.server.wait_for(lambda: len(listener.heard) == 5)
        assert listener.heard == [
            ("changed", thread, True, False),
            ("changed", thread, False, False),
            ("changed", thread, True, True),
            ("changed", thread, False, False),
            ("deleted", thread),
        ]


async def test_a_deleted_channel_and_other_rights_are_heard_of():
    async with scene() as s:
        listener = listening(s)
        guild = s.server.world.guild
        await s.server.change_role(guild.id, permissions=0)
        await s.server.change_role(guild.id, name="people")
        await s.server.delete_channel("lounge")
        await s.server.wait_for(lambda: len(listener.heard) == 2)
        assert listener.heard[0] == ("permissions", guild.id)
        assert listener.heard[1][0] == "channel deleted"
