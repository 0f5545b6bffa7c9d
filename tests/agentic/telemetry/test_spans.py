from __future__ import annotations

import builtins
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agent_config import load_settings
from agentic.runtime.process import spans_to
from agentic.state.turn_records import TurnRecord
from agentic.telemetry.spans import Spans, http_exporter
from agentic.wire.entries import CallRecord, CallWords, HistoryMessage, ToolCallRecord
from tests.support.redis_server import until

TURN = TurnRecord(
    id="m1",
    agent="claude",
    at=1000.0,
    seconds=10.0,
    kind="mention",
    trigger="mention",
    channel_id=2**60 + 1,
    conversation_id="talk",
    model="anthropic/one",
    outcome="failed",
    reason="model_failed",
    calls=(
        CallRecord(
            n=0,
            model="anthropic/one",
            at=991.0,
            seconds=3.5,
            input_tokens=9,
            cached_tokens=4,
            output_tokens=2,
            cost_usd=0.25,
        ),
        CallRecord(n=1, model="google/two", at=996.0, seconds=4.0, error="TimedOut"),
    ),
    tool_calls=(ToolCallRecord(n=0, name="web_search", at=994.75, seconds=1.0),),
)


class Words:
    size = 10

    def calls(self) -> list[CallWords]:
        first = CallWords(
            agent="claude",
            turn_id="m1",
            n=0,
            channel_id=1,
            at=991.0,
            system="You are sk-secret.",
            history=(HistoryMessage(role="user", text="Alice: hi"),),
            text="Your turn.",
            completion="Hello.",
            stop="stop",
        )
        return [first]

    def searches(self) -> list[Any]:
        return []

    def posts(self) -> list[Any]:
        return []

    def rooms(self) -> list[Any]:
        return []


@contextmanager
def receiver() -> Iterator[tuple[str, list[tuple[str, str | None, ExportTraceServiceRequest]]]]:
    """A collector on loopback: its address, and the path, the key and the content of each request."""
    got: list[tuple[str, str | None, ExportTraceServiceRequest]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers["Authorization"], ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", got
        finally:
            server.shutdown()
            thread.join()


def attributes(thing: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in thing.attributes}


async def sent(*, words: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """The spans of TURN as a collector gets them, by name, and the resource's attributes."""
    with receiver() as (address, got):
        exporter = http_exporter(f"{address}/", "Authorization=Basic%20abc")
        spans = Spans(exporter, lambda text: text.replace("sk-secret", "…"), version="1.2", words=words)
        spans.ended(TURN, Words())
        await spans.aclose(20)
    [(path, key, request)] = got
    assert (path, key) == ("/v1/traces", "Basic abc")
    [resource] = request.resource_spans
    return {span.name: span for scope in resource.scope_spans for span in scope.spans}, attributes(resource.resource)


async def test_a_turn_its_calls_and_its_tools_are_spans_of_one_trace_with_their_times():
    spans, resource = await sent(words=False)
    assert (resource["service.name"], resource["service.version"]) == ("agentic-discord", "1.2")
    turn = spans.pop("invoke_agent claude")
    assert {span.trace_id for span in spans.values()} == {turn.trace_id}
    assert {span.parent_span_id for span in spans.values()} == {turn.span_id}
    assert turn.parent_span_id == b""
    times = {name: (span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9) for name, span in spans.items()}
    assert times == {
        "chat one": (991.0, 994.5),
        "execute_tool web_search": (994.75, 995.75),
        "chat two": (996.0, 1000.0),
    }
    assert (turn.start_time_unix_nano, turn.end_time_unix_nano) == (990 * 10**9, 1000 * 10**9)
    assert attributes(turn) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "claude",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.conversation.id": "talk",
        "discord.channel.id": str(2**60 + 1),
        "agentic_discord.turn.id": "m1",
        "agentic_discord.turn.trigger": "mention",
        "agentic_discord.turn.outcome": "failed",
        "agentic_discord.turn.reason": "model_failed",
        "error.type": "model_failed",
    }
    chat = attributes(spans["chat one"])
    assert (
        chat.items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "one",
            "gen_ai.usage.input_tokens": 9,
            "gen_ai.usage.cache_read.input_tokens": 4,
            "gen_ai.usage.output_tokens": 2,
            "gen_ai.usage.cost": 0.25,
        }.items()
    )
    failed = spans["chat two"]
    assert (attributes(failed)["error.type"], attributes(failed)["gen_ai.provider.name"]) == ("TimedOut", "gcp.gemini")
    assert (failed.status.code, spans["chat one"].status.code) == (2, 0)
    assert not [name for span in (turn, *spans.values()) for name in attributes(span) if "message" in name]


@pytest.mark.promise(146)
async def test_words_go_along_where_the_owner_wants_it_without_secrets():
    spans, _ = await sent(words=True)
    chat = attributes(spans["chat one"])
    assert json.loads(chat["gen_ai.system_instructions"]) == [{"type": "text", "content": "You are …."}]
    assert [each["parts"][0]["content"] for each in json.loads(chat["gen_ai.input.messages"])] == [
        "Alice: hi",
        "Your turn.",
    ]
    [answer] = json.loads(chat["gen_ai.output.messages"])
    assert (answer["parts"][0]["content"], answer["finish_reason"]) == ("Hello.", "stop")
    assert "gen_ai.input.messages" not in attributes(spans["chat two"])


@pytest.mark.promise(147)
async def test_an_address_that_does_not_answer_holds_neither_turns_nor_the_end(unused_tcp_port, caplog):
    exporter = http_exporter(f"http://127.0.0.1:{unused_tcp_port}", "")
    spans = Spans(exporter, str, version="1.2")
    spans.ended(TURN, Words())
    await spans.aclose(0.1)
    assert "not sent in time" in caplog.text
    await until(lambda: not [thread for thread in threading.enumerate() if thread.name == "spans' end"])


@pytest.mark.promise(147)
def test_missing_packages_are_one_clear_line(monkeypatch, caplog):
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    settings = load_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, None)
    assert spans_to("http://127.0.0.1:4318", settings) is None
    assert "pip install -e '.[otel]'" in caplog.text
