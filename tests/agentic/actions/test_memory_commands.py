"""`/profile` and `/privacy` as a person uses them."""

from __future__ import annotations

import json

import pytest

from agentic.actions.base import Form
from agentic.actions.personal import PROFILE, TOPICS
from agentic.agent import privacy
from agentic.agent.privacy import DELETED, ELSEWHERE, NO_PROFILE
from agentic.context.options import Options
from agentic.record.memories import Profile
from agentic.record.notes import ChannelReader
from agentic.wire.entries import ConsentNote, ProfileNote
from tests.support.slash_scene import BOB, LOUNGE, MANAGER, MEMBER, NOW, Reply, a_place

BEES = Profile(BOB, "Bob", ("bees", "tea"), "model", NOW)


async def test_a_person_sees_their_own_profile_and_nobody_elses() -> None:
    async with a_place() as place:
        place.memory.profiles = {BOB: BEES}
        assert "- bees\n- tea" in await place.use("profile show", MEMBER)
        assert await place.use("profile show", MANAGER) == NO_PROFILE


async def test_a_profile_is_edited_in_a_form_one_topic_a_line() -> None:
    async with a_place() as place:
        place.memory.profiles = {BOB: BEES}
        form = await place.use("profile edit", MEMBER)
        assert isinstance(form, Form)
        assert [field.text for field in form.fields] == ["bees\ntea"]
        said = await place.use(f"form {form.id}", MEMBER, id=PROFILE, **{TOPICS: "wasps\ntea"})
        assert said == "Saved. Your profile now has 2 topics."
        (note,) = place.notes
        assert note == ProfileNote(user_id=BOB, topics=("wasps", "tea"), by="person", at=NOW)
        assert "- wasps" in await place.use("profile show", MEMBER)


async def test_a_profile_is_removed() -> None:
    async with a_place() as place:
        place.memory.profiles = {BOB: BEES}
        assert await place.use("profile delete", MEMBER) == DELETED
        assert await place.use("profile show", MEMBER) == NO_PROFILE


async def test_a_long_profile_comes_as_a_file() -> None:
    async with a_place() as place:
        place.memory.profiles = {BOB: Profile(BOB, "Bob", tuple(f"{n:080}" for n in range(30)), "model", NOW)}
        shown = await place.use("profile show", MEMBER)
        assert isinstance(shown, Reply)
        assert shown.file is not None
        assert (shown.file[0], f"{29:080}" in shown.file[1]) == ("profile.txt", True)


async def test_where_the_record_is_elsewhere_reading_says_so_and_removing_works() -> None:
    async with a_place() as place:
        place.memory.is_here = False
        assert {await place.use(f"profile {part}", MEMBER) for part in ("show", "edit")} == {ELSEWHERE}
        assert await place.use("profile delete", MEMBER) == DELETED
        assert ELSEWHERE in await place.use("privacy", MEMBER)


@pytest.mark.parametrize("wish", ["on", "off"])
async def test_unasked_messages_are_allowed_and_refused_by_the_person_alone(wish: str) -> None:
    async with a_place() as place:
        await place.use("privacy", MEMBER, unprompted=wish)
        assert place.notes == [ConsentNote(user_id=BOB, unasked=wish == "on", because="command", at=NOW)]


async def test_the_log_of_a_channel_is_named_by_privacy_and_status() -> None:
    async with a_place() as place:
        assert "log" not in await place.use("bots status", MEMBER)
        hearing = ChannelReader(agent="claude", options=Options(message_log=True), service="discord")
        place.channel_readers.add("claude", lambda channel_id: hearing if channel_id == LOUNGE else None)
        line = "messages here are stored for 30 days, with names"
        assert line in await place.use("privacy", MEMBER)
        assert f"**Message log**: {line} (see `/privacy`)" in await place.use("bots status", MEMBER)


async def test_a_person_gets_what_is_kept_about_them_as_a_file_that_others_do_not_see() -> None:
    async with a_place() as place:
        reply = await place.use("privacy", MEMBER, export="file")
        assert isinstance(reply, Reply)
        assert not reply.public
        assert reply.file is not None
        name, text = reply.file
        assert name.endswith(".json")
        kept = {each["what"]: each["rows"] for each in json.loads(text)["stored about you"]}
        (reactions,) = (rows for what, rows in kept.items() if what.startswith("reactions"))
        assert reactions == [{"message_id": 7, "emoji": "🔥", "at": "1970-01-01T00:00:00+00:00"}]
        left = {each["what"]: each["why"] for each in json.loads(text)["stored, but not in this file"]}
        assert "contains other people's words" in [why for what, why in left.items() if what.startswith("prompts")]
        assert all(left.values())


async def test_an_export_without_the_record_says_so_and_a_large_one_leaves_out_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_place() as place:
        place.memory.is_here = False
        reply = await place.use("privacy", MEMBER, export="file")
        assert isinstance(reply, Reply)
        assert ELSEWHERE in reply.text
        assert reply.file is not None
        assert "🔥" not in reply.file[1]
        left = {each["what"]: each["why"] for each in json.loads(reply.file[1])["stored, but not in this file"]}
        assert [why for what, why in left.items() if what.startswith("a record of each turn")] == [ELSEWHERE]
        place.memory.is_here = True
        place.memory.exported = [{"emoji": f"{'x' * 90}{number}", "at": 0.0, "message_id": 1} for number in range(99)]
        monkeypatch.setattr(privacy, "MAX_EXPORT", 3_000)
        reply = await place.use("privacy", MEMBER, export="file")
        assert isinstance(reply, Reply)
        assert reply.file is not None
        newest = json.loads(reply.file[1])["stored about you"]
        (rows,) = (each["rows"] for each in newest if each["rows"])
        assert rows[0]["emoji"].endswith("x0")
        assert 0 < len(rows) < 30
        assert f"the {99 - len(rows)} oldest entries are left out" in reply.text


async def test_a_wish_and_an_export_in_one_command_are_both_carried_out() -> None:
    async with a_place() as place:
        reply = await place.use("privacy", MEMBER, unprompted="off", export="file")
        assert isinstance(reply, Reply)
        assert "Bots no longer write to you on their own" in reply.text
        assert reply.file is not None
        assert place.notes == [ConsentNote(user_id=BOB, unasked=False, because="command", at=NOW)]


async def test_a_record_that_cannot_be_read_now_sends_no_half_file() -> None:
    async with a_place() as place:
        place.memory.exported = None
        assert await place.use("privacy", MEMBER, export="file") == privacy.EXPORT_FAILED


async def test_whoever_asked_to_be_forgotten_has_no_profile_that_is_still_on_its_way() -> None:
    async with a_place() as place:
        await place.use(f"form {PROFILE}", MEMBER, id=PROFILE, **{TOPICS: "wasps"})
        await place.use("privacy", MEMBER, unprompted="on")
        await place.use("forget me", MEMBER)
        assert await place.use("profile show", MEMBER) == NO_PROFILE
        assert await place.services.record.own_memory.consent(BOB) is None
        assert [note.user_id for note in place.notes if isinstance(note, ProfileNote)] == [BOB]
