"""The Live page's third column: who can speak in a channel, and a bot's card."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.records import CHANNELS

from agentic.console.json_values import today
from agentic.console.parts import ConsoleContext, RecordFile
from agentic.personas.store import change
from agentic.state.rooms import Room, RoomMember
from agentic.wire import keys
from tests.agentic.console.conftest import Pages, pages_of

CHANNEL, THREAD = next(iter(CHANNELS)), 77


async def test_a_channel_has_all_bots_and_a_room_its_members(pages: Pages, parts: ConsoleContext) -> None:
    await parts.state.coordination.presence.renew("claude", "")
    spent = {f"channel:{CHANNEL}": 250_000}
    await parts.state.link.call(lambda redis: redis.hset(keys.budget(today(parts)), mapping=spent))
    here = await pages.get(f"/api/live/channels/{CHANNEL}/members")
    online = {member["agent"]: member["online"] for member in here["items"]}
    assert online == {"chatgpt": False, "claude": True, "gemini": False, "grok": False}
    assert here["today"] == {"spent": 0.25, "reserved": 0.0, "cap": None}
    room = Room(
        thread_id=THREAD,
        channel_id=CHANNEL,
        conversation_id="c",
        topic="Tea?",
        members=(RoomMember(name="grok", shown="Grok"), RoomMember(name="deleted", shown="Gone")),
    )
    await parts.state.link.call(lambda redis: redis.set(keys.room(THREAD), room.model_dump_json()))
    room_members = (await pages.get(f"/api/live/channels/{THREAD}/members"))["items"]
    assert [member["agent"] for member in room_members] == ["grok"]


@pytest.mark.parametrize(
    ("files", "about"),
    [
        ({}, None),
        ({"soul.md": "# Soul\n\nLoud and\nkind.\n\n## Talk\nBrief."}, "Loud and kind."),
        ({"identity.md": "---\ninterests: tea\n---\n\nYou like tea.\n"}, "You like tea."),
        ({"soul.md": "word " * 200}, "word " * 55 + "word…"),
    ],
)
async def test_a_card_says_in_short_who_a_bot_is(
    pages: Pages, parts: ConsoleContext, files: dict[str, str], about: str | None
) -> None:
    folder = parts.settings.personas_dir / "claude"
    folder.mkdir(parents=True)
    for name, text in files.items():
        change(folder, name, lambda _, text=text: text)  # type: ignore[misc]
    card = await pages.get("/api/agents/claude/card")
    usual = parts.settings.agents["claude"].spec.personality
    assert card["about"] == about or (about is None and usual.startswith(card["about"].removesuffix("…")))
    assert (await pages.client.get("/api/agents/nobody/card")).status == 404


async def test_a_card_has_the_days_turns_and_the_reactions_to_them(pages: Pages, parts: ConsoleContext) -> None:
    card, whole = await pages.get("/api/agents/claude/card"), await pages.get("/api/agents/claude")
    assert card["outcomes"] == whole["outcomes"] != {}
    month = {each["emoji"]: each["count"] for each in whole["reactions"]}
    assert card["reactions"]
    assert all(each["count"] <= month[each["emoji"]] for each in card["reactions"])
    async with pages_of(replace(parts, store=RecordFile(None))) as without:
        card = await without.get("/api/agents/claude/card")
    assert (card["outcomes"], card["reactions"]) == ({}, [])
