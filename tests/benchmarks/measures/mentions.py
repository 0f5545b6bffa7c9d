"""Time from a mention to the model request, one at a time, with fast and slow REST; processor time and memory."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_config import AGENTS
from tests.benchmarks.processes import Broken, Child
from tests.benchmarks.stage import AnsweredMention, Bench, Stage
from tests.benchmarks.table import Row, median, milliseconds, percentile

CHANNELS = 4
HISTORY = 60  # messages in each channel before the start: more than a prompt shows
SLOW_REST = 0.15  # seconds
PACE = 0.02  # seconds between two mentions at least: one turn is over, and the processor not yet asleep, at the next


@dataclass(frozen=True)
class Seen:
    """One run of single mentions: seconds to the model request, also by provider, processor seconds for each
    mention, and the characters of each request."""

    latencies: list[float]
    by_provider: dict[str, list[float]]
    cpu_each: float
    characters: list[float]


async def mentions(bench: Bench) -> list[Row]:
    """Mention each bot in turn, in each channel in turn."""
    async with bench.stage("mentions", channels=CHANNELS, people=10, history=HISTORY) as stage:
        async with stage.settled_program() as program:
            await ask_one_by_one(stage, program, 4 * CHANNELS)  # every channel and SDK was used once
            plain = await ask_one_by_one(stage, program, bench.size(400, 40))
            memory, idle = program.megabytes(), await _idle(program, bench.size(5, 1))
            await stage.discord.ask("rest_delay", seconds=SLOW_REST)
            slow = await ask_one_by_one(stage, program, bench.size(120, 20))
            await stage.discord.ask("rest_delay", seconds=0.0)
        floor, floor_memory = await _floor(bench, stage)
    return [
        *_latency_rows(plain, slow, floor),
        Row(
            metric="processor time for each mention",
            value=milliseconds(plain.cpu_each),
            unit="ms",
            target=7,
            bare=milliseconds(floor.cpu_each) if floor else None,
            note=f"four bots receive mention and answer; includes {milliseconds(idle):.1f} ms a second used while idle",
        ),
        Row(
            metric="memory, SDKs in use",
            value=memory,
            unit="MB",
            target=180,
            bare=floor_memory,
            note=f"after {len(plain.latencies)} mentions",
        ),
        Row(
            metric="input of a turn",
            value=median(plain.characters),
            unit="characters",
            note="all text of the request for a mention: persona, rules, 40 messages, the question",
        ),
    ]


async def _floor(bench: Bench, stage: Stage) -> tuple[Seen, float] | tuple[None, None]:
    """Measure the bare libraries and their memory, unless they are left out."""
    if not bench.bare:
        return None, None
    async with stage.bare() as bare:
        await ask_one_by_one(stage, bare, 4 * CHANNELS)
        return await ask_one_by_one(stage, bare, bench.size(400, 40)), bare.megabytes()


def _latency_rows(plain: Seen, slow: Seen, floor: Seen | None) -> list[Row]:
    def row(metric: str, seen: Seen, share: float, target: float | None, bare: Seen | None, note: str = "") -> Row:
        def of(run: Seen) -> float:
            return milliseconds(percentile(run.latencies, share))

        return Row(metric=metric, value=of(seen), unit="ms", target=target, bare=of(bare) if bare else None, note=note)

    each = ", ".join(f"{name} {milliseconds(median(times)):.1f}" for name, times in plain.by_provider.items())
    times = median(slow.latencies) / median(plain.latencies)
    delayed = f"mention → model request, REST {SLOW_REST * 1000:.0f} ms"
    return [
        row("mention → model request, median", plain, 0.5, 5, floor, each),
        row("mention → model request, p99", plain, 0.99, 12, floor),
        row(f"{delayed}, median", slow, 0.5, 10, None, f"{times:.2f} times that without delay"),
        row(f"{delayed}, p99", slow, 0.99, None, None),
    ]


async def _idle(subject: Child, seconds: float) -> float:
    """Processor seconds used in an idle second."""
    cpu = subject.cpu_seconds()
    await asyncio.sleep(seconds)
    return (subject.cpu_seconds() - cpu) / seconds


async def ask_one_by_one(stage: Stage, subject: Child, count: int) -> Seen:
    """Mention each bot in turn, `count` times, each after the answer to the one before."""
    await stage.requests()
    asked: list[AnsweredMention] = []
    cpu = subject.cpu_seconds()
    for line in itertools.islice(_lines(list(stage.channels)), count):
        not_before = time.perf_counter() + PACE
        asked += await stage.mention([line])
        await asyncio.sleep(max(0.0, not_before - time.perf_counter()))
    return _seen(asked, await stage.requests(), (subject.cpu_seconds() - cpu) / count)


def _lines(channels: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    agents = list(AGENTS)
    for number in itertools.count():
        channel = channels[number // len(agents) % len(channels)]
        yield f"person-{number % 10}", agents[number % len(agents)], channel


def _seen(asked: Sequence[AnsweredMention], requests: Sequence[dict[str, object]], cpu_each: float) -> Seen:
    arrived = {request["tag"]: request for request in reversed(requests)}  # the first request of each
    if lost := [one for one in asked if not one.answers or one.tag not in arrived]:
        raise Broken(f"{len(lost)} of {len(asked)} mentions were not answered")
    latencies: list[float] = []
    by_provider: dict[str, list[float]] = {}
    for one in asked:
        request = arrived[one.tag]
        latency = float(str(request["at"])) - one.sent_at
        latencies.append(latency)
        by_provider.setdefault(str(request["provider"]), []).append(latency)
    return Seen(latencies, by_provider, cpu_each, [float(str(one["characters"])) for one in arrived.values()])
