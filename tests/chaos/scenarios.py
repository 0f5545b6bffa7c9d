"""Every row of the table: what goes wrong, how often it is tried, and how one trial is run."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos import (
    gateway_days,
    kills,
    model_days,
    pause_days,
    port_days,
    process_days,
    recorder_kills,
    redis_days,
    room_kills,
    signal_kills,
    signal_restarts,
    tool_days,
)
from tests.chaos.process_days import Outside, outside
from tests.chaos.stage import Inside, behind_sentinels, inside
from tests.chaos.tally import Tally

KINDS = ("instruction", "mention")
Run = Callable[[Path, int], Awaitable[Tally]]


@dataclass(frozen=True)
class Scenario:
    """`run` plays it once, in an empty folder, with a seed. `at_once`: trials that may run side by side."""

    group: str
    name: str
    runs: int
    run: Run
    at_once: int = 1


async def _killed(point: str, folder: Path, seed: int) -> Tally:
    return (await kills.run_trial(folder, point, KINDS[seed % 2], seed)).tally()


async def _room_killed(point: str, folder: Path, seed: int) -> Tally:
    return await room_kills.run_trial(folder, point, seed)


async def _killed_on_signal(point: str, folder: Path, seed: int) -> Tally:
    return await signal_kills.run_trial(folder, point, seed)


async def _signal_restarted(point: str, folder: Path, seed: int) -> Tally:
    return await signal_restarts.run_trial(folder, point, seed)


async def _inside(play: Callable[[Inside], Awaitable[None]], slow: bool, folder: Path, seed: int) -> Tally:
    async with inside(folder, seed, slow=slow) as scene:
        await play(scene)
        return await scene.tally()


async def _failed_over(folder: Path, seed: int) -> Tally:
    async with behind_sentinels(folder, seed) as scene:
        await redis_days.failed_over(scene)
        return await scene.tally()


async def _tool_server_killed(folder: Path, seed: int) -> Tally:
    async with tool_days.with_tools(folder, seed) as (scene, server):
        await tool_days.killed(scene, server)
        return await scene.tally()


async def _outside(play: Callable[[Outside], Awaitable[None]], folder: Path, seed: int) -> Tally:
    async with outside(folder, seed) as scene:
        await play(scene)
        return await scene.tally()


async def _recorder_killed(folder: Path, seed: int) -> Tally:
    return await recorder_kills.run_trial(folder, seed, kills=20, turns=300)


def _here(group: str, name: str, runs: int, play: Any, *, slow: bool = False) -> Scenario:
    return Scenario(group, name, runs, functools.partial(_inside, play, slow))


def _there(name: str, runs: int, play: Any, group: str = "processes") -> Scenario:
    return Scenario(group, name, runs, functools.partial(_outside, play), at_once=2)


SCENARIOS = (
    *(Scenario("kills", f"killed: {p}", 20, functools.partial(_killed, p), at_once=2) for p in kills.POINTS),
    *(
        Scenario("rooms", f"in a room: {p}", 8, functools.partial(_room_killed, p), at_once=2)
        for p in room_kills.POINTS
    ),
    *(
        Scenario("signal", f"on Signal: {p}", 6, functools.partial(_killed_on_signal, p), at_once=2)
        for p in signal_kills.POINTS
    ),
    *(
        Scenario("signal", f"Signal's server restarts: {p}", 6, functools.partial(_signal_restarted, p))
        for p in signal_restarts.POINTS
    ),
    Scenario("kills", "killed: the recorder, 20 times a run", 5, _recorder_killed),
    _here("redis", "redis killed and restarted", 5, redis_days.killed),
    _here("redis", "redis emptied", 8, redis_days.emptied),
    _here("redis", "redis paused for 60 s", 1, redis_days.paused),
    _here("redis", "redis full", 3, redis_days.full),
    Scenario("redis", "redis fails over to its replica", 8, _failed_over),
    _here("redis", "redis slow", 5, redis_days.slow, slow=True),
    _here("redis", "redis did it, its reply was cut off", 6, redis_days.cut, slow=True),
    _here("gateway", "gateway dropped", 6, gateway_days.dropped),
    _here("gateway", "gateway moves (op 7)", 6, gateway_days.reconnect),
    _here("gateway", "session invalid (op 9)", 4, gateway_days.invalidated),
    _here("gateway", "events told twice", 6, gateway_days.told_twice),
    _here("gateway", "a resume tells again", 6, gateway_days.told_again),
    _here("gateway", "posts answered 429", 6, gateway_days.too_many),
    _here("gateway", "posts answered 500", 6, gateway_days.broken),
    _here("gateway", "posts cut off", 6, gateway_days.cut),
    Scenario("tools", "tool server killed and restarted", 6, _tool_server_killed),
    *(_here("models", name, model_days.RUNS.get(name, 6), play) for name, play in model_days.SCENES.items()),
    _there("two coordinators, one is killed", 4, process_days.leader_killed),
    _there("restarted after redis was away", 6, process_days.after_an_outage),
    _there("SIGTERM in mid-turn", 4, process_days.sigterm),
    _there("Ctrl-C in mid-turn", 4, process_days.ctrl_c),
    *(_there(name, 2, play, "ports") for name, play in port_days.SCENES.items()),
    _there("two coordinators, one is paused", 6, pause_days.leader_paused, "pauses"),
    _there("the machine sleeps", 4, pause_days.machine_sleeps, "pauses"),
    _there("stop said while it is down", 4, pause_days.stopped_while_down, "orders"),
    _there("stop said while it is paused", 4, pause_days.stopped_while_paused, "orders"),
    _here("orders", "stop said in a gateway gap", 4, pause_days.stopped_in_a_gap),
)
