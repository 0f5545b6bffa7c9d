"""The list of commands within Discord's rules, and what counts as a difference."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator

import pytest

from agent_cogs.slash_definitions import MESSAGE, SUB_COMMAND, Json, command_list, is_ours, is_same
from agent_config import AGENTS

COMMANDS = command_list({name: spec.display_name for name, spec in AGENTS.items()})
BOTS = COMMANDS[0]


def options(command: Json) -> Iterator[Json]:
    for option in command.get("options", ()):
        yield option
        yield from options(option)


def lists(command: Json) -> Iterator[list[Json]]:
    yield command.get("options", [])
    for option in command.get("options", ()):
        yield from lists(option)


def as_kept(command: Json) -> Json:
    """As Discord gives it back: with ids, and without what says nothing."""
    kept = copy.deepcopy(command)
    for option in options(kept):
        if not option.get("required"):
            option.pop("required", None)
    return {**kept, "id": "1", "version": "2", "nsfw": False, "default_member_permissions": None, "dm_permission": True}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command["name"])
def test_every_command_keeps_discords_limits(command: Json) -> None:
    if command["type"] == MESSAGE:
        assert 1 <= len(command["name"]) <= 32
        assert "options" not in command
        assert "description" not in command
        return
    for part in (command, *options(command)):
        assert re.fullmatch(r"[-_a-z0-9]{1,32}", part["name"])
        assert 1 <= len(part["description"]) <= 100
        assert len(part.get("choices", ())) <= 25
    for each in lists(command):
        required = [bool(option.get("required")) for option in each]
        assert required == sorted(required, reverse=True), "what is required comes first"
        assert len({option["name"] for option in each}) == len(each) <= 25
        assert len({option["type"] == SUB_COMMAND for option in each}) <= 1


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command["name"])
def test_what_discord_gives_back_is_no_difference(command: Json) -> None:
    assert is_same(as_kept(command), command)


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept.update(description="another"),
        lambda kept: kept["options"].pop(),
        lambda kept: kept["options"][2]["options"][0]["choices"].pop(),
        lambda kept: kept["options"][2]["options"][0].update(required=False),
        lambda kept: kept["options"][2]["options"][1].update(max_value=1),
        lambda kept: kept["options"].reverse(),
        lambda kept: kept.update(type=2),
    ],
)
def test_what_people_would_see_otherwise_is_one(change) -> None:
    kept = as_kept(BOTS)
    change(kept)
    assert not is_same(kept, BOTS)


def test_a_command_is_ours_by_its_name_and_kind() -> None:
    assert is_ours({"name": "bots", "type": 1, "description": "of an earlier version"}, COMMANDS)
    assert not is_ours({"name": "bots", "type": 3}, COMMANDS)
    assert not is_ours({"name": "play", "type": 1}, COMMANDS)
