"""The gateway events that only keep the transcript true."""

from typing import Any

import discord

from agent_discord.directory import Directory
from agent_discord.listening_cog import ListeningCog
from agent_discord.transcript import Transcripts

THREAD = 101


class OwnCog(ListeningCog):
    @discord.Cog.listener("on_raw_reaction_add")
    async def on_sign(self, event: discord.RawReactionActionEvent) -> None:
        """Its own, for an event that its base hears too."""


def test_a_subclass_adds_a_listener_of_its_own_for_the_same_event():
    assert set(ListeningCog.__cog_listeners__) < set(OwnCog.__cog_listeners__)
    methods = [method for event, method in OwnCog.__cog_listeners__ if event == "on_raw_reaction_add"]
    assert methods == ["on_raw_reaction_add", "on_sign"]  # the transcript knows of it first


async def test_a_thread_that_is_deleted_is_forgotten():
    transcripts, bot = Transcripts(Directory()), discord.Client()
    transcripts.of(THREAD)
    deleted: Any = {"id": str(THREAD), "guild_id": "7", "parent_id": "100", "type": 11}
    await ListeningCog(bot, transcripts).on_raw_thread_delete(discord.RawThreadDeleteEvent(deleted))
    assert transcripts.known(THREAD) is None
