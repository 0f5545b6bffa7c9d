"""A mention at the moment when the bots come online, of another bot at each start."""

from __future__ import annotations

from agent_config import AGENTS
from tests.benchmarks.processes import Broken
from tests.benchmarks.stage import Bench
from tests.benchmarks.table import Row, median

TARGET = 1.2  # seconds


async def cold(bench: Bench) -> list[Row]:
    """Time from the mention to the answer, and of the start before it. Models answer immediately."""
    answered: dict[str, list[float]] = {agent: [] for agent in AGENTS}
    starts: list[float] = []
    async with bench.stage("cold", channels=1, people=1, history=20) as stage:
        (channel,) = stage.channels
        for agent in list(AGENTS) * bench.size(2, 1):
            async with stage.program() as program:
                (asked,) = await stage.mention([("person-0", agent, channel)])
                starts.append(program.start_seconds)
            if not asked.answers:
                raise Broken(f"{agent} did not answer")
            answered[agent].append(asked.answers[0]["at"] - asked.sent_at)
    each = ", ".join(f"{agent} {median(times):.2f}" for agent, times in answered.items())
    times = [seconds for several in answered.values() for seconds in several]
    return [
        Row(metric="mention when the bots come online → answer, median", value=median(times), unit="s", note=each),
        Row(metric="mention when the bots come online → answer, longest", value=max(times), unit="s", target=TARGET),
        Row(metric="the starts before it", value=median(starts), unit="s"),
    ]
