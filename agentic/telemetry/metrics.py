"""Measures one process for Prometheus, from its start. docs/maintain.md lists the metrics.

Turns and model calls are counted when they end. Current values (queues, latencies) are read for each scrape.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from agentic.state.record_stream import TurnWords
from agentic.state.turn_records import TurnRecord
from agentic.wire.connection import StateUnavailable
from agentic.wire.messages import TurnNotice

PREFIX = "agentic_discord_"
MODEL_SECONDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0)
LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
EVERY = 1.0  # seconds between two measurements of the event loop
PING_EVERY = 10  # measurements of the event loop for one of Redis


@dataclass(frozen=True, slots=True)
class Readings:
    """A process's current state, by agent. `gateway`: seconds to Discord and back, without offline agents. `dropped`:
    entries that are missing in the history."""

    queues: Mapping[str, int] = field(default_factory=dict)
    gateway: Mapping[str, float] = field(default_factory=dict)
    online: Mapping[str, bool] = field(default_factory=dict)
    dropped: int = 0


class Metrics:
    """Watches a process's turns. `read` returns the readings; `ping` asks Redis and raises StateUnavailable.

    Run `run` in a task. Each instance has its own registry.
    """

    def __init__(self, read: Callable[[], Readings], ping: Callable[[], Awaitable[object]]) -> None:
        self._ping = ping
        self.registry = registry = CollectorRegistry()
        self._turns = Counter(f"{PREFIX}turns", "Turns that ended", ("agent", "trigger", "outcome"), registry=registry)
        waited = "Seconds of turns, by what they waited for"
        self._phases = Counter(f"{PREFIX}turn_phase_seconds", waited, ("agent", "phase"), registry=registry)
        self._latency = Histogram(
            f"{PREFIX}model_seconds", "Seconds of a model call", ("model",), buckets=MODEL_SECONDS, registry=registry
        )
        self._errors = Counter(f"{PREFIX}model_errors", "Model calls that failed", ("model", "kind"), registry=registry)
        self._tokens = Counter(f"{PREFIX}tokens", "Tokens of model calls", ("model", "kind"), registry=registry)
        self._cost = Counter(f"{PREFIX}cost_usd", "US dollars of model calls", ("agent", "model"), registry=registry)
        late = "Seconds that the event loop was late"
        self._lag = Histogram(f"{PREFIX}event_loop_lag_seconds", late, buckets=LAG_SECONDS, registry=registry)
        self._redis = Gauge(f"{PREFIX}redis_round_trip_seconds", "Seconds to Redis and back", registry=registry)
        self._redis_up = Gauge(f"{PREFIX}redis_up", "Whether Redis answers", registry=registry)
        registry.register(_AtTheMoment(read))

    def began(self, notice: TurnNotice) -> None:
        """Do nothing: turns are counted when they end."""

    def ended(self, record: TurnRecord, words: TurnWords) -> None:
        del words
        self._turns.labels(record.agent, record.trigger, record.outcome).inc()
        for phase, seconds in record.phases.model_dump().items():
            self._phases.labels(record.agent, phase).inc(seconds)
        for call in record.calls:
            self._latency.labels(call.model).observe(call.seconds)
            if call.error is not None:
                self._errors.labels(call.model, call.error).inc()
            self._cost.labels(record.agent, call.model).inc(call.cost_usd)
            for kind, tokens in (
                ("input", call.input_tokens - call.cached_tokens),
                ("cached", call.cached_tokens),
                ("output", call.output_tokens - call.reasoning_tokens),
                ("reasoning", call.reasoning_tokens),
            ):
                self._tokens.labels(call.model, kind).inc(max(0, tokens))

    def to_text(self) -> bytes:
        """Return all metrics in Prometheus's text format, without their creation times."""
        lines = generate_latest(self.registry).split(b"\n")
        return b"\n".join(line for line in lines if b"_created" not in line)

    def route(self) -> web.RouteDef:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(body=self.to_text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

        return web.get("/metrics", answer)

    async def run(self) -> None:
        """Measure the event loop and Redis until canceled."""
        loop, count = asyncio.get_running_loop(), 0
        while True:
            if count % PING_EVERY == 0:
                began = time.perf_counter()
                try:
                    await self._ping()
                    self._redis.set(time.perf_counter() - began)
                    self._redis_up.set(1)
                except StateUnavailable:
                    self._redis_up.set(0)
            count += 1
            due = loop.time() + EVERY
            await asyncio.sleep(EVERY)
            self._lag.observe(max(0.0, loop.time() - due))


class _AtTheMoment(Collector):
    def __init__(self, read: Callable[[], Readings]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        readings = self._read()
        online = {agent: float(up) for agent, up in readings.online.items()}
        yield _by_agent("queue_depth", "Events waiting for a turn", readings.queues)
        yield _by_agent("gateway_latency_seconds", "Seconds to Discord's gateway and back", readings.gateway)
        yield _by_agent("bot_online", "Whether the bot is connected to Discord", online)
        dropped = CounterMetricFamily(f"{PREFIX}record_dropped", "Entries that were lost before reaching the history")
        dropped.add_metric([], readings.dropped)
        yield dropped


def _by_agent(name: str, help_text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}{name}", help_text, labels=["agent"])
    for agent, value in values.items():
        family.add_metric([agent], value)
    return family
