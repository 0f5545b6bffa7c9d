"""Moderators: who may run rooms and stop the bots without managing the server."""

from __future__ import annotations

from typing import Any

import pytest

from agent_cogs.slash_definitions import command_list
from agentic.actions.texts import TEXTS
from agentic.chat.service import Person
from tests.support.slash_scene import GUILD, LOUNGE, MANAGER, NAMES, THREAD, a_place, a_room, write_room

ROLE, OTHER_ROLE, ANOTHER_GUILD = 50, 60, 2
MODERATOR = Person(200, frozenset({ROLE}))


@pytest.mark.parametrize(
    ("who", "may"),
    [
        (Person(1), False),
        (Person(1, frozenset({55}), manages_messages=True), True),
        (Person(1, manages_guild=True), True),
        (Person(7), True),
        (Person(1, frozenset({55, 70})), True),
        (MODERATOR, False),
    ],
)
async def test_who_moderates_without_an_option(who: Person, may: bool):
    async with a_place(MODERATOR_IDS="7,70") as place:
        assert place.services.agents.moderators.has(who, GUILD) is may


@pytest.mark.parametrize(
    "value", [f"<@&{ROLE}>", str(ROLE), f"[{OTHER_ROLE}, {ROLE}]", f"<@&{OTHER_ROLE}>, <@&{ROLE}>"]
)
async def test_a_role_that_a_manager_sets_moderates_in_that_server_alone(value: str):
    async with a_place() as place:
        said = await place.use("config set", option="moderator_roles", value=value)
        assert said.startswith("moderator_roles is now ")
        assert said.endswith(" for all bots in this server.")
        has = place.services.agents.moderators.has
        assert has(MODERATOR, GUILD)
        assert not has(MODERATOR, ANOTHER_GUILD)
        assert not has(MODERATOR, None)
        await place.use("config set", option="moderator_roles", value="default")
        assert not has(MODERATOR, GUILD)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"value": "the mods"}, "Nothing changed. moderator_roles: expected roles, separated by commas."),
        ({"value": "5", "agent": "Grok"}, "Nothing changed. moderator_roles applies to all bots, so leave out Grok."),
    ],
)
async def test_what_names_no_role_or_one_bot_is_refused(values: dict[str, Any], told: str):
    async with a_place() as place:
        assert await place.use("config set", option="moderator_roles", **values) == told


async def test_moderators_run_rooms_and_others_read_whom_to_ask():
    async with a_place() as place:
        await write_room(place.link, a_room(THREAD))
        assert await place.use("room stop", MODERATOR, channel=THREAD, parent=LOUNGE) == TEXTS["moderators_only"]
        await place.use("config set", option="moderator_roles", value=str(ROLE))
        told = await place.use("room stop", MODERATOR, channel=THREAD, parent=LOUNGE)
        assert told == TEXTS["nobody"]  # it went to the coordinator, which isn't there
        for command in ("bots pause", "config show", "agent-file show"):
            assert await place.use(command, MODERATOR, agent="grok", file="soul.md") == TEXTS["managers_only"]
        assert await place.use("room stop", MANAGER, channel=THREAD, parent=LOUNGE) == TEXTS["nobody"]


def test_discord_hides_no_command_from_the_people_that_the_program_lets_use_it():
    assert [one["name"] for one in command_list(NAMES) if "default_member_permissions" in one] == []
