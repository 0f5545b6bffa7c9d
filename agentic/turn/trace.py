"""Follow one turn: where its time goes, which models and tools it calls, and with what words.

The words are kept as references to the values that the turn has anyway; words.py makes entries of the record out of
them later, off the event loop. A trace changes nothing of its turn and raises nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentic.context.prompt import TurnContext
from agentic.llm.types import Message, Picture, Prompt, Reply, Usage
from agentic.tools.call_runner import ToolEvent
from agentic.tools.web_search import SPEC as WEB_SEARCH
from agentic.wire.entries import CallRecord, Phases, ToolCallRecord

CallKind = Literal["text", "picture", "gate", "summary", "profile"]
Phase = Literal["waiting", "context", "model", "tools", "posting"]
NO_USAGE = Usage()
MAX_NAME = 100  # characters of a tool's or a model's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a prompt. `quoted`: messages beside those of the window, by id, with their authors (None: an
    agent); `people`: those whose words are in it outside of messages, as in an agent's notes."""

    context: TurnContext
    quoted: tuple[tuple[int, int | None], ...] = ()
    people: frozenset[int] = frozenset()


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """One call of a model. `error` is the kind of error that it ended by, "cancelled" where its turn was cancelled.
    `usage` is what was booked for it, also then."""

    kind: CallKind
    model: str  # provider/model
    prompt: Prompt
    history: Sequence[Message] = ()
    sources: Sources | None = None
    at: float = 0.0  # unix seconds
    seconds: float = 0.0
    usage: Usage = NO_USAGE
    reply: Reply | None = None
    decision: Mapping[str, Any] | None = None  # what the turn read in the reply
    error: str | None = None

    def record(self, number: int) -> CallRecord:
        usage = self.usage
        return CallRecord(
            n=number,
            kind=self.kind,
            model=(usage.model or self.model)[:MAX_NAME],
            at=self.at,
            seconds=round(self.seconds, 3),
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            searches=usage.searches,
            cost_usd=usage.cost_usd,
            error=self.error,
        )


@dataclass(slots=True)
class TurnTrace:
    """The trace of one turn. `clock` gives unix seconds. `sources`: of the next call's prompt; `picture`: the one that
    was posted; `earlier`: the usage of the turn before this process resumed it; `searches`: query and output of
    web_search, by the number of the call."""

    clock: Callable[[], float] = time.time
    calls: list[ModelCall] = field(default_factory=list)
    sources: Sources | None = None
    picture: Picture | None = None
    earlier: Usage = NO_USAGE
    searches: dict[int, tuple[str, str]] = field(default_factory=dict)
    _seconds: dict[Phase, float] = field(default_factory=dict)
    _within: list[Phase] = field(default_factory=list)
    _since: float = 0.0
    _tools: dict[str, ToolCallRecord] = field(default_factory=dict)
    _tools_running: set[str] = field(default_factory=set)

    # -- time ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Count the time within for this phase; the time within a further one in it counts for that one."""
        depth = len(self._within)
        self._enter(name)
        try:
            yield
        finally:
            while len(self._within) > depth:
                self._leave()

    def waited(self, seconds: float) -> None:
        """The event waited so long before its turn."""
        self._add("waiting", seconds)

    def _enter(self, name: Phase) -> None:
        self._count()
        self._within.append(name)

    def _leave(self) -> None:
        self._count()
        self._within.pop()

    def _count(self) -> None:
        now = self.clock()
        if self._within:
            self._add(self._within[-1], now - self._since)
        self._since = now

    def _add(self, name: Phase, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + max(0.0, seconds)  # clocks may be set back

    # -- calls --------------------------------------------------------------------------------------------------------

    @contextmanager
    def call(
        self, model: str, prompt: Prompt, history: Sequence[Message], *, kind: CallKind = "text"
    ) -> Iterator[ModelCall]:
        """Follow a call of the model `provider/model`, from its beginning to its reply or error."""
        call = ModelCall(kind=kind, model=model, prompt=prompt, history=history, sources=self.sources)
        with self.phase("model"), self._following(call):
            yield call

    @contextmanager
    def drawing(self, model: str, prompt: str) -> Iterator[ModelCall]:
        """Follow the drawing of a picture; its time is that of the post."""
        call = ModelCall(kind="picture", model=model, prompt=Prompt(text=prompt))
        with self._following(call):
            yield call

    @contextmanager
    def _following(self, call: ModelCall) -> Iterator[None]:
        self.calls.append(call)
        call.at = self.clock()
        try:
            yield
        except BaseException as error:
            call.error = "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
            raise
        finally:
            call.seconds = max(0.0, self.clock() - call.at)

    def decided(self, decision: Mapping[str, Any]) -> None:
        """The last reply was read as this decision."""
        if self.calls:
            self.calls[-1].decision = decision

    def brought(self, people: frozenset[int], messages: Sequence[int]) -> None:
        """A tool has brought words of these people, from these messages: further prompts have them."""
        if self.sources is not None and (people or messages):
            quoted = (*self.sources.quoted, *((message_id, None) for message_id in messages))
            self.sources = replace(self.sources, quoted=quoted, people=self.sources.people | people)

    def tool(self, event: ToolEvent) -> None:
        """A call of a tool began, or has its result. Several may run at once."""
        record, known = event.record, self._tools.get(event.record.id)
        if event.kind == "call":
            self._tools[record.id] = ToolCallRecord(n=len(self._tools), name=record.name[:MAX_NAME], at=record.at)
            if not self._tools_running:
                self._enter("tools")
            self._tools_running.add(record.id)
        elif known is not None and record.id in self._tools_running:
            self._tools_running.discard(record.id)
            if not self._tools_running and self._within[-1:] == ["tools"]:
                self._leave()
            if record.name == WEB_SEARCH.name:
                self.searches[known.n] = (str(record.arguments.get("query", "")), record.output or "")
            self._tools[record.id] = known.model_copy(
                update={
                    "seconds": round(max(0.0, self.clock() - known.at), 3),
                    "characters": len(record.output or ""),
                    "error": record.is_error,
                }
            )

    # -- what comes of it ---------------------------------------------------------------------------------------------

    @property
    def phases(self) -> Phases:
        """The seconds by now."""
        self._count()
        return Phases(**{name: round(seconds, 3) for name, seconds in self._seconds.items()})

    @property
    def call_records(self) -> tuple[CallRecord, ...]:
        calls = [call.record(number) for number, call in enumerate(self.calls)]
        if self.earlier.calls:
            earlier = ModelCall(kind="text", model="", prompt=Prompt(text=""), usage=self.earlier, error="interrupted")
            calls.append(earlier.record(len(calls)))
        return tuple(calls)

    @property
    def tool_records(self) -> tuple[ToolCallRecord, ...]:
        """In order; a call that was cut off with its turn is an error."""
        return tuple(
            record.model_copy(update={"error": True}) if key in self._tools_running else record
            for key, record in self._tools.items()
        )
