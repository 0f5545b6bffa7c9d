"""Processes that are killed or told to end in mid-turn, each once: the short version of `make chaos`."""

import asyncio

import discord.http
import pytest

from tests.chaos import process_days
from tests.chaos.process_days import outside

PLAYS = (process_days.leader_killed, process_days.sigterm, process_days.ctrl_c)


async def played(play, folder, seed):
    folder.mkdir()
    async with outside(folder, seed, quick=True) as scene:
        await play(scene)
        return await scene.tally()


@pytest.mark.promise(97)
async def test_killed_or_told_to_end_in_mid_turn_nothing_is_doubled_or_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(discord.http.Route, "API_BASE_URL", "put back at the end")  # they run side by side
    tallies = await asyncio.gather(*(played(play, tmp_path / play.__name__, 2) for play in PLAYS))
    for play, tally in zip(PLAYS, tallies, strict=True):
        assert tally.faults() == [], (play, tally)
        assert tally.conversations == 1


@pytest.mark.promise(79)
async def test_what_ended_while_redis_was_away_is_not_done_again_by_the_next_process(tmp_path):
    tally = await played(process_days.after_an_outage, tmp_path / "outage", 1)
    assert (tally.faults(), tally.conversations) == ([], 1)
