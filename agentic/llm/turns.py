"""Converts a prompt to the form that providers share: turns, tool calls with their results, and stop sequences.

A turn has parts: texts or pictures. `cache` marks the last part that doesn't change between calls.

A round of the tool loop goes back to the same model exactly as the model wrote it (its `echo`), including thinking and
signatures. Another model gets the calls and results with our own ids, because providers have different rules for ids
and require each to be unique. A call also gets our own id if its provider sent none, or a used id. Arguments that
aren't a JSON object become the single argument RAW with the original text: the tool then reports what is missing, and
the model sees its mistake. Python's integers keep every digit.

A provider accepts few stop sequences or none, and a model may write a sequence that wasn't sent, so answers are cut
here, too. Pure functions.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentic.llm.profiles import Profile
from agentic.llm.schemas import ConvertedSchemas, parts, text_for, without_keywords
from agentic.llm.types import Message, Picture, Prompt, Role, Source, Tool, ToolCall, ToolResult, ToolRound

# Inserted if a conversation must begin with the user but begins with the model's own words.
OPENING = "[the conversation so far]"
RAW = "_raw"
_NO_MORE_TOOLS = "You can't use tools anymore. Answer now, with these results:"
# Rejected by Anthropic and OpenAI at the top of a function's parameters, but common in the tools of MCP servers.
_COMBINED = ("allOf", "anyOf", "oneOf")
# The schema keywords that OpenAI's strict mode accepts at every depth without further rules.
_PLAIN = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "description", "anyOf", "title"}
)
# HTML entities for special characters. A bare "&copy" may be part of a URL.
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")


@dataclass(frozen=True, slots=True)
class Part:
    """A text or a picture."""

    text: str = ""
    picture: Picture | None = None
    cache: bool = False


@dataclass(slots=True)
class Turn:
    """The parts of one message to the provider."""

    role: Role
    parts: list[Part] = field(default_factory=list)


def build_turns(prompt: Prompt, history: Sequence[Message], profile: Profile) -> list[Turn]:
    """Return the history's turns, then the prompt's text as the last user turn.

    If the profile says so, roles alternate and the user comes first. A prefilled answer comes last, without trailing
    whitespace, which providers refuse.
    """
    last = []
    if prompt.prefill is None or prompt.text or prompt.pictures:
        last.append(Message("user", text_for(prompt, profile), prompt.pictures))
    if prompt.prefill is not None:
        last.append(Message("assistant", prompt.prefill))
    turns: list[Turn] = []
    for message in (*history, *last):
        for turn in _build_message(message, profile):
            if profile.alternate and turns and turns[-1].role == turn.role:
                turns[-1].parts.extend(turn.parts)
            else:
                turns.append(turn)
    if profile.alternate and turns and turns[0].role == "assistant":
        turns.insert(0, Turn("user", [Part(OPENING)]))
    if prompt.prefill is not None and turns and turns[-1].role == "assistant":
        end = turns[-1].parts[-1]
        turns[-1].parts[-1] = replace(end, text=end.text.rstrip())
    return turns


def _build_message(message: Message, profile: Profile) -> list[Turn]:
    """Return one turn, or two: no provider accepts pictures from the assistant, so they follow as the user's."""
    seen = [picture for picture in message.pictures if is_seen(picture, profile)]
    text = [Part(message.text, cache=message.cache and not seen)] if message.text.strip() else []
    last = len(seen) - 1
    pictures = [Part(picture=picture, cache=message.cache and number == last) for number, picture in enumerate(seen)]
    if message.role == "user":
        return [Turn("user", text + pictures)] if text or pictures else []
    turns = [Turn("assistant", text)] if text else []
    return turns + ([Turn("user", pictures)] if pictures else [])


def is_seen(picture: Picture, profile: Profile) -> bool:
    """Return whether the model accepts a picture. Any other picture fails the whole request."""
    return picture.media_type in profile.sees and len(picture.data) <= profile.picture_bytes


def count_pictures(prompt: Prompt, history: Sequence[Message]) -> int:
    results = [result.pictures for step in prompt.rounds for result in step.results]
    return sum(map(len, (*(message.pictures for message in history), prompt.pictures, *results)))


