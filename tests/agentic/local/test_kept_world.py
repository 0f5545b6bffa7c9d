"""The same people, bots and channels at every start of local mode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agentic.ids import sent_at
from agentic.local.discord.channels import small_world
from agentic.local.discord.world import World
from agentic.local.settings import IDS_FILE, kept_world

BOTS = {"claude": ("Claude", "t1"), "grok": ("bots", "t2")}  # one that is called like the role of all


def make(ids: Mapping[str, int]) -> World:
    return small_world(BOTS, ("debate", "casual"), ("Sam",), ids=ids)


def people_and_places(world: World) -> dict[str, int]:
    named = {name: world.user(name).id for name in ("Sam", "claude", "grok")}
    return {**named, **{name: world.channel(name).id for name in ("debate", "casual")}, "guild": world.guild.id}


def test_people_and_channels_are_the_same_at_the_next_start(tmp_path: Path) -> None:
    first = people_and_places(kept_world(tmp_path / "local", make))
    second = kept_world(tmp_path / "local", make)
    assert people_and_places(second) == first
    assert len(second.guild.roles) == 4, "@everyone, the role of all bots, and one of each bot"
    while (later := second.new_id()) <= max(first.values()):
        assert sent_at(later) == sent_at(max(first.values())), "only both starts in one millisecond share ids"
    assert later > max(first.values())


def test_a_new_person_gets_an_id_and_keeps_it(tmp_path: Path) -> None:
    first = people_and_places(kept_world(tmp_path, make))

    def more(ids: Mapping[str, int]) -> World:
        return small_world({**BOTS, "hal": ("HAL", "t3")}, ("debate", "casual", "memes"), ("Sam",), ids=ids)

    second, third = kept_world(tmp_path, more), kept_world(tmp_path, more)
    assert people_and_places(second) == first
    assert second.user("hal").id == third.user("hal").id
    assert people_and_places(kept_world(tmp_path, make)) == first
    assert kept_world(tmp_path, more).user("hal").id == second.user("hal").id


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", '{"channel:debate": "5", "user:sam": -1, "bot:claude": true}'])
def test_a_file_that_cannot_be_understood_is_made_again(tmp_path: Path, text: str) -> None:
    (tmp_path / IDS_FILE).write_text(text)
    assert people_and_places(kept_world(tmp_path, make)) == people_and_places(kept_world(tmp_path, make))


def test_a_new_id_is_larger_than_all_that_are_kept_also_within_their_millisecond() -> None:
    first = small_world(BOTS, clock=lambda: 1_700_000_000.0)
    ids = first.named_ids()
    second = small_world({**BOTS, "hal": ("HAL", "t3")}, clock=lambda: 1_700_000_000.0, ids=ids)
    assert second.user("hal").id > max(ids.values())
