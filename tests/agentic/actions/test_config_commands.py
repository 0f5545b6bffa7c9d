"""`/config`: who may set what, where it holds, and where each option comes from."""

from __future__ import annotations

import pytest

from agentic.actions.base import ActionRequest
from agentic.actions.texts import TEXTS
from agentic.context.entries import Entry, Speaker
from agentic.context.options import LIVE, OWNERS_LIVE, Options
from agentic.state import live_options
from agentic.state.silence import ChannelRef
from tests.support.slash_scene import (
    ANN,
    DEBATE,
    ELSEWHERE,
    GUILD,
    LOUNGE,
    MANAGER,
    MEMBER,
    THREAD,
    Place,
    Reply,
    a_place,
)


def pin(place: Place, channel: int, number: int, text: str) -> None:
    speaker = Speaker(ANN, "Ann", "person", may_manage=True)
    entry = Entry(number, speaker, text, 1.0, pinned=True, hidden=True)
    place.transcripts.of(channel).pins.put(entry)


async def shown(place: Place, **values: str) -> str:
    return str(await place.use("config show", agent="grok", **values))


async def test_an_option_holds_at_once_where_it_was_set_and_is_taken_back():
    async with a_place() as place:
        said = await place.use("config set", option="max_messages", value="60", agent="grok")
        assert said == "max_messages is now 60 for Grok in this channel."
        assert "`max_messages` 60: /config set, this channel\n" in await shown(place)
        there = str(await place.use("config show", agent="grok", channel=DEBATE))
        assert "`max_messages` 40: .env" in there
        assert "`max_messages` 40: .env" in str(await place.use("config show", agent="claude"))
        again = await place.use("config set", option="max_messages", value=" Default ", agent="grok")
        assert again.startswith("/config no longer sets max_messages for Grok in this channel.")
        assert "`max_messages` 40: .env" in await shown(place)
        nothing = await place.use("config set", option="max_messages", value="default")
        assert nothing == "/config hadn't set max_messages for all bots in this channel, so nothing changed."


async def test_all_agents_of_a_server_have_it_and_a_thread_has_its_channels():
    async with a_place() as place:
        await place.use("config set", option="stop", value='[bye, "a: b"]', place="server")
        assert "`stop` bye, a: b: /config set, this server, all bots" in await shown(place)
        await place.use("config set", option="stream", value="true", agent="Grok")
        thread = await place.use("config show", agent="grok", channel=THREAD, parent=LOUNGE)
        assert "`stream` true: /config set, this channel" in str(thread)


async def test_what_is_set_for_a_narrower_place_or_for_one_bot_wins_and_the_person_is_told():
    async with a_place() as place:
        await place.use("config set", option="max_images", value="1")
        wider = await place.use("config set", option="max_images", value="3", place="server")
        assert "still wins" in wider
        assert "`max_images` 1: /config set, this channel" in await shown(place)
        await place.use("config set", option="stream", value="true", agent="Grok")
        assert "still wins" in await place.use("config set", option="stream", value="false")
        assert "still wins" not in await place.use("config set", option="stream", value="true", agent="Claude")


async def test_a_pin_wins_and_the_person_is_told():
    async with a_place() as place:
        pin(place, LOUNGE, 7, ".config\n---\nmax_images: 1")
        said = await place.use("config set", option="max_images", value="3")
        assert said == "max_images is now 3 for all bots in this channel; a pinned .config here still wins."
        assert "`max_images` 1: the pinned .config 7" in await shown(place)


@pytest.mark.promise(411)
@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("max_messages", "many", "Nothing changed. max_messages: expected a whole number from 1 to 400."),
        ("max_messages", "[", "Nothing changed. max_messages: expected a whole number from 1 to 400."),
        ("max_mesages", "3", "Nothing changed. max_mesages: unknown option; did you mean max_messages?"),
        ("max_mesages", "default", "Nothing changed. max_mesages: unknown option"),
        ("model", "openai/x", "Nothing changed. Only the owner can set model, in the files in config/."),
        ("custom_fields", "{a: 1}", "Nothing changed. Only the owner can set custom_fields, in the files in config/."),
        ("config_roles", "7", "Nothing changed. Only the owner can set config_roles, in the files in config/."),
    ],
)
async def test_what_cannot_be_set_changes_nothing(option: str, value: str, told: str):
    async with a_place(OWNER_USER_IDS=str(ANN)) as place:
        assert (await place.use("config set", option=option, value=value)).startswith(told)
        assert place.live.layers("grok", GUILD, [LOUNGE]) == []


async def test_an_agent_or_a_place_that_is_gone_is_said_so():
    async with a_place() as place:
        for command in ("config show", "config set"):
            told = await place.use(command, option="stream", value="true", agent="gork")
            assert "Did you mean Grok?" in told
            assert "Claude, Grok" in told
        assert "channel" in await place.use("config set", option="stream", value="true", place="chanel")
        assert "unknown option" in await shown(place, option="max_mesages")


@pytest.mark.parametrize("part", ["show", "set"])
async def test_it_is_for_the_servers_managers(part: str):
    async with a_place() as place:
        assert (
            await place.use(f"config {part}", MEMBER, agent="grok", option="stream", value="true")
            == TEXTS["managers_only"]
        )
        assert place.notes == []


