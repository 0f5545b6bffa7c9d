"""Trace one turn: how long its phases take, and which models and tools it calls with which texts.

A trace doesn't change its turn and never raises. It only references the turn's own values; RecordedWords turns them
into record entries in a thread, after the turn has ended. `quoted_in` finds everybody whose words a prompt has, so that
deleted messages and forgotten people can be removed from the record.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from agentic.context.blocks import Note, ToolLine
from agentic.context.entries import Entry as Heard
from agentic.context.entries import units_of
from agentic.context.prompt import PromptContext, persona_part
from agentic.llm.types import NO_USAGE, Message, Picture, Prompt, Reply, Usage
from agentic.net.addresses import FetchRefused
from agentic.net.images import ImageLimits, fits, scale
from agentic.state.turn_records import TurnRecord
from agentic.tools.call_runner import ToolEvent
from agentic.tools.web_search import SPEC as WEB_SEARCH
from agentic.tools.web_search import pages_in
from agentic.wire.entries import (
    CallRecord,
    CallWords,
    FoundPage,
    HistoryMessage,
    Phases,
    PostWords,
    RoomWords,
    SearchWords,
    ToolCallRecord,
)

CallKind = Literal["text", "picture", "gate", "summary", "profile"]
Phase = Literal["waiting", "context", "model", "tools", "posting"]
MAX_NAME = 100  # characters of a tool's or a model's name
MAX_REASONING = 16_000  # characters of a call's reasoning in the record
RECORDED = ImageLimits(longest_side=1024, max_bytes=400_000)

_COUNTS = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "searches")
_PLAIN = Prompt(text="")
_ELSEWHERE = frozenset(
    {"text", "system", "stable", "prefill", "pictures", "tools", "rounds", "labels", "on_text", "on_wait", "call"}
    | {"guild_id", "priority"}
)
_OPTIONS = [each.name for each in fields(Prompt) if each.name not in _ELSEWHERE]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a prompt. `quoted` maps further messages outside the window to their authors (None: an agent).
    `people` are the authors of other words in it, for example in an agent's notes."""

    context: PromptContext
    quoted: Mapping[int, int | None] = field(default_factory=dict)
    people: frozenset[int] = frozenset()


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """One call of a model. `error` is the kind of error that ended it, "cancelled" if its turn was canceled. `usage` is
    charged even then."""

    kind: CallKind
    model: str  # provider/model
    prompt: Prompt
    history: Sequence[Message] = ()
    sources: Sources | None = None
    at: float = 0.0  # unix seconds
    seconds: float = 0.0
    usage: Usage = NO_USAGE
    reply: Reply | None = None
    decision: Mapping[str, Any] | None = None  # parsed from the reply
    error: str | None = None

    def record(self, number: int) -> CallRecord:
        usage = self.usage
        counts: dict[str, Any] = {name: getattr(usage, name) for name in _COUNTS}
        counts |= {"cost_usd": usage.cost_usd, "seconds": round(self.seconds, 3), "error": self.error}
        model = (usage.model or self.model)[:MAX_NAME]
        return CallRecord(n=number, kind=self.kind, model=model, at=self.at, **counts)


