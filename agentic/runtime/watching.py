"""Wires what watches the turns of this process: the record's writer, notices for the console, telemetry."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from aiohttp import web

from agent_config import Settings
from agentic.process.logs import program_version
from agentic.process.redaction import Redactor
from agentic.runtime.process import Runtime
from agentic.state.turn_notices import TurnNotices
from agentic.state.writer import NoRecord, Notes, RecordWriter
from agentic.telemetry.metrics import Metrics, Readings, metrics_route
from agentic.telemetry.spans import MISSING, Spans, http_exporter
from agentic.turn.watchers import TurnWatchers
from agentic.wire.link import RedisLink

PING_SECONDS = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Watching:
    """`writer` is None where nothing is recorded."""

    link: RedisLink
    notices: TurnNotices
    writer: RecordWriter | None
    watcher: TurnWatchers = field(default_factory=TurnWatchers)

    @classmethod
    def of(cls, settings: Settings, link: RedisLink, redact: Redactor) -> Watching:
        writer = RecordWriter(link, redact.secrets, prompts=settings.records_prompts) if settings.records else None
        return cls(link, TurnNotices(link), writer)

    @property
    def record(self) -> Notes:
        return self.writer or NoRecord()

    def start(self, runtime: Runtime, stack: AsyncExitStack) -> None:
        """Start it before the bots; when the stack is closed, after them, it writes what the last turns leave."""
        self.watcher.add(self.notices)
        runtime.watch(self.notices.run, "turn notices")
        if self.writer is not None:
            self.watcher.add(self.writer)
            stack.push_async_callback(self.writer.aclose)
            runtime.watch(self.writer.run, "record")
        settings = runtime.setup.settings
        if settings.otel_endpoint is not None and (spans := spans_to(settings.otel_endpoint, settings)) is not None:
            self.watcher.add(spans)
            stack.push_async_callback(spans.aclose)
        if settings.health_port or settings.console:
            runtime.metrics = Metrics(lambda: self._readings(runtime), self._ping)
            self.watcher.add(runtime.metrics)
            runtime.watch(runtime.metrics.run, "metrics")

    async def _ping(self) -> None:
        await self.link.patient(lambda redis: redis.ping(), PING_SECONDS)

    def _readings(self, runtime: Runtime) -> Readings:
        bots = runtime.bots
        return Readings(
            queues={name: bot.cog.host.queue.inbox.size() for name, bot in bots.items()},
            gateway={
                name: bot.client.latency
                for name, bot in bots.items()
                if bot.online and math.isfinite(bot.client.latency)
            },
            online={name: bot.online for name, bot in bots.items()},
            dropped=self.writer.dropped if self.writer is not None else 0,
        )


def spans_to(endpoint: str, settings: Settings) -> Spans | None:
    """Sends spans to this address; None where the packages for it are missing, which is logged."""
    headers = settings.otel_headers.get_secret_value() if settings.otel_headers is not None else ""
    redact = Redactor(settings.secrets()).secrets
    try:
        exporter = http_exporter(endpoint, headers)
        spans = Spans(exporter, redact, version=program_version(), words=settings.otel_capture_content)
    except ImportError:
        log.warning("%s", MISSING)
        return None
    log.info("spans go to %s, %s words", endpoint, "with" if settings.otel_capture_content else "without")
    return spans


def metrics_routes(runtime: Runtime) -> Sequence[web.RouteDef]:
    """GET /metrics, where the metrics of this process are served at all."""
    return (metrics_route(runtime.metrics),) if runtime.metrics is not None else ()
