from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from agentic.process.root import ROOT
from agentic.state.turn_records import TurnRecord
from agentic.telemetry import metrics as module
from agentic.telemetry.metrics import PREFIX, Metrics, Readings
from agentic.wire.connection import StateUnavailable
from agentic.wire.entries import CallRecord, Phases
from tests.support.redis_server import until

NO_WORDS: Any = None
CALLS = (
    CallRecord(n=0, model="openai/one", seconds=3.0, input_tokens=100, cached_tokens=60, output_tokens=9, cost_usd=0.5),
    CallRecord(n=1, model="openai/one", seconds=200.0, error="TimedOut"),
)
TURN = TurnRecord(
    id="m1",
    agent="claude",
    kind="mention",
    trigger="mention",
    channel_id=1,
    outcome="posted",
    phases=Phases(model=203.0),
    calls=CALLS,
)


def made(readings: Readings | None = None) -> Metrics:
    async def ping() -> None:
        raise StateUnavailable

    return Metrics(lambda: readings or Readings(), ping)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"{PREFIX}{name}", labels)


async def test_turns_and_their_calls_are_counted_and_served_for_prometheus():
    metrics = made(Readings({"claude": 2}, {"claude": 0.1}, {"claude": True, "grok": False}, dropped=3))
    metrics.ended(TURN, NO_WORDS)
    metrics.ended(TURN.model_copy(update={"calls": (), "outcome": "skipped"}), NO_WORDS)
    assert value(metrics, "turns_total", agent="claude", trigger="mention", outcome="posted") == 1
    assert value(metrics, "turn_phase_seconds_total", agent="claude", phase="model") == 406
    assert value(metrics, "model_seconds_bucket", model="openai/one", le="120.0") == 1
    assert value(metrics, "model_seconds_count", model="openai/one") == 2
    assert value(metrics, "model_errors_total", model="openai/one", kind="TimedOut") == 1
    tokens = [value(metrics, "tokens_total", model="openai/one", kind=kind) for kind in ("input", "cached", "output")]
    assert tokens == [40, 60, 9]
    assert value(metrics, "cost_usd_total", agent="claude", model="openai/one") == 0.5
    app = web.Application()
    app.add_routes([metrics.route()])
    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/metrics")
        text = await answer.text()
    assert answer.headers["Content-Type"].startswith("text/plain")
    for line in ('queue_depth{agent="claude"} 2.0', 'bot_online{agent="grok"} 0.0', "record_dropped_total 3.0"):
        assert f"\n{PREFIX}{line}\n" in text


@pytest.mark.parametrize("away", [True, False])
async def test_the_event_loop_and_redis_are_measured(monkeypatch, away):
    monkeypatch.setattr(module, "EVERY", 0.001)

    async def ping() -> None:
        if away:
            raise StateUnavailable

    metrics = Metrics(Readings, ping)
    task = asyncio.create_task(metrics.run())
    await until(lambda: (value(metrics, "event_loop_lag_seconds_count") or 0) > 2)
    task.cancel()
    assert value(metrics, "redis_up") == (0 if away else 1)
    assert (value(metrics, "redis_round_trip_seconds") or 0) >= 0


def test_the_dashboard_and_the_operators_page_have_exactly_the_names_that_are_served():
    metrics = made()
    metrics.ended(TURN, NO_WORDS)
    served = {family.name for family in metrics.registry.collect()}
    counters = {family.name for family in metrics.registry.collect() if family.type == "counter"}
    dashboard = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text("utf-8"))
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    names = set(re.findall(rf"{PREFIX}\w+", asked))
    assert {re.sub(r"_(total|bucket)$", "", name) for name in names} == served
    assert {name.removesuffix("_total") for name in names if name.endswith("_total")} == counters
    page = (ROOT / "docs/maintain.md").read_text("utf-8")
    documented = set(re.findall(rf"^\| `({PREFIX}\w+)", page, re.MULTILINE))
    assert {name.removesuffix("_total") for name in documented} == served