@dataclass(slots=True)
class TurnTrace:
    """The trace of one turn. `clock` returns unix seconds. `sources` are those of the next call's prompt, `picture` is
    the posted picture, and `earlier` the turn's usage before this process resumed it. `searches` has the query and the
    output of each web_search, by the number of the call."""

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

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Add the time in this block to the phase, without the time in nested phases."""
        self._count()
        depth = len(self._within)
        self._within.append(name)
        try:
            yield
        finally:
            self._count()
            del self._within[depth:]

    def _count(self) -> None:
        """Add the time since the last call to the current phase."""
        now = self.clock()
        if self._within:
            self.add(self._within[-1], now - self._since)
        self._since = now

    def add(self, name: Phase, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + max(0.0, seconds)  # clocks may be set back

    @contextmanager
    def call(
        self, model: str, prompt: Prompt, history: Sequence[Message] = (), *, kind: CallKind = "text"
    ) -> Iterator[ModelCall]:
        """Trace a call of the model `provider/model` until its reply or error. A picture's time is part of posting."""
        is_picture = kind == "picture"
        sources = None if is_picture else self.sources
        call = ModelCall(kind=kind, model=model, prompt=prompt, history=history, sources=sources)
        self.calls.append(call)
        call.at = self.clock()
        with nullcontext() if is_picture else self.phase("model"):
            try:
                yield call
            except BaseException as error:
                call.error = "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
                raise
            finally:
                call.seconds = max(0.0, self.clock() - call.at)

    def note_decision(self, decision: Mapping[str, Any]) -> None:
        """Note the decision parsed from the last reply."""
        if self.calls:
            self.calls[-1].decision = decision

    def note_quotes(self, people: frozenset[int], messages: Sequence[int]) -> None:
        """Note that a tool returned words of these people from these messages, which later prompts have."""
        if self.sources is not None and (people or messages):
            quoted = {**self.sources.quoted, **dict.fromkeys(messages)}
            self.sources = replace(self.sources, quoted=quoted, people=self.sources.people | people)

    def note_tool(self, event: ToolEvent) -> None:
        """Note that a tool call began or ended. Several may run at once."""
        record, known = event.record, self._tools.get(event.record.id)
        if event.kind == "call":
            self._tools[record.id] = ToolCallRecord(n=len(self._tools), name=record.name[:MAX_NAME], at=record.at)
            if not self._tools_running:
                self._count()
                self._within.append("tools")
            self._tools_running.add(record.id)
        elif known is not None and record.id in self._tools_running:
            self._tools_running.discard(record.id)
            if not self._tools_running and self._within[-1:] == ["tools"]:
                self._count()
                self._within.pop()
            if record.name == WEB_SEARCH.name:
                self.searches[known.n] = (str(record.arguments.get("query", "")), record.output or "")
            self._tools[record.id] = known.model_copy(
                update={
                    "seconds": round(max(0.0, self.clock() - known.at), 3),
                    "characters": len(record.output or ""),
                    "error": record.is_error,
                }
            )

    @property
    def phases(self) -> Phases:
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
        """The tool calls in order; a call that was cut off is an error."""
        return tuple(
            record.model_copy(update={"error": True}) if key in self._tools_running else record
            for key, record in self._tools.items()
        )


@dataclass(frozen=True, slots=True)
class RecordedWords:
    """The texts of an ended turn, for the record. `posted` has its messages, `room` the news of its room. Call the
    methods in a thread."""

    record: TurnRecord
    trace: TurnTrace
    posted: Sequence[Heard]
    room: RoomWords | None

    @property
    def picture(self) -> Picture | None:
        return self.trace.picture if self.record.image else None

    @property
    def size(self) -> int:
        total = 0
        for call in self.trace.calls:
            prompt, reply = call.prompt, call.reply or Reply(text="")
            texts = [prompt.system, prompt.text, prompt.prefill or "", reply.text, reply.reasoning[:MAX_REASONING]]
            texts += [each.text for each in call.history]
            texts += [result.text for step in prompt.rounds for result in step.results]
            total += 2000 + sum(map(len, texts))
        drawn = len(self.picture.data) if self.picture is not None else 0
        heard = [post.text for post in self.posted]
        heard += [message.text for message in self.room.messages] if self.room is not None else []
        return total + drawn + 500 * len(heard) + sum(map(len, heard))

    def calls(self) -> list[CallWords]:
        """Return the calls of the agent's own model. Pictures are left out, since the decision has their descriptions;
        so are the cheap model's calls, whose texts are in the other calls."""
        return [call_words(self.record, n, call) for n, call in enumerate(self.trace.calls) if call.kind == "text"]

    def searches(self) -> list[SearchWords]:
        return [
            SearchWords.model_construct(
                agent=self.record.agent,
                turn_id=self.record.id,
                n=call.n,
                channel_id=self.record.channel_id,
                at=call.at,
                seconds=call.seconds,
                query=query,
                pages=tuple(FoundPage(title=page.title, url=page.url) for page in pages_in(output)),
                error=call.error,
            )
            for call in self.record.tool_calls
            if call.n in self.trace.searches
            for query, output in (self.trace.searches[call.n],)
        ]

    def posts(self) -> list[PostWords]:
        made = [
            PostWords.model_construct(
                agent=self.record.agent,
                turn_id=self.record.id,
                message_id=post.id,
                channel_id=self.record.channel_id,
                at=post.created_at,
                text=post.text,
                answers_message_id=post.reply_to or self.record.asked_message_id,
            )
            for post in self.posted
        ]
        drawn = shrink(self.picture) if self.picture is not None and made else None
        if drawn is not None:
            made[-1] = made[-1].model_copy(update={"picture": drawn.data, "media_type": drawn.media_type})
        return made

    def rooms(self) -> list[RoomWords]:
        return [] if self.room is None else [self.room]