def with_newest_pictures(prompt: Prompt, history: Sequence[Message], limit: int) -> tuple[Prompt, Sequence[Message]]:
    """Drop the oldest pictures until `limit` are left."""
    too_many = count_pictures(prompt, history) - limit
    if too_many <= 0:
        return prompt, history

    def drop_oldest(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
        nonlocal too_many
        kept = pictures[max(0, too_many) :]
        too_many -= len(pictures) - len(kept)
        return kept

    kept = [replace(message, pictures=drop_oldest(message.pictures)) for message in history]
    prompt = replace(prompt, pictures=drop_oldest(prompt.pictures))
    rounds = tuple(
        replace(step, results=tuple(replace(result, pictures=drop_oldest(result.pictures)) for result in step.results))
        for step in prompt.rounds
    )
    return replace(prompt, rounds=rounds), kept


def system_parts(prompt: Prompt) -> tuple[str, ...]:
    """Split the system prompt after each part that may end a cache: none, one or two pieces."""
    whole, stable = prompt.system, prompt.stable
    pieces = (whole[:stable], whole[stable:]) if 0 < stable < len(whole) else (whole,)
    return pieces if whole else ()


def cache_marks(turns: Sequence[Turn], limit: int, *, roles: Container[Role] = ("user", "assistant")) -> frozenset[int]:
    """Return the ids of the last `limit` parts that end a cacheable prefix.

    If a role cannot carry a mark, the mark moves back to the last part that can.
    """
    marks: list[int] = []
    carrier: int | None = None
    for turn in turns:
        for piece in turn.parts:
            carrier = id(piece) if turn.role in roles else carrier
            if piece.cache and carrier is not None and carrier not in marks:
                marks.append(carrier)
    return frozenset(marks[-limit:] if limit > 0 else ())


def base64_of(picture: Picture) -> str:
    return base64.b64encode(picture.data).decode("ascii")


def data_url(picture: Picture) -> str:
    return f"data:{picture.media_type};base64,{base64_of(picture)}"


def unique_sources(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Keep each address once, in order, with its first non-empty title."""
    found: dict[str, Source] = {}
    for source in sources:
        if source.url and (source.url not in found or (source.title and not found[source.url].title)):
            found[source.url] = source
    return tuple(found.values())


def join_thoughts(texts: Iterable[str]) -> str:
    """Return the parts of a reasoning as one text."""
    return "\n\n".join(filter(None, map(str.strip, texts)))


def function_of(tool: Tool, profile: Profile, parameters: str = "parameters") -> dict[str, Any]:
    """Return a tool in the provider's form, with the schema in the field `parameters`: one plain object at the top,
    without keywords that the model rejects."""
    schema = _PARAMETERS.of(tool.parameters, profile.unknown_in_parameters)
    return {"name": tool.name, "description": tool.description, parameters: schema}


def _plain(parameters: Mapping[str, Any], unknown: frozenset[str]) -> dict[str, Any]:
    cleaned = without_keywords(parameters, unknown)
    properties: dict[str, Any] = {}
    required: list[str] = list(cleaned.get("required", ()))
    for keyword in _COMBINED:
        for branch in parts(cleaned, keyword):
            properties |= branch.get("properties", {})
            required += branch.get("required", ()) if keyword == "allOf" else ()
        cleaned.pop(keyword, None)
    flat = {**cleaned, "type": "object", "properties": properties | dict(cleaned.get("properties") or {})}
    return flat | ({"required": list(dict.fromkeys(required))} if required else {})


_PARAMETERS = ConvertedSchemas(_plain, limit=1000)


def is_strict(schema: Any) -> bool:
    """Return whether a schema already satisfies OpenAI's strict mode, so that strict mode doesn't change its meaning.

    Every object is closed and requires all of its properties:
    https://platform.openai.com/docs/guides/structured-outputs
    """
    if not isinstance(schema, Mapping) or not schema.keys() <= _PLAIN:
        return False
    properties = schema.get("properties", {})
    is_object = schema.get("type") == "object" or "properties" in schema
    if is_object and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties)
    ):
        return False
    inner = [*properties.values(), *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return all(is_strict(part) for part in inner)


def arguments_of(given: Any) -> Mapping[str, Any]:
    """Return a call's arguments from the JSON text or object that a provider sends."""
    if isinstance(given, Mapping):
        return given
    said = given if isinstance(given, str) else ""
    try:
        read = json.loads(said or "{}", parse_constant=refuse_constant)
        json.dumps(read, ensure_ascii=False).encode()  # half a surrogate pair could not be sent back
    except (ValueError, RecursionError):
        return {RAW: said}
    return read if isinstance(read, dict) else {RAW: said}


def refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


# Around calls that a model writes as text.
_WRITTEN_MARK = re.compile(r"^```[\w-]*[ \t]*$|\A```[\w-]*|```\Z|</?tool_calls?>", re.MULTILINE)
_CALL_DECODER = json.JSONDecoder(parse_constant=refuse_constant)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON text, and unparsable ones as the model wrote them."""
    raw = arguments.get(RAW)
    if isinstance(raw, str) and len(arguments) == 1:
        return raw
    return json.dumps(dict(arguments), ensure_ascii=False, default=str)


def echo_of(name: str, content: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a model's answer in its provider's shape, for `ToolRound.echo`. `name` is `provider/model`."""
    return {"by": name, "content": list(content)}


def written_calls(text: str, tools: Sequence[Tool]) -> tuple[ToolCall, ...]:
    """Return the calls of these tools that a model wrote as its answer instead of making them: JSON objects with a name
    and arguments, perhaps in code blocks, tags, or a list. An answer with anything else has none."""
    names, calls = {tool.name for tool in tools}, list[ToolCall]()
    left = _WRITTEN_MARK.sub("", text.strip()).strip()
    while left:
        try:
            read, end = _CALL_DECODER.raw_decode(left)
        except (ValueError, RecursionError):
            return ()
        for each in read if isinstance(read, list) else [read]:
            fields = each if isinstance(each, dict) else {}
            name, given = fields.get("name"), fields.get("arguments", fields.get("parameters"))
            is_call = isinstance(name, str) and name in names and isinstance(given, dict | str)
            if not is_call or len(fields.keys() - {"id", "type"}) != 2:
                return ()
            calls.append(ToolCall("", str(name), arguments_of(given)))
        left = left[end:].lstrip().removeprefix(",").lstrip()
    return tuple(calls)


def read_calls(calls: Sequence[ToolCall], rounds: Sequence[ToolRound], profile: Profile) -> tuple[ToolCall, ...]:
    """Return an answer's calls with ids that are unique over the turn's rounds, and without the HTML entities that some
    models write into arguments."""
    taken = {call.id for step in rounds for call in step.calls}
    read = []
    for number, call in enumerate(calls):
        name, spare = call.id, number
        while not name or name in taken:
            name, spare = _id_of(len(rounds), spare), spare + 1
        taken.add(name)
        arguments = call.arguments
        if profile.escapes_arguments:
            arguments = _without_entities(arguments)
            arguments = arguments_of(arguments[RAW]) if arguments.keys() == {RAW} else arguments
        read.append(ToolCall(name, call.name, arguments))
    return tuple(read)


def _id_of(place: int, number: int) -> str:
    """Return our own id for a call of the round at `place`. Mistral only accepts nine letters and digits."""
    return f"call{place:02d}{number:03d}"


def _without_entities(value: Any) -> Any:
    if isinstance(value, str):
        return _ENTITY.sub(lambda entity: html.unescape(entity[0]), value)
    if isinstance(value, Mapping):
        return {key: _without_entities(inner) for key, inner in value.items()}
    return [_without_entities(inner) for inner in value] if isinstance(value, list) else value


def own_round(
    step: ToolRound, place: int, name: str
) -> tuple[list[Mapping[str, Any]], list[tuple[ToolCall, ToolResult]]]:
    """Return the echo of the round at `place`, empty if the model `name` did not give it, and its calls with their
    results."""
    own = isinstance(step.echo, Mapping) and step.echo.get("by") == name
    echo = parts(step.echo, "content") if own and isinstance(step.echo, Mapping) else []
    return echo, calls_with_results(step, place, own=bool(echo))


def calls_with_results(step: ToolRound, place: int, *, own: bool) -> list[tuple[ToolCall, ToolResult]]:
    """Pair each call of the round at `place` with its result, by id. Providers require a result for each call."""
    results = list(step.results)
    pairs = []
    for number, call in enumerate(step.calls):
        result = next((one for one in results if one.call_id == call.id), None)
        if result is None:
            result = ToolResult(call.id, call.name, "this call was not run", is_error=True)
        else:
            results.remove(result)
        name = call.id if own else _id_of(place, number)
        pairs.append((replace(call, id=name), replace(result, call_id=name, name=call.name)))
    return pairs


def rounds_in_words(prompt: Prompt) -> Prompt:
    """Return the prompt without tools, with its rounds' results as text: servers reject rounds without tools."""
    if not prompt.rounds:
        return replace(prompt, tools=()) if prompt.tools else prompt
    lines, pictures = [prompt.text, "", _NO_MORE_TOOLS, ""], list(prompt.pictures)
    for place, step in enumerate(prompt.rounds):
        for call, result in calls_with_results(step, place, own=True):
            name = " ".join(call.name.split())[:100]
            outcome = "failed" if result.is_error else "returned"
            # Indented, so that no line of a result poses as another result.
            text = result.text.replace("\r", "").replace("\n", "\n  ")
            lines += [f"[{name}] was called with: {arguments_text(call.arguments)}", f"[{name}] {outcome}:\n  {text}"]
            pictures += result.pictures
    return replace(prompt, text="\n".join(lines).lstrip(), pictures=tuple(pictures), tools=(), rounds=())


def with_ids(content: Iterable[Mapping[str, Any]], kind: str, field: str, calls: Sequence[ToolCall]) -> list[Any]:
    """Return an echo whose items of type `kind` have the ids of `calls` in `field`: the provider's ids, unless they
    were missing or repeated."""
    ids = iter(call.id for call in calls)
    return [{**item, field: next(ids, item.get(field))} if item.get("type") == kind else dict(item) for item in content]


def visible_result(result: ToolResult, profile: Profile) -> tuple[str, list[Picture]]:
    """Return a result's text and the pictures that the model can see. The text mentions the others."""
    seen = [picture for picture in result.pictures if is_seen(picture, profile)]
    missing = len(result.pictures) - len(seen)
    if not missing:
        return result.text, seen
    line = f"[{missing} picture{'s' if missing > 1 else ''} came with this and cannot be shown here]"
    return f"{result.text}\n{line}".lstrip("\n"), seen


def effort_of(prompt: Prompt, profile: Profile) -> str | None:
    """Return the model's word for how long to think; None to leave it out."""
    return profile.effort if prompt.thinking is None else profile.thinking[prompt.thinking]


def sampling_of(prompt: Prompt, profile: Profile, stop: str = "stop") -> dict[str, Any]:
    """Return the temperature, if it is set, and in the field `stop` the stop sequences that a provider accepts: without
    duplicates and white space."""
    stops = list(dict.fromkeys(text for text in prompt.stop if text.strip()))[: profile.max_stops]
    fields = {stop: stops or None, "temperature": prompt.temperature}
    return {name: value for name, value in fields.items() if value is not None}


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """Cut the text at the stop sequence that begins first."""
    found = [at for at in (text.find(stop) for stop in stops if stop) if at >= 0]
    return text[: min(found)] if found else text


def settled_text(text: str, stops: Sequence[str]) -> str:
    """Return the part of a growing text that can no longer turn out to belong to a stop sequence."""
    end = len(cut_at_stop(text, stops))
    for stop in stops:
        sizes = range(min(len(stop) - 1, len(text)), 0, -1)
        begun = next((size for size in sizes if text.endswith(stop[:size])), 0)
        end = min(end, len(text) - begun)
    return text[:end]


def listen_until_stop(on_text: Callable[[str], None] | None, stops: Sequence[str]) -> Callable[[str], None] | None:
    """Wrap a listener of a growing text so that it gets nothing from a stop sequence on."""
    if on_text is None or not stops:
        return on_text
    return lambda text: on_text(settled_text(text, stops))
