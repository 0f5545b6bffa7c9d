"""The same people, bots and channels at every start of local mode."""

from __future__ import annotations

from pathlib import Path

from agent_config import load_settings
from agentic.local.discord.world import World
from agentic.local.settings import local_world


def people_and_places(world: World) -> dict[str, int]:
    named = {name: world.user(name).id for name in ("Sam", "claude", "grok")}
    places = {name: world.channel(name).id for name in ("debate", "casual")}
    return {**named, **places, "guild": world.guild.id, "bots": world.role("bots").id}


def test_people_and_channels_are_the_same_at_the_next_start(tmp_path: Path) -> None:
    settings = load_settings({"DATA_DIR": str(tmp_path)}, env_file=None)
    first, second = local_world(settings), local_world(settings)
    ids = people_and_places(first)
    assert people_and_places(second) == ids
    assert len(set(ids.values())) == len(ids)
    assert len(second.guild.roles) == 6, "@everyone, the role of all bots, and one of each bot"
    assert min(first.new_id(), second.new_id()) > max(ids.values()), "messages come later"