def call_words(record: TurnRecord, number: int, call: ModelCall) -> CallWords:
    """Return the prompt of a call without its pictures. It isn't validated, since half an emoji would be refused."""
    prompt, reply, sources = call.prompt, call.reply, call.sources
    persona = persona_part(sources.context) if sources is not None else ""
    return CallWords.model_construct(
        agent=record.agent,
        turn_id=record.id,
        n=number,
        channel_id=record.channel_id,
        at=call.at,
        model=call.usage.model or call.model,
        system=prompt.system,
        stable=prompt.stable,
        persona=persona if persona in prompt.system else "",
        history=tuple(
            HistoryMessage.model_construct(
                role=each.role, text=each.text, pictures=len(each.pictures), cache=each.cache
            )
            for each in call.history
        ),
        text=prompt.text,
        prefill=prompt.prefill,
        options=options_of(prompt, reply),
        completion=reply.text if reply is not None else "",
        reasoning=reply.reasoning[:MAX_REASONING] if reply is not None else "",
        stop=reply.stop if reply is not None else "",
        tool_calls=tuple(
            {"name": each.name, "arguments": dict(each.arguments)} for each in (reply.tool_calls if reply else ())
        ),
        decision=dict(call.decision) if call.decision is not None else None,
        error=call.error,
        quoted=quoted_in(sources) if sources is not None else {},
        asked_by=record.asked_by,
    )


def options_of(prompt: Prompt, reply: Reply | None = None) -> dict[str, Any]:
    """Return the prompt's other fields as JSON, without default values; `pictures` is their number. A scripted model
    repeats its reply for the same `labels`."""
    found = {name: value for name in _OPTIONS if (value := getattr(prompt, name)) != getattr(_PLAIN, name)}
    if prompt.pictures:
        found["pictures"] = len(prompt.pictures)
    if prompt.tools:
        found["tools"] = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in prompt.tools
        ]
    if prompt.rounds:
        found["rounds"] = [
            {
                "calls": [{"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in step.calls],
                "results": [
                    {"call_id": result.call_id, "name": result.name, "text": result.text, "is_error": result.is_error}
                    for result in step.results
                ],
                "text": step.text,
            }
            for step in prompt.rounds
        ]
    if labels := {**prompt.labels, **(reply.labels if reply is not None else {})}:
        found["labels"] = labels
    return found


def quoted_in(sources: Sources) -> dict[int, int | None]:
    """Map the messages in a prompt to their authors. People whose words are in it outside of messages, in the agent's
    notes or in results of tools that were called for them, are included under their negative id."""
    context, people = sources.context, set(sources.people)
    entries: list[Heard] = []
    for block in context.window.laid:
        for line in block.lines:
            if not isinstance(line, ToolLine):
                entries.append(line.about if isinstance(line, Note) else line)
            elif line.asked_by is not None:
                people.add(line.asked_by)
    task = context.task
    entries += filter(None, (task.target, context.just_answered, *context.unanswered, *task.chain.entries))
    return {**sources.quoted, **authors(entries), **{-person: person for person in sorted(people)}}


def shrink(picture: Picture) -> Picture | None:
    """Return the picture scaled down for the record; None if it can't be."""
    try:
        return picture if fits(picture, RECORDED) else scale(picture.data, RECORDED)
    except FetchRefused as error:
        log.warning("cannot record a posted picture: %s", error)
        return None


def authors(entries: Iterable[Heard]) -> dict[int, int | None]:
    """Map the messages in these entries to their authors, None for an agent."""
    return {unit.id: None if unit.speaker.kind == "agent" else unit.speaker.id for unit in units_of(entries)}
