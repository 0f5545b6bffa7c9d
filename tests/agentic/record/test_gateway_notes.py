from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import discord
import pytest

from agentic.context.entries import Entry, Speaker
from agentic.state.context import Summary
from agentic.wire.entries import DeletionNote, ReactionNote
from tests.support.agent_scene import LOUNGE, THREAD, Scene
from tests.support.doubles import ALICE, BOB, GUILD, settle


@pytest.fixture
async def scene():
    made = await Scene("claude", "grok", "gemini").start()
    yield made
    await made.aclose()


async def every_bot(scene: Scene, event_name: str, event: Any) -> None:
    for cog in scene.cogs.values():
        for name, method in cog.__cog_listeners__:  # as py-cord finds them
            if name == event_name:
                await getattr(cog, method)(event)


def reaction(message_id: int, kind: str) -> discord.RawReactionActionEvent:
    data: Any = {"message_id": str(message_id), "channel_id": str(LOUNGE), "user_id": str(BOB), "guild_id": str(GUILD)}
    event = discord.RawReactionActionEvent(data, discord.PartialEmoji(name="🔥"), kind)
    event.member = SimpleNamespace(id=BOB, bot=False, display_name="Bob")  # type: ignore[assignment]
    return event


async def test_a_reaction_to_an_agents_post_is_noted_once_and_one_to_a_person_not_at_all(scene):
    asked = await scene.ask()
    post = scene.channel().sent[-1].id
    for message_id in (asked, post):
        await every_bot(scene, "on_raw_reaction_add", reaction(message_id, "REACTION_ADD"))
    await every_bot(scene, "on_raw_reaction_remove", reaction(post, "REACTION_REMOVE"))
    given = ReactionNote(message_id=post, channel_id=LOUNGE, user_id=BOB, emoji="🔥", at=scene.clock())
    assert scene.record == [given, given.model_copy(update={"given": False})]


async def test_reactions_to_a_post_of_a_persona_without_a_bot_are_noted_once(scene):
    await scene.ask()
    post = 10**18
    speaker = Speaker(77, "Historian", "agent", "historian", webhook=True)
    scene.transcripts.of(LOUNGE).add(Entry(post, speaker, "Rome fell.", scene.clock()))
    for kind in ("add", "remove", "add"):
        await every_bot(scene, f"on_raw_reaction_{kind}", reaction(post, f"REACTION_{kind.upper()}"))
    given = ReactionNote(message_id=post, channel_id=LOUNGE, user_id=BOB, emoji="🔥", at=scene.clock())
    assert scene.record == [given, given.model_copy(update={"given": False}), given]


async def test_what_is_deleted_is_noted_once_also_in_a_channel_that_no_bot_follows(scene):
    one = await scene.hear("one", author=ALICE)
    data: Any = {"id": str(one), "channel_id": str(LOUNGE)}
    await every_bot(scene, "on_raw_message_delete", discord.RawMessageDeleteEvent(data))
    bulk: Any = {"ids": ["7", "8", str(one)], "channel_id": "999"}
    await every_bot(scene, "on_raw_bulk_message_delete", discord.RawBulkMessageDeleteEvent(bulk))
    first, second = scene.record
    assert first == DeletionNote(channel_id=LOUNGE, message_ids=(one,), at=scene.clock())
    assert (second.channel_id, sorted(second.message_ids)) == (999, [7, 8])


async def test_a_thread_that_is_deleted_is_noted_once_with_the_messages_that_are_known(scene):
    said = await scene.hear("in a thread", channel=THREAD)
    data: Any = {"id": str(THREAD), "guild_id": str(GUILD), "parent_id": str(LOUNGE), "type": 11}
    await every_bot(scene, "on_raw_thread_delete", discord.RawThreadDeleteEvent(data))
    assert scene.record == [DeletionNote(channel_id=THREAD, message_ids=(said,), at=scene.clock(), whole=True)]


async def test_what_is_deleted_goes_from_the_summary_of_its_thread_too(scene):
    kept = scene.state.context.summaries.kept
    kept[THREAD] = kept[999] = Summary(text="Tea.", first=1, upto=9, messages=(7, 8))
    other: Any = {"ids": ["6"], "channel_id": "999"}
    await every_bot(scene, "on_raw_bulk_message_delete", discord.RawBulkMessageDeleteEvent(other))
    await settle()
    assert set(kept) == {THREAD, 999}
    bulk: Any = {"ids": ["7"], "channel_id": "999"}
    await every_bot(scene, "on_raw_bulk_message_delete", discord.RawBulkMessageDeleteEvent(bulk))
    thread: Any = {"id": str(THREAD), "guild_id": str(GUILD), "parent_id": str(LOUNGE), "type": 11}
    await every_bot(scene, "on_raw_thread_delete", discord.RawThreadDeleteEvent(thread))
    await settle()
    assert kept == {}
