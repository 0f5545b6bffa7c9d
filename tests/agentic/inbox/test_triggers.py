from types import SimpleNamespace

import pytest

from agentic.agent.services import IgnoredPeople
from agentic.chat.service import IncomingMessage, ServedChannels
from agentic.inbox.triggers import Call, detect_call

ME, OTHER, PERSON, BOTS_ROLE = 10, 11, 20, 31


def heard(**more):
    fields = {"author_id": PERSON, "by_person": True, "guild_id": 1, "channel_id": 100, **more}
    return IncomingMessage(**fields)


@pytest.mark.parametrize(
    ("facts", "call"),
    [
        ({}, None),
        ({"mentioned_users": frozenset({ME})}, Call.MENTION),
        ({"mentioned_users": frozenset({OTHER})}, None),
        ({"mentioned_users": frozenset({ME, OTHER})}, Call.MENTION),
        ({"mentioned_roles": frozenset({BOTS_ROLE})}, Call.ROLE),
        ({"mentioned_roles": frozenset({99})}, None),
        ({"replied_to": ME}, Call.REPLY),
        ({"replied_to": OTHER}, None),
        ({"replied_to": ME, "mentioned_users": frozenset({ME})}, Call.REPLY),
        ({"mentioned_users": frozenset({ME}), "by_person": False}, None),
        ({"replied_to": ME, "by_person": False}, None),
    ],
)
def test_who_is_called_by_what(facts, call):
    assert detect_call(heard(**facts), me=ME, bots_role=BOTS_ROLE) is call


def test_without_a_bots_role_no_role_calls():
    assert detect_call(heard(mentioned_roles=frozenset({BOTS_ROLE})), me=ME, bots_role=None) is None


@pytest.mark.parametrize(
    ("channel", "parent", "guild", "theme"),
    [
        (100, None, 1, "debate"),
        (999, None, 1, None),
        (500, 100, 1, "debate"),  # a thread has its parent's theme
        (500, 999, 1, None),
        (100, None, 2, None),  # another guild
        (100, None, None, None),  # a direct message
        (101, 100, 1, "memes"),  # a channel of its own, though it hangs on another
    ],
)
def test_the_program_speaks_in_its_channels_their_threads_and_its_guilds_only(channel, parent, guild, theme):
    scope = ServedChannels({100: "debate", 101: "memes"}, frozenset({1}))
    assert scope.theme(channel, parent, guild) == theme


def test_without_named_guilds_any_guild_counts():
    assert ServedChannels({100: "debate"}).theme(100, None, 77) == "debate"


@pytest.mark.parametrize(
    ("lists", "ignored"),
    [
        ({}, False),
        ({"users": {PERSON}}, True),
        ({"users": {OTHER}}, False),
        ({"roles": {77}}, True),
        ({"roles": {78}}, False),
        ({"by_command": {PERSON}}, True),
    ],
)
def test_who_is_ignored_or_has_an_ignored_role_calls_nobody(lists, ignored):
    settings = SimpleNamespace(ignore_user_ids=lists.get("users", ()), ignore_role_ids=lists.get("roles", ()))
    silence = SimpleNamespace(is_ignored=lambda person, guild: guild == 1 and person in lists.get("by_command", ()))
    assert IgnoredPeople(settings, silence).has(PERSON, frozenset({76, 77}), 1) is ignored


def test_a_group_without_a_guild_calls_as_a_channel_does_and_not_as_a_direct_message():
    in_group = {"guild_id": None, "group": True}
    assert detect_call(heard(**in_group), me=ME, bots_role=None) is None
    assert detect_call(heard(**in_group, mentioned_users=frozenset({ME})), me=ME, bots_role=None)
    assert detect_call(heard(**in_group, replied_to=ME), me=ME, bots_role=None) is Call.REPLY