@pytest.mark.promise(411)
@pytest.mark.parametrize("option", sorted(OWNERS_LIVE))
async def test_what_costs_money_or_keeps_words_is_the_owners_to_set(option: str):
    async with a_place() as place:
        refused = await place.use("config set", option=option, value="true")
        assert refused.startswith(
            f"Only the bots' owner can set {option}, because it can cost money or store what people"
        )
        assert f"set OWNER_USER_IDS={ANN} in .env" in refused
        assert place.live.layers("grok", GUILD, [LOUNGE]) == []
        place.known.application_owners = {ANN}
        assert "is now true for all bots" in await place.use("config set", option=option, value="yes")


@pytest.mark.promise(411)
async def test_everywhere_is_the_owners_where_the_bots_are_in_several_servers():
    async with a_place() as place:
        assert "everywhere" in await place.use("config set", option="stream", value="true", place="everywhere")
        place.guilds[DEBATE] = ELSEWHERE
        assert (
            await place.use("config set", option="mode", value="chat", place="everywhere")
            == TEXTS["everywhere_is_the_owners"]
        )
    async with a_place(OWNER_USER_IDS=str(ANN)) as place:
        place.guilds[DEBATE] = ELSEWHERE
        assert "everywhere" in await place.use("config set", option="stream", value="true", place="everywhere")


async def test_the_record_has_who_set_what():
    async with a_place() as place:
        await place.use("config set", option="max_images", value="3", agent="grok")
        await place.use("config show", agent="grok")
        (note,) = place.notes
    assert (note.by, note.action, note.agent, note.detail) == (str(ANN), "set_option", "grok", "max_images: 3")
    assert note.channel_id == LOUNGE
    assert note.outcome == "option_set"


async def test_a_full_list_is_said_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_options, "MAX_ENTRIES", 0)
    async with a_place() as place:
        assert "Too many options are already set" in await place.use("config set", option="stream", value="true")


async def test_a_server_that_is_full_leaves_others_their_space(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_options, "MAX_ENTRIES", 1)
    async with a_place(OWNER_USER_IDS=str(ANN)) as place:
        for reach, channel in (("channel", LOUNGE), ("channel", DEBATE), ("server", LOUNGE)):
            said = await place.use("config set", option="stream", value="true", channel=channel, place=reach)
            assert ("Too many options are already set" in said) == (reach == "server" or channel == DEBATE)
        assert "is now true" in await place.use("config set", option="stream", value="true", place="everywhere")


async def test_one_option_is_explained_alone():
    async with a_place() as place:
        one = await shown(place, option="max_images")
        assert one.splitlines() == [
            "`max_images` 4: built in",
            "Grok takes a whole number from 0 to 20; /config set can change it (server managers).",
        ]
        assert "/config set can change it (the bots' owner)" in await shown(place, option="recall")
        assert "/config set can't change it" in await shown(place, option="model")


async def test_a_long_list_comes_as_a_file_and_fields_stay_hidden():
    async with a_place() as place:
        for option in sorted(LIVE - OWNERS_LIVE - {"stop"}):
            value = str(getattr(Options(), option))
            await place.use("config set", option=option, value="x" if value == "None" and option == "name" else value)
        await place.use("config set", option="stop", value=f"[{', '.join('y' * 90 for _ in range(9))}]")
        reply = await place.use("config show", agent="grok")
    assert isinstance(reply, str | Reply)
    text = reply if isinstance(reply, str) else (reply.file or ("", ""))[1]
    assert "custom_fields none" in text


@pytest.mark.parametrize(
    ("command", "typed", "first", "absent"),
    [
        ("config set", "max m", "max_messages", "model"),
        ("config set", "", "always_search", "custom_fields"),
        ("config show", "mod", "mode", "stream"),
    ],
)
async def test_options_are_offered_while_they_are_typed(command: str, typed: str, first: str, absent: str):
    async with a_place() as place:
        used = ActionRequest(id=1, name=command, who=MANAGER, place=ChannelRef(LOUNGE, guild_id=GUILD))
        choices = await place.actions.complete(used, "option", typed)
    names = [choice.value for choice in choices]
    assert names[0] == first
    assert absent not in names
    assert len(names) <= 25


@pytest.mark.parametrize(
    ("option", "value", "for_whom"),
    [
        ("max_images", "3 grok", "Grok"),
        ("max_images", "@Grok 3", "Grok"),
        ("grok", "max_images 3", "Grok"),
        ("Max-Images", "`3`", "all bots"),
    ],
)
async def test_the_agent_may_stand_before_or_behind_the_value(option: str, value: str, for_whom: str):
    async with a_place() as place:
        said = await place.use("config set", option=option, value=value)
        assert said == f"max_images is now 3 for {for_whom} in this channel."
        said = await place.use("config set", option=option, value=value.replace("3", "default"))
        assert said.startswith(f"/config no longer sets max_images for {for_whom}")


@pytest.mark.parametrize("value", ["true", "Yes", "ON", "1", "enabled", "`true`", '"true"', "y", "True grok"])
async def test_a_switch_is_understood_in_every_usual_form(value: str):
    async with a_place() as place:
        assert (await place.use("config set", option="stream", value=value)).startswith("stream is now true for ")


async def test_a_text_with_an_agents_name_in_it_stays_whole_and_an_unknown_agent_is_no_value():
    async with a_place() as place:
        assert (await place.use("config set", option="stop", value="ask grok")).startswith(
            "stop is now ask grok for all "
        )
        refused = await place.use("config set", option="max_images", value="3 nobody")
        assert refused.startswith("Nothing changed. max_images: expected a whole number")


async def test_what_only_the_owner_sets_is_refused_however_it_is_written():
    async with a_place() as place:
        for option, value in (("recall", "true grok"), ("grok", "recall true"), ("Recall", "on")):
            assert "Only the bots' owner can set recall" in await place.use("config set", option=option, value=value)
