"""🔕 at a message that nobody asked for: it counts at once, from the person that the message was for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import discord
import pytest

from agentic.chat.service import Person, PersonReaction
from agentic.inbox.stop_orders import OptOutReactions
from agentic.wire.entries import ConsentNote, UnaskedNote
from tests.support.agent_scene import LOUNGE, Scene
from tests.support.doubles import ALICE, BOB, settle
from tests.support.idle_scene import reflect
from tests.support.remembered import Remembered


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = await Scene("claude", "grok").start()
    yield scene
    await scene.aclose()


async def posted(scene: Scene) -> int:
    """An unasked message for Alice."""
    result = await reflect(scene, "discover")
    assert result.message_id is not None
    return result.message_id


async def sign(scene: Scene, message_id: int, *, by: int = ALICE, emoji: str = "🔕") -> None:
    data: Any = {"message_id": str(message_id), "channel_id": str(LOUNGE), "user_id": str(by), "guild_id": "7"}
    data["message_author_id"] = str(scene.me.id)
    for cog in scene.cogs.values():
        event = discord.RawReactionActionEvent(data, discord.PartialEmoji(name=emoji), "REACTION_ADD")
        event.member = SimpleNamespace(id=by, bot=False, display_name="someone")  # type: ignore[assignment]
        await cog.on_stop_reaction(event)
    await settle()


def noted(scene: Scene) -> list[tuple[int, bool, str]]:
    consents = [entry for entry in scene.record if isinstance(entry, ConsentNote)]
    return [(entry.user_id, entry.unasked, entry.because) for entry in consents]


def acknowledged(scene: Scene) -> list[tuple[int, str]]:
    return [given for client in scene.clients.values() for given in client.channels[LOUNGE].reacted]


@pytest.mark.promise(452)
async def test_the_persons_own_sign_ends_them_is_noted_and_shown_once(scene: Scene):
    message_id = await posted(scene)
    await sign(scene, message_id)
    await sign(scene, message_id)
    assert noted(scene) == [(ALICE, False, "🔕")]
    assert acknowledged(scene) == [(message_id, "✅")]
    again = await reflect(scene, "discover", "r2")
    assert (again.reason, len(scene.texts())) == ("unwanted", 1)


@pytest.mark.promise(452)
@pytest.mark.parametrize("other", [{"by": BOB}, {"emoji": "👍"}])
async def test_nobody_elses_sign_and_no_other_one_counts(scene: Scene, other: dict[str, Any]):
    await sign(scene, await posted(scene), **other)
    assert (noted(scene), acknowledged(scene)) == ([], [])


async def test_at_an_answer_the_sign_says_nothing(scene: Scene):
    await scene.ask()
    await sign(scene, scene.channel().sent[0].id)
    assert noted(scene) == []


async def test_who_wants_them_again_can_end_them_again(scene: Scene):
    message_id = await posted(scene)
    await sign(scene, message_id)
    await scene.services.record.consents.allow(ALICE, because="command")
    second = await reflect(scene, "discover", "r2")
    assert second.message_id is not None
    await sign(scene, second.message_id)
    assert noted(scene) == [(ALICE, False, "🔕"), (ALICE, True, "command"), (ALICE, False, "🔕")]


async def test_a_command_is_noted_whatever_was_said_before(scene: Scene):
    await sign(scene, await posted(scene))
    assert not await scene.services.record.consents.refuse(ALICE, because="command")
    assert noted(scene) == [(ALICE, False, "🔕"), (ALICE, False, "command")]


@pytest.mark.promise(493)
async def test_at_a_message_that_redis_has_forgotten_the_sign_counts_by_the_record(scene: Scene):
    message_id = await posted(scene)
    scene.state.posts.proactive.posts.clear()
    sent = UnaskedNote(
        message_id=message_id,
        agent="claude",
        task="discover",
        channel_id=LOUNGE,
        person_id=ALICE,
        cause="trains",
        at=scene.clock.now,
    )
    services = replace(
        scene.services, record=replace(scene.services.record, memory=Remembered(sent={message_id: sent}))
    )
    signs = OptOutReactions(services, scene.cog.channels)
    for giver in (BOB, ALICE):
        await signs.on_reaction(PersonReaction(Person(giver), LOUNGE, message_id, scene.me.id, "🔕"))
    assert noted(scene) == [(ALICE, False, "🔕")]
    assert acknowledged(scene) == [(message_id, "✅")]


class Past:
    """A channel whose past is read: who gave the sign to its messages."""

    channel_id = LOUNGE

    def __init__(self, *givers: int) -> None:
        self.people, self.asked = [Person(giver) for giver in givers], 0

    async def givers(self, message_id: int, emoji: str) -> list[Person]:
        assert emoji == "🔕"
        self.asked += 1
        return self.people


@pytest.mark.promise(452)
async def test_a_sign_that_was_missed_counts_once(scene: Scene):
    message_id, past = await posted(scene), Past(BOB, ALICE)
    signs: Any = scene.cog.host._opt_outs
    await signs.on_missed(past, message_id)
    assert noted(scene) == [(ALICE, False, "🔕")]
    await scene.services.record.consents.allow(ALICE, because="command")
    await signs.on_missed(past, message_id)  # after the next start: an old sign, and a newer word
    assert noted(scene)[-1] == (ALICE, True, "command")


async def test_of_ordinary_messages_and_others_signs_nothing_is_asked_or_noted(scene: Scene):
    message_id, past = await posted(scene), Past(BOB)
    signs: Any = scene.cog.host._opt_outs
    await signs.on_missed(past, message_id)
    await signs.on_missed(past, 12345)
    assert (noted(scene), past.asked) == ([], 1)
