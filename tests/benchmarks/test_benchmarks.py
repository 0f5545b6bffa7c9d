"""The benchmarks: their table, their view of stalls, and one small measurement with real processes."""

from __future__ import annotations

import asyncio
import io
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentic.process.root import ROOT
from tests.benchmarks import run as running
from tests.benchmarks.compare import render as compared
from tests.benchmarks.compare import values_of
from tests.benchmarks.measures.context import EFFECTIVE_SHARE, PUBLIC_PROGRAM, conversation
from tests.benchmarks.processes import Broken
from tests.benchmarks.sides.call_counter import CallCounter
from tests.benchmarks.sides.monitor import StallMonitor
from tests.benchmarks.stage import Bench, NotHere
from tests.benchmarks.table import Row, percentile, render, shown
from tests.benchmarks.texts import tag_in, tagged
from tests.benchmarks.way import instruction, mention, record_turn, stays, way
from tests.support.doubles import SceneTurns, TextChannel


def drawn(*rows: Row) -> str:
    written = io.StringIO()
    Console(width=160, file=written).print(render(rows))
    return written.getvalue()


def quiet() -> Console:
    return Console(quiet=True)


def test_the_table_holds_each_number_against_its_target_and_the_bare_libraries() -> None:
    text = drawn(
        Row(metric="fast enough", value=4.0, unit="ms", target=5, bare=2.0, note="as hoped"),
        Row(metric="too slow", value=6.25, unit="ms", target=5),
        Row(metric="no target", value=150.0),
        Row(metric="not to be had", value=None, note="not measured: no redis-server was found"),
    )
    fast, slow, free, absent = (line for line in text.splitlines() if line.startswith("│"))
    assert all(part in fast for part in ("4 ms", "≤ 5 ms", "✓", "2 ms", "2.00", "as hoped"))
    assert all(part in slow for part in ("6.25 ms", "≤ 5 ms", "✗"))
    assert "150" in free
    assert "✓" not in free
    assert "✗" not in free
    assert "not measured" in absent


def test_a_row_tells_the_same_as_json() -> None:
    told = Row(metric="m", value=6.0, unit="s", target=5, bare=3.0).to_json()
    assert (told["value"], told["target"], told["ok"], told["ratio"]) == (6.0, 5, False, 2.0)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1)) == (50, 99, 100)
    assert percentile([7.0], 0.99) == 7
    assert math.isnan(percentile([], 0.5))


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0 s"), (2.0, "2 s"), (2.345, "2.35 s"), (23.45, "23.4 s"), (234.5, "234 s")]
)
def test_numbers_are_shown_with_the_digits_that_matter(value: float, text: str) -> None:
    assert shown(value, "s") == text


def test_a_tag_is_found_again_in_what_quotes_it() -> None:
    assert tag_in(f"  [msg:1] person-1: @Claude {tagged(17)}: what do you think?") == 17
    assert tag_in("nothing here") is None


@pytest.mark.parametrize("theme", ["vent", "memes"])
def test_a_long_conversation_is_mostly_read_from_the_cache(theme: str) -> None:
    count = conversation(theme)
    assert count.calls == 120
    assert count.cached_share >= 0.85
    assert count.effective <= EFFECTIVE_SHARE * PUBLIC_PROGRAM


async def test_a_held_event_loop_is_a_stall_and_its_holder_is_named() -> None:
    monitor = StallMonitor(0.03)
    monitor.start()
    hold_the_loop(0.12)
    await asyncio.sleep(0)
    for _ in range(10_000):  # the late tick comes with one of the next rounds of the loop
        await asyncio.sleep(0)
    stalls = monitor.stop()
    assert stalls
    assert stalls[0]["late"] >= 0.03
    assert "hold_the_loop" in stalls[0]["where"]


