"""Many mentions at the same time: is each one answered exactly once, when is the last one, at what cost?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agent_config import AGENTS
from tests.benchmarks.processes import Child
from tests.benchmarks.stage import AnsweredMention, Bench, Stage
from tests.benchmarks.table import Row, milliseconds

PEOPLE = 10
RAISED = {"MAX_CONCURRENT_TURNS": "1000", "MAX_QUEUE_DEPTH": "10000"}


@dataclass(frozen=True)
class Outcome:
    """`wrong`: mentions that were not answered exactly once, where they were made, by the bot that was asked."""

    asked: int
    wrong: int
    extra_posts: int
    model_calls: int
    last_after: float
    memory: float
    cpu: float
    refused: int
    """Requests that Discord answered with 429."""

    @property
    def note(self) -> str:
        found = [
            f"{self.asked} asked",
            f"{self.wrong} not answered exactly once" if self.wrong else "each answered once",
        ]
        if self.extra_posts:
            found.append(f"{self.extra_posts} other posts")
        if self.model_calls != self.asked:
            found.append(f"{self.model_calls} model calls")
        return ", ".join([*found, f"{self.cpu:.1f} s of processor"])


async def crowd(bench: Bench) -> list[Row]:
    """200 mentions by ten people in 20 channels at the same time; models take half a second."""
    async with bench.stage("crowd", channels=20, people=PEOPLE, delay=0.5) as stage:
        async with stage.settled_program(**RAISED) as program:
            await _warm_up(stage)
            ours = await _all_at_once(stage, program, 200, within=30)
        floor = await _floor(bench, stage, 200, within=30)
    return [
        _last("200 mentions in 20 channels, models 0.5 s: the last answer", ours, 2.6, floor),
        _processor("200 mentions: processor time for each", ours, floor),
        _wrong(ours),
    ]


async def limits(bench: Bench) -> list[Row]:
    """`crowd` under Discord's rate limits."""
    async with bench.stage("limits", channels=20, people=PEOPLE, delay=0.5) as stage:
        async with stage.settled_program(**RAISED) as program:
            await _warm_up(stage)
            await stage.discord.ask("limits", real=True)
            ours = await _all_at_once(stage, program, 200, within=60)
        floor = await _floor(bench, stage, 200, within=60)
    refused = Row(metric="answers of 429", value=ours.refused, target=5, bare=floor.refused if floor else None)
    return [_last("the same under Discord's rate limits: the last answer", ours, None, floor), _wrong(ours), refused]


async def rush(bench: Bench) -> list[Row]:
    """1,000 mentions in 200 channels at the same time; models take two seconds."""
    count = bench.size(1000, 400)
    last_target, memory_target = (None, None) if bench.quick else (11, 245)
    async with bench.stage("rush", channels=200, people=PEOPLE, delay=2.0) as stage:
        async with stage.settled_program(**RAISED) as program:
            await _warm_up(stage)
            ours = await _all_at_once(stage, program, count, within=60)
        floor = await _floor(bench, stage, count, within=60)
    return [
        _last(f"{count} mentions in 200 channels, models 2 s: the last answer", ours, last_target, floor),
        _processor(f"{count} mentions: processor time for each", ours, floor),
        _wrong(ours),
        Row(
            metric="highest memory meanwhile",
            value=ours.memory,
            unit="MB",
            target=memory_target,
            bare=floor.memory if floor else None,
        ),
    ]


async def _floor(bench: Bench, stage: Stage, count: int, within: float) -> Outcome | None:
    """Measure the bare libraries, unless they are left out."""
    if not bench.bare:
        return None
    async with stage.bare() as bare:
        await _warm_up(stage)
        return await _all_at_once(stage, bare, count, within)


def _last(metric: str, ours: Outcome, target: float | None, floor: Outcome | None) -> Row:
    note = f"{ours.note}; the bare libraries: {floor.note}" if floor else ours.note
    bare = floor.last_after if floor else None
    return Row(metric=metric, value=ours.last_after, unit="s", target=target, bare=bare, note=note)


def _processor(metric: str, ours: Outcome, floor: Outcome | None) -> Row:
    def each(outcome: Outcome) -> float:
        return milliseconds(outcome.cpu / outcome.asked)

    return Row(metric=metric, value=each(ours), unit="ms", bare=each(floor) if floor else None)


def _wrong(ours: Outcome) -> Row:
    return Row(metric="mentions not answered exactly once", value=ours.wrong, target=0)


async def _warm_up(stage: Stage) -> None:
    """Let each bot answer once, so that SDKs are imported and connections open."""
    first = next(iter(stage.channels))
    await stage.mention([("person-0", agent, first) for agent in AGENTS])


async def _all_at_once(stage: Stage, subject: Child, count: int, within: float) -> Outcome:
    await stage.requests()
    before, posts = await _refused(stage), await stage.discord.ask("posts")
    cpu = subject.cpu_seconds()
    async with subject.watching_memory() as memory:
        asked = await stage.mention(_lines(list(stage.channels), count), within)
    answers = [answer["at"] for one in asked for answer in one.answers]
    return Outcome(
        asked=count,
        wrong=sum(not _answered_once(stage, one) for one in asked),
        extra_posts=await stage.discord.ask("posts") - posts - len(answers),
        model_calls=len(await stage.requests()),
        last_after=max(answers, default=0.0) - min(one.sent_at for one in asked),
        memory=memory[0],
        cpu=subject.cpu_seconds() - cpu,
        refused=await _refused(stage) - before,
    )


def _lines(channels: Sequence[str], count: int) -> list[tuple[str, str, str]]:
    """Mentions channel by channel; in each channel the bots are asked in turn, by a different person each time.

    Two messages of one person to a bot, of which the first still waits, would be merged into one question.
    """
    agents = list(AGENTS)
    seen: Counter[str] = Counter()
    lines = []
    for number in range(count):
        channel = channels[number % len(channels)]
        agent = agents[(number % len(channels) + seen[channel]) % len(agents)]
        lines.append((f"person-{(number + seen[channel]) % PEOPLE}", agent, channel))
        seen[channel] += 1
    return lines


def _answered_once(stage: Stage, one: AnsweredMention) -> bool:
    right = {"author": stage.discord.hello["bots"][one.agent], "channel": stage.channels[one.channel]}
    return len(one.answers) == 1 and all(one.answers[0][name] == value for name, value in right.items())


async def _refused(stage: Stage) -> int:
    counts: dict[str, int] = await stage.discord.ask("counts")
    return counts.get("429", 0)
