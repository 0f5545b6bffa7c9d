"""The gateway events that only keep the transcript true."""

from types import SimpleNamespace
from typing import Any

import discord
import pytest

from agent_cogs.base import TranscriptCog
from agentic.chat.directory import Directory
from agentic.chat.transcript import Transcripts
from agentic.context.entries import Entry, Speaker

THREAD = 101


class OwnCog(TranscriptCog):
    @discord.Cog.listener("on_raw_reaction_add")
    async def on_sign(self, event: discord.RawReactionActionEvent) -> None:
        """Its own, for an event that its base hears too."""


def test_a_subclass_adds_a_listener_of_its_own_for_the_same_event():
    assert set(TranscriptCog.__cog_listeners__) < set(OwnCog.__cog_listeners__)
    methods = [method for event, method in OwnCog.__cog_listeners__ if event == "on_raw_reaction_add"]
    assert methods == ["on_raw_reaction_add", "on_sign"]  # the transcript knows of it first


async def test_a_thread_that_is_deleted_is_forgotten():
    transcripts, bot = Transcripts(Directory()), discord.Client()
    transcripts.of(THREAD)
    deleted: Any = {"id": str(THREAD), "guild_id": "7", "parent_id": "100", "type": 11}
    await TranscriptCog(bot, transcripts).on_raw_thread_delete(discord.RawThreadDeleteEvent(deleted))
    assert transcripts.known(THREAD) is None


@pytest.mark.parametrize(
    ("user_id", "name", "bot", "shown"),
    [
        (21, "Claude", True, "Claude"),
        (11, "Claude", False, "Claude, a person"),
        (11, "\u0421laude]\n", False, "\u0421laude, a person"),
        (12, "Claude", True, "Claude, another bot"),
        (11, "Alice", False, "Alice"),
    ],
)
async def test_a_stranger_under_an_agents_name_gets_a_distinct_name(user_id: int, name: str, bot: bool, shown: str):
    directory = Directory({"claude": "Claude"})
    directory.learn("claude", 21)
    transcripts = Transcripts(directory)
    transcripts.of(100).add(Entry(1, Speaker(11, "Alice", "person"), "hello", 0.0))
    data: Any = {"message_id": "1", "channel_id": "100", "user_id": str(user_id), "guild_id": "7"}
    event = discord.RawReactionActionEvent(data, discord.PartialEmoji(name="\U0001f525"), "REACTION_ADD")
    event.member = SimpleNamespace(id=user_id, bot=bot, display_name=name)  # type: ignore[assignment]
    await TranscriptCog(discord.Client(), transcripts).on_raw_reaction_add(event)
    [entry] = transcripts.of(100).entries()
    assert entry.reactions[0].by == (shown,)
