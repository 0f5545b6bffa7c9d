"""The words of a turn as entries of the record, made in a thread after the turn has ended.

`quoted_in` finds everybody whose words a prompt has: so that a message that is deleted, or a person who is forgotten,
goes from the record too.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from agentic.context.blocks import Note, ToolLine
from agentic.context.entries import Entry as Heard
from agentic.context.prompt import persona_part
from agentic.llm.types import Message, Picture, Prompt, Reply, ToolRound
from agentic.net.addresses import FetchRefused
from agentic.net.images import FetchedPicture, Fit, fits, scale
from agentic.state.turn_records import TurnRecord
from agentic.tools.web_search import pages_in
from agentic.turn.trace import ModelCall, Sources
from agentic.wire.entries import CallWords, FoundPage, HistoryMessage, PostWords, Quoted, RoomWords, SearchWords

RECORDED = Fit(longest_side=1024, max_bytes=400_000)

_PLAIN = Prompt(text="")
_ELSEWHERE = {"text", "system", "stable", "prefill", "pictures", "tools", "rounds", "labels", "on_text", "call"}
_OPTIONS = [each.name for each in fields(Prompt) if each.name not in _ELSEWHERE]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnWords:
    """The words of a turn that ended. `made` are its calls; `picture` belongs to the last of `posted`, the messages of
    the agent; `room` has what is new in its room; `asked` are the trace's searches. The methods are for a thread."""

    record: TurnRecord
    made: Sequence[ModelCall]
    posted: Sequence[Heard]
    picture: Picture | None = None
    room: RoomWords | None = None
    asked: Mapping[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """About how many bytes they hold in memory."""
        prompts = sum(map(_size, self.made))
        drawn = len(self.picture.data) if self.picture is not None else 0
        heard = [post.text for post in self.posted]
        heard += [message.text for message in self.room.messages] if self.room is not None else []
        return prompts + drawn + sum(500 + len(text) for text in heard)

    def calls(self) -> list[CallWords]:
        """Those of the agent's own model. Pictures are left out, since the decision before one says what was to be
        drawn, and so are the cheap model's calls, which repeat what the others have."""
        return [call_words(self.record, n, call) for n, call in enumerate(self.made) if call.kind == "text"]

    def searches(self) -> list[SearchWords]:
        return [
            SearchWords.model_construct(
                agent=self.record.agent,
                turn_id=self.record.id,
                n=call.n,
                channel_id=self.record.channel_id,
                at=call.at,
                seconds=call.seconds,
                query=self.asked[call.n][0],
                pages=tuple(FoundPage(title=page.title, url=page.url) for page in pages_in(self.asked[call.n][1])),
                error=call.error,
            )
            for call in self.record.tool_calls
            if call.n in self.asked
        ]

    def posts(self) -> list[PostWords]:
        made = [self._post(post) for post in self.posted]
        drawn = small(self.picture) if self.picture is not None and made else None
        if drawn is not None:
            data = base64.b64encode(drawn.data).decode()
            made[-1] = made[-1].model_copy(update={"picture": data, "media_type": drawn.media_type})
        return made

    def rooms(self) -> list[RoomWords]:
        return [] if self.room is None else [self.room]

    def _post(self, post: Heard) -> PostWords:
        return PostWords.model_construct(
            agent=self.record.agent,
            turn_id=self.record.id,
            message_id=post.id,
            channel_id=self.record.channel_id,
            at=post.created_at,
            text=post.text,
            answers_message_id=post.reply_to or self.record.asked_message_id,
        )


def call_words(record: TurnRecord, number: int, call: ModelCall) -> CallWords:
    """Everything that the prompt of a call had, to the byte, but its pictures. Not validated: a half emoji in a message
    must not cost the whole entry."""
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
        history=tuple(_message(message) for message in call.history),
        text=prompt.text,
        prefill=prompt.prefill,
        options=options_of(prompt, reply),
        completion=reply.text if reply is not None else "",
        stop=reply.stop if reply is not None else "",
        tool_calls=tuple(
            {"name": each.name, "arguments": dict(each.arguments)} for each in (reply.tool_calls if reply else ())
        ),
        decision=dict(call.decision) if call.decision is not None else None,
        error=call.error,
        quoted=tuple(quoted_in(sources)) if sources is not None else (),
        asked_by=record.asked_by,
    )


def options_of(prompt: Prompt, reply: Reply | None = None) -> dict[str, Any]:
    """The other fields of a prompt, as JSON, where they are not the default; `pictures` is their number. The labels are
    those with which a stand-in gives the same reply again."""
    found = {name: value for name in _OPTIONS if (value := getattr(prompt, name)) != getattr(_PLAIN, name)}
    if prompt.pictures:
        found["pictures"] = len(prompt.pictures)
    if prompt.tools:
        found["tools"] = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in prompt.tools
        ]
    if prompt.rounds:
        found["rounds"] = [_round(step) for step in prompt.rounds]
    if labels := {**prompt.labels, **(reply.labels if reply is not None else {})}:
        found["labels"] = labels
    return found


def quoted_in(sources: Sources) -> Iterator[Quoted]:
    """The messages that a prompt shows, each once, with their authors, and the people whose words stand outside of
    messages: in the agent's notes, and in the results of tools that were called for them."""
    context, people = sources.context, set(sources.people)
    quoted: dict[int, int | None] = dict(sources.quoted)
    for block in context.window.laid:
        for line in block.lines:
            if not isinstance(line, ToolLine):
                quoted |= _authors(line.about if isinstance(line, Note) else line)
            elif line.asked_by is not None:
                people.add(line.asked_by)
    for shown in (context.target, context.just_answered, *context.unanswered, *context.chain.entries):
        quoted |= _authors(shown) if shown is not None else {}
    for message_id, author_id in quoted.items():
        yield Quoted(message_id=message_id, author_id=author_id)
    for person in sorted(people):
        yield Quoted(message_id=-person, author_id=person)


def small(picture: Picture) -> FetchedPicture | None:
    """The picture as it is recorded: scaled down. None for one that cannot be."""
    whole = FetchedPicture(picture.data, picture.media_type)
    try:
        return whole if fits(whole, RECORDED) else scale(picture.data, RECORDED)
    except FetchRefused as error:
        log.warning("a posted picture is not recorded: %s", error)
        return None


def authors(entries: Sequence[Heard]) -> tuple[tuple[int, int | None], ...]:
    """The channel's messages behind these entries, with their authors, None for an agent."""
    return tuple(pair for entry in entries for pair in _authors(entry).items())


def _authors(entry: Heard) -> dict[int, int | None]:
    return {unit.id: None if unit.speaker.kind == "agent" else unit.speaker.id for unit in entry.units}


def _message(message: Message) -> HistoryMessage:
    return HistoryMessage.model_construct(
        role=message.role, text=message.text, pictures=len(message.pictures), cache=message.cache
    )


def _round(step: ToolRound) -> dict[str, Any]:
    return {
        "calls": [{"id": call.id, "name": call.name, "arguments": dict(call.arguments)} for call in step.calls],
        "results": [
            {"call_id": result.call_id, "name": result.name, "text": result.text, "is_error": result.is_error}
            for result in step.results
        ],
        "text": step.text,
    }


def _size(call: ModelCall) -> int:
    prompt = call.prompt
    texts = (prompt.system, prompt.text, prompt.prefill or "", call.reply.text if call.reply is not None else "")
    results = sum(len(result.text) for step in prompt.rounds for result in step.results)
    return 2000 + results + sum(map(len, texts)) + sum(len(message.text) for message in call.history)