def hold_the_loop(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


async def test_what_breaks_or_is_lacking_becomes_a_row_and_the_rest_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def breaks(_: Bench) -> list[Row]:
        raise Broken("the program ended")

    async def lacks(_: Bench) -> list[Row]:
        raise NotHere("no redis-server was found")

    async def works(_: Bench) -> list[Row]:
        return [Row(metric="works", value=1.0)]

    monkeypatch.setattr(running, "MEASURES", {"breaks": breaks, "lacks": lacks, "works": works})
    rows, broken = await running.run(Bench(tmp_path), ["lacks", "works"], quiet())
    assert [(row.metric, row.value) for row in rows] == [("lacks", None), ("works", 1.0)]
    assert not broken
    rows, broken = await running.run(Bench(tmp_path), ["breaks", "works"], quiet())
    assert [(row.metric, row.value) for row in rows] == [("breaks", None), ("works", 1.0)]
    assert broken


async def test_a_mention_is_followed_through_three_processes_to_its_answer(tmp_path: Path) -> None:
    async with (
        Bench(tmp_path).stage("small", channels=2, people=2, history=3) as stage,
        stage.settled_program() as program,
    ):
        (asked,) = await stage.mention([("person-1", "claude", "channel-1")])
        (request,) = await stage.requests()
        assert program.megabytes() > 10
        assert program.cpu_seconds() > 0
    (answer,) = asked.answers
    assert (answer["author"], answer["channel"]) == (stage.discord.hello["bots"]["claude"], stage.channels["channel-1"])
    assert (request["tag"], request["provider"]) == (asked.tag, "anthropic")
    assert asked.sent_at < request["at"] < answer["at"]


async def test_a_process_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(Broken, match="delay_in_hours"):
        async with Bench(tmp_path).stage("broken") as stage:
            await stage.models.ask("behave", delay_in_hours=1)


def test_two_checkouts_are_compared_round_by_round() -> None:
    rounds = [
        ({"posts": (1.0, "s"), "new": (1.0, "")}, {"posts": (2.0, "s")}),
        ({"posts": (3.0, "s")}, {"posts": (4.0, "s")}),
        ({"posts": (6.0, "s")}, {"posts": (6.0, "s")}),
    ]
    written = io.StringIO()
    Console(width=160, file=written).print(compared(rounds))
    (line,) = (line for line in written.getvalue().splitlines() if line.startswith("│"))
    assert [cell.strip() for cell in line.strip("│").split("│")] == ["posts", "3 s", "4 s", "0.50", "0.75", "1.00"]


def test_a_checkout_is_measured_by_its_own_benchmarks() -> None:
    values = values_of(ROOT, ["context"], quick=True)
    assert values["effective input for each turn of it"][1] == "characters"


def test_a_checkout_from_before_the_benchmarks_moved_is_measured_too(tmp_path: Path) -> None:
    for folder in ("benchmarks", "tests/benchmarks"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    report = {"rows": [{"metric": "posts", "value": 2.0, "unit": "s"}, {"metric": "lost", "value": None, "unit": ""}]}
    program = (
        f"import pathlib, sys\npathlib.Path(sys.argv[sys.argv.index('--json') + 1]).write_text({json.dumps(report)!r})"
    )
    (tmp_path / "benchmarks" / "__main__.py").write_text(program)
    assert values_of(tmp_path, ["start"], quick=False) == {"posts": (2.0, "s")}


@pytest.mark.parametrize(
    ("turn", "first", "end", "last"),
    [
        (mention, "parse_message", TextChannel.send, "_enter"),
        (instruction, "on_instruction", SceneTurns.settle, "settle"),
    ],
)
def test_a_turn_is_followed_from_its_event_to_its_end(turn: Any, first: str, end: Any, last: str) -> None:
    recorder = record_turn(turn, end)
    passed = way(recorder, "agent")
    assert [passed[0].function, passed[-1].function] == [first, last]
    assert "take_turn" in [call.function for call in passed]  # over the hand-off to the lane's task
    *_, total = stays(passed)
    assert "stays in" in total


async def test_calls_and_callbacks_of_the_loop_are_counted() -> None:
    def count_down(left: int) -> None:
        if left:
            count_down(left - 1)

    counter = CallCounter()
    counter.start()
    count_down(99)
    for _ in range(10):
        await asyncio.sleep(0)
    counted = counter.stop()
    assert 100 <= counted["Python calls"] < 500
    assert 10 <= counted["callbacks of the loop"] < 30
    assert counted["timers"] == 0
