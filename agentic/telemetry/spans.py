"""Sends turns, model calls, and tools as OpenTelemetry spans with the semantic conventions for generative AI.

    invoke_agent claude ─┬─ chat claude-haiku-5-5
                         ├─ execute_tool web_search
                         └─ chat claude-haiku-5-5

A turn's spans are made in a thread when the turn has ended, with its times; OpenTelemetry's BatchSpanProcessor sends
them in another thread. Prompts and answers are included only if the owner wants it, without secrets.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agentic.llm.provider_table import KNOWN
from agentic.state.record_stream import TurnWords
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import CallRecord, CallWords
from agentic.wire.messages import TurnNotice

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

Attributes = dict[str, str | int | float | bool]
Redact = Callable[[str], str]

NAME = "agentic-discord"
MISSING = (
    "no spans are sent to OTEL_EXPORTER_OTLP_ENDPOINT: packages are missing; install them with"
    " `.venv/bin/pip install -e '.[otel]'`"
)
MAX_WAITING = 200  # turns whose spans aren't made yet
SEND_SECONDS = 5.0  # for a request
LAST_WAIT = 3.0  # seconds to send at the end of the process

log = logging.getLogger(__name__)


def http_exporter(endpoint: str, headers: str) -> SpanExporter:
    """Create an HTTP exporter from OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS. Raises ImportError."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.util.re import parse_env_headers

    address = f"{endpoint.rstrip('/')}/v1/traces"
    given = parse_env_headers(headers, liberal=True)
    return OTLPSpanExporter(endpoint=address, headers=given, timeout=SEND_SECONDS)


class Spans:
    """Watches a process's turns. `words`: with prompts and answers, redacted. Raises ImportError without packages."""

    def __init__(self, exporter: SpanExporter, redact: Redact, *, version: str, words: bool = False) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create({"service.name": NAME, "service.version": version})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)  # not the global provider
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(NAME, version)
        self._exporter, self._redact, self._words = exporter, redact, words
        self._making = ThreadPoolExecutor(1, thread_name_prefix="spans")
        self._waiting = 0

    def began(self, notice: TurnNotice) -> None:
        """Do nothing: spans are made when a turn ends."""

    def ended(self, record: TurnRecord, words: TurnWords) -> None:
        if self._waiting >= MAX_WAITING:
            log.debug("the spans of turn %s are dropped", record.id)
            return
        self._waiting += 1
        self._making.submit(self._make, record, words if self._words else None)

    async def aclose(self, seconds: float = LAST_WAIT) -> None:
        """Send the remaining spans, for at most `seconds`."""
        loop, closed = asyncio.get_running_loop(), asyncio.Event()

        def close() -> None:
            self._making.shutdown()
            self._provider.shutdown()
            with suppress(RuntimeError):  # nobody is waiting anymore
                loop.call_soon_threadsafe(closed.set)

        # A daemon: a server that doesn't answer must not keep the process alive.
        threading.Thread(target=close, name="spans' end", daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                await closed.wait()
        except TimeoutError:
            log.warning("the last spans were not sent in time")
            self._exporter.shutdown()  # ends its retries

    def _make(self, record: TurnRecord, words: TurnWords | None) -> None:
        try:
            self._make_spans(record, {each.n: each for each in words.calls()} if words is not None else {})
        except Exception:  # the edge of the thread
            log.exception("making the spans of turn %s failed", record.id)
        finally:
            self._waiting -= 1

    def _make_spans(self, record: TurnRecord, words: Mapping[int, CallWords]) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, set_span_in_context

        called = [*(call.at for call in record.calls), *(tool.at for tool in record.tool_calls)]
        began = min([record.at - record.seconds, *called])  # seconds are rounded
        turn = self._span(f"invoke_agent {record.agent}", SpanKind.INTERNAL, Context(), began, of_turn(record))
        here = set_span_in_context(turn, Context())
        for call in record.calls:
            attributes = of_call(call)
            if call.n in words:
                attributes |= self._words_of(words[call.n])
            span = self._span(f"{operation(call)} {model_name(call.model)}", SpanKind.CLIENT, here, call.at, attributes)
            _end(span, call.at + call.seconds, call.error)
        for tool in record.tool_calls:
            name = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool.name}
            attributes = {**name, "gen_ai.tool.type": "function"}
            span = self._span(f"execute_tool {tool.name}", SpanKind.INTERNAL, here, tool.at, attributes)
            _end(span, tool.at + tool.seconds, "tool_error" if tool.error else None)
        _end(turn, record.at, record.reason if record.outcome in ("failed", "timed_out") else None)

    def _span(self, name: str, kind: Any, context: Any, at: float, attributes: Attributes) -> Span:
        return self._tracer.start_span(name, context, kind, attributes, start_time=_ns(at))

    def _words_of(self, words: CallWords) -> Attributes:
        def part(text: str) -> list[dict[str, str]]:
            return [{"type": "text", "content": self._redact(text)}]

        asked = [{"role": each.role, "parts": part(each.text)} for each in words.history]
        if words.text:
            asked.append({"role": "user", "parts": part(words.text)})
        if words.prefill is not None:
            asked.append({"role": "assistant", "parts": part(words.prefill)})
        answer = {"role": "assistant", "parts": part(words.completion), "finish_reason": words.stop}
        return {
            "gen_ai.system_instructions": _json(part(words.system)),
            "gen_ai.input.messages": _json(asked),
            "gen_ai.output.messages": _json([answer]),
        }


def of_turn(record: TurnRecord) -> Attributes:
    """Return a turn's attributes. Only calls have tokens and costs: some viewers add up a span and its children."""
    found: dict[str, str | int | float | bool | None] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": record.agent,
        "gen_ai.provider.name": provider(record.model),
        "gen_ai.conversation.id": record.conversation_id,
        "discord.channel.id": str(record.channel_id),
        "discord.guild.id": str(record.guild_id) if record.guild_id is not None else None,
        "agentic_discord.turn.id": record.id,
        "agentic_discord.turn.trigger": record.trigger,
        "agentic_discord.turn.outcome": record.outcome,
        "agentic_discord.turn.reason": record.reason,
    }
    return {name: value for name, value in found.items() if value is not None and value != ""}


def of_call(call: CallRecord) -> Attributes:
    """Return a call's attributes. `gen_ai.usage.cost` isn't part of the conventions yet, but Langfuse reads it."""
    return {
        "gen_ai.operation.name": operation(call),
        "gen_ai.provider.name": provider(call.model),
        "gen_ai.request.model": model_name(call.model),
        "gen_ai.response.model": model_name(call.model),
        "gen_ai.output.type": "image" if call.kind == "picture" else "text",
        "gen_ai.usage.input_tokens": call.input_tokens,
        "gen_ai.usage.output_tokens": call.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": call.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": call.reasoning_tokens,
        "gen_ai.usage.cost": call.cost_usd,
    }


def operation(call: CallRecord) -> str:
    return "generate_content" if call.kind == "picture" else "chat"


def provider(model: str) -> str:
    """Return the conventions' name for the provider in `provider/model`."""
    name = model.partition("/")[0]
    known = KNOWN.get(name)
    return (known.convention if known else "") or name


def model_name(model: str) -> str:
    return model.partition("/")[2] or model


def _end(span: Span, at: float, error: str | None) -> None:
    from opentelemetry.trace import Status, StatusCode

    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(_ns(at))


def _ns(at: float) -> int:
    return round(at * 1e9)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()
