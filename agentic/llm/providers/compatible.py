"""Any address that speaks OpenAI's Chat Completions: gateways, and model servers on the owner's machines.

https://platform.openai.com/docs/api-reference/chat

Such servers have little more in common than the shape. A server's limits are in its `Endpoint`, in the profile
"compatible", or learned from a refusal (structured output). Content is a plain string if it is only text, because many
servers accept nothing else. A streamed answer is assembled into the shape of a whole answer. ollama.py translates this
module's requests and answers for Ollama's own API.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby
from typing import Any

from agentic.llm import http, turns
from agentic.llm.errors import BadAnswer, ConnectionFailed, error_of_body
from agentic.llm.markup import split_reasoning, strip_reasoning
from agentic.llm.model import Access, StreamListener
from agentic.llm.profiles import Endpoint, Profile
from agentic.llm.providers.openai import OpenAIModel
from agentic.llm.retry import Retrier
from agentic.llm.schemas import json_object, number, part, parts, schema_for, text
from agentic.llm.turns import Part, build_turns
from agentic.llm.types import Message, Prompt, Reply, StopReason, ToolCall, ToolRound, Usage

MAX_CHARACTERS = 100_000  # a server that ignores its limit is cut here, with the same outcome
STEPS = 50  # a growing text is read again when it is longer by this part
# Lists and texts that grow from piece to piece, besides the calls.
_GROWING = ("content", "refusal", "reasoning_content", "reasoning", "reasoning_details", "text")
# Fields that a reasoning model needs back beside its calls, as OpenRouter, DeepSeek and vLLM name them.
_REASONING = ("reasoning_details", "reasoning_content", "reasoning")
_STOPS: Mapping[str, StopReason] = {
    "stop": "stop",
    "tool_calls": "stop",
    "function_call": "stop",
    "length": "length",
    "content_filter": "refusal",
}


class CompatibleModel(OpenAIModel):
    """A model behind an `Endpoint`, whose name is its provider. It can't draw or search."""

    provider = "compatible"
    draws = False
    doubts_schema = True
    no_such_model = frozenset()  # OpenRouter also answers 404 for a model that sees no pictures

    def __init__(self, access: Access, retrier: Retrier | None = None) -> None:
        assert access.endpoint is not None
        self.endpoint, self.home = access.endpoint, access.endpoint.base_url
        super().__init__(access, retrier)

    def _request(self, prompt: Prompt, history: Sequence[Message]) -> Mapping[str, Any]:
        path, body = request_of(self.endpoint, prompt, history, self.access.model, self.profile)
        if prompt.on_text and self.profile.stream_usage:
            body["stream_options"] = {"include_usage": True}
        return {"path": path, "body": body | dict(self.endpoint.fields) | dict(prompt.fields)}

    async def _ask(self, request: Mapping[str, Any], seconds: float, listener: StreamListener | None) -> Reply:
        if listener is None:
            response = await http.post(self._client, request["path"], request["body"], seconds)
            return reply_of(json_object(response.content), self.provider, response.headers.get("x-request-id"))
        async with (
            http.stream(self._client, request["path"], request["body"], seconds) as response,
            aclosing(http.objects_in(response.aiter_bytes())) as pieces,
        ):
            return reply_of(await gather(pieces, listener), self.provider)

    async def _look(self, seconds: float) -> None:
        """List the models, because not every server describes a single model."""
        await http.get(self._client, "/models", seconds)


# --- requests -------------------------------------------------------------------------------------------------------


def request_of(
    endpoint: Endpoint, prompt: Prompt, history: Sequence[Message], model: str, profile: Profile
) -> tuple[str, dict[str, Any]]:
    """Return a request's path and body: /chat/completions, or /completions if a base model should continue a text."""
    limit = "max_tokens" if profile.max_tokens else "max_completion_tokens"
    body: dict[str, Any] = {"model": model, limit: prompt.max_output_tokens}
    body |= turns.sampling_of(prompt, profile)
    if prompt.prefill is not None and endpoint.prefill == "completions":
        stops = list(dict.fromkeys(prompt.stop))[: profile.max_stops]  # a base model's answer ends at a blank line
        body |= {"stop": stops} if stops else {}
        return "/completions", body | {"prompt": _plain_text(prompt, history, profile)}
    body["messages"] = _messages(endpoint, prompt, history, profile)
    if prompt.prefill is not None and endpoint.prefill == "continue":
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    if effort := turns.effort_of(prompt, profile):
        body["reasoning_effort"] = effort
    if prompt.tools:
        functions = (turns.function_of(tool, profile) for tool in prompt.tools)
        body["tools"] = [{"type": "function", "function": function} for function in functions]
    if (schema := schema_for(prompt, profile)) is not None:
        wanted = {"name": prompt.schema_name, "schema": schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return "/chat/completions", body


def _plain_text(prompt: Prompt, history: Sequence[Message], profile: Profile) -> str:
    """Return system, history, and the prefilled answer as one text, with blank lines between roles."""
    built = build_turns(*turns.with_newest_pictures(prompt, history, 0), replace(profile, alternate=False))
    texts = ((turn.role, "".join(piece.text for piece in turn.parts)) for turn in built)
    by_role = groupby(((role, said) for role, said in texts if said), key=lambda turn: turn[0])
    said = ["".join(words for _, words in same) for _, same in by_role]  # joins the parts of a prefilled answer
    return "\n\n".join(piece for piece in (prompt.system, *said) if piece)


def _messages(endpoint: Endpoint, prompt: Prompt, history: Sequence[Message], profile: Profile) -> list[dict[str, Any]]:
    built = build_turns(prompt, history, profile)
    system = turns.system_parts(prompt)
    marks = turns.cache_marks(built, profile.cache_marks - len(system))
    mark = {"type": "ephemeral"} if prompt.cache_ttl == "5m" else {"type": "ephemeral", "ttl": prompt.cache_ttl}
    messages: list[dict[str, Any]] = []
    if prompt.system:
        marked = [{"type": "text", "text": piece, "cache_control": mark} for piece in system]
        messages.append({"role": "system", "content": marked if profile.cache_marks else prompt.system})
    between = "\n\n" if prompt.prefill is None else ""
    for turn in built:
        content: Any = between.join(piece.text for piece in turn.parts)
        if any(piece.picture is not None or id(piece) in marks for piece in turn.parts):
            content = [
                _content(piece) | ({"cache_control": mark} if id(piece) in marks else {}) for piece in turn.parts
            ]
        messages.append({"role": turn.role, "content": content})
    if prompt.prefill is None:
        for place, step in enumerate(prompt.rounds):
            messages += _round(step, place, endpoint.name, profile)
    elif endpoint.prefill in ("prefix", "partial"):
        messages[-1][endpoint.prefill] = True
    return messages


def _content(piece: Part) -> dict[str, Any]:
    if piece.picture is None:
        return {"type": "text", "text": piece.text}
    return {"type": "image_url", "image_url": {"url": turns.data_url(piece.picture)}}


def _round(step: ToolRound, place: int, asked_by: str, profile: Profile) -> list[dict[str, Any]]:
    """Return the model's calls, their results, and the results' pictures, which a result can't contain."""
    own = step.echo if isinstance(step.echo, Mapping) and step.echo.get("by") == asked_by else {}
    pairs = turns.calls_with_results(step, place, own=bool(own))
    calls = []
    for call, _ in pairs:
        function = {"name": call.name, "arguments": turns.arguments_text(call.arguments)}
        calls.append({"id": call.id, "type": "function", "function": function})
    messages = [{"role": "assistant", "content": step.text, "tool_calls": calls, **part(own, "reasoning")}]
    for _, result in pairs:
        said = f"Error: {result.text}" if result.is_error else result.text
        messages.append({"role": "tool", "tool_call_id": result.call_id, "content": said})
    pictures = Message("user", "", tuple(picture for result in step.results for picture in result.pictures))
    for turn in build_turns(Prompt(text=""), [pictures], profile):
        messages.append({"role": "user", "content": [_content(piece) for piece in turn.parts]})
    return messages


# --- answers --------------------------------------------------------------------------------------------------------


def reply_of(answer: Mapping[str, Any], asked_by: str, request_id: str | None = None) -> Reply:
    """Return the Reply in an answer from either path. Raises an error reported with status 200."""
    choices = parts(answer, "choices")
    for each in (answer, *choices[:1]):
        if each.get("error"):  # gateways send 200 before they know that a model's server fails
            raise error_of_body(each["error"], request_id)
    if not choices:
        raise BadAnswer("empty", request_id=request_id)
    choice = choices[0]
    message = part(choice, "message") or choice  # plain completions have their text in the choice
    said, marked = split_reasoning(_text_in(message))
    functions = [(text(call, "id"), part(call, "function")) for call in parts(message, "tool_calls")]
    # An id may be missing, or there twice.
    calls = tuple(ToolCall(id, text(each, "name"), turns.arguments_of(each.get("arguments"))) for id, each in functions)
    refused = not said and not calls and bool(text(message, "refusal"))
    reasoning = {key: message[key] for key in _REASONING if message.get(key)}
    # DeepSeek reports cached tokens in a field of its own.
    cached = number(answer, "usage", "prompt_tokens_details", "cached_tokens")
    return Reply(
        text=said,
        usage=Usage(
            calls=1,
            input_tokens=number(answer, "usage", "prompt_tokens"),
            cached_tokens=cached or number(answer, "usage", "prompt_cache_hit_tokens"),
            cache_write_tokens=number(answer, "usage", "prompt_tokens_details", "cache_write_tokens"),
            output_tokens=number(answer, "usage", "completion_tokens"),
            reasoning_tokens=number(answer, "usage", "completion_tokens_details", "reasoning_tokens"),
        ),
        request_id=request_id or text(answer, "id") or None,
        stop="refusal" if refused else _STOPS.get(text(choice, "finish_reason"), "other"),
        tool_calls=calls,
        reasoning=turns.join_thoughts((_thoughts_in(message), marked)),
        echo={"by": asked_by, "reasoning": reasoning} if calls else None,
    )


def _thoughts_in(message: Mapping[str, Any]) -> str:
    """Return a message's reasoning: a text, or else the texts and summaries of OpenRouter's details."""
    listed = (text(piece, "text") or text(piece, "summary") for piece in parts(message, "reasoning_details"))
    return text(message, "reasoning_content") or text(message, "reasoning") or "".join(listed)


def _text_in(message: Mapping[str, Any]) -> str:
    """Return a message's text: a string, or the texts of its parts. Plain completions call it `text`."""
    listed = "".join(text(piece, "text") for piece in parts(message, "content"))
    return listed or text(message, "content") or text(message, "text")


class StreamedCompletion:
    """Collects the pieces. `answer` has the shape of a whole answer; `said` is its visible part."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._places: dict[object, dict[str, Any]] = {}  # an index → its newest call
        self._rest: dict[str, Any] = {}
        self.characters = 0  # everything that was written, with the reasoning in it
        self.finish: str | None = None

    @property
    def said(self) -> str:
        return strip_reasoning(_text_in(self._message), growing=True)

    @property
    def answer(self) -> dict[str, Any]:
        message = self._message | ({"tool_calls": self._calls} if self._calls else {})
        return {**self._rest, "choices": [{"message": message, "finish_reason": self.finish}]}

    def add(self, piece: Mapping[str, Any]) -> None:
        """Add one event. Raises the error that it reports."""
        if piece.get("error"):
            raise error_of_body(piece["error"])
        for key in ("id", "usage"):
            if piece.get(key):
                self._rest[key] = piece[key]
        for choice in parts(piece, "choices")[:1]:
            self._grow(part(choice, "delta") or choice)
            self.finish = text(choice, "finish_reason") or self.finish

    def _grow(self, delta: Mapping[str, Any]) -> None:
        self.characters += len(_text_in(delta))
        for key in _GROWING:
            more, so_far = delta.get(key), self._message.get(key)
            if isinstance(more, str):
                self._message[key] = (so_far if isinstance(so_far, str) else "") + more
            elif isinstance(more, list):
                self._message[key] = so_far if isinstance(so_far, list) else []
                self._message[key] += more
        for call in parts(delta, "tool_calls"):
            self._grow_call(call)

    def _grow_call(self, call: Mapping[str, Any]) -> None:
        """Add a piece of a call, by its index. Servers without indices send each call with its id; a piece without
        either belongs to the last call. Some servers send every call with the index 0."""
        function = part(call, "function")
        place: object = call.get("index", text(call, "id"))
        so_far = self._places.get(place)
        if place == "" and self._calls:
            so_far = self._calls[-1]
        if so_far is None or _begins_another(call, so_far):
            so_far = {"id": "", "function": {"name": "", "arguments": ""}}
            self._calls.append(so_far)
            self._places[place] = so_far
        so_far["id"] = so_far["id"] or text(call, "id")
        so_far["function"]["name"] = so_far["function"]["name"] or text(function, "name")
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping):
            so_far["function"]["arguments"] = arguments
        elif isinstance(arguments, str) and isinstance(so_far["function"]["arguments"], str):
            so_far["function"]["arguments"] += arguments


def _begins_another(call: Mapping[str, Any], so_far: Mapping[str, Any]) -> bool:
    """Return whether a piece at a call's place begins another call: it has another id, or it has a name and arguments
    although the call is complete."""
    named, before = text(call, "id"), text(so_far, "id")
    if named and before:
        return named != before
    function, written = part(call, "function"), part(so_far, "function").get("arguments")
    if not text(function, "name") or not function.get("arguments") or not written:
        return False
    return isinstance(written, Mapping) or turns.RAW not in turns.arguments_of(written)


async def gather(pieces: AsyncIterable[Mapping[str, Any]], on_text: Callable[[str], None]) -> dict[str, Any]:
    """Return the whole answer. `on_text` gets the whole text so far as it grows: a long text in larger steps, because
    it is read again each time.

    Raises ConnectionFailed if the stream ends before the answer does.
    """
    completion, said, read = StreamedCompletion(), "", 0
    async for piece in pieces:
        completion.add(piece)
        if completion.characters > read + read // STEPS:
            before, said, read = said, completion.said, completion.characters
            if said != before:
                on_text(said)
        if completion.characters > MAX_CHARACTERS:
            completion.finish = "length"
            break
    if completion.finish is None:
        raise ConnectionFailed("cut in mid-answer")
    return completion.answer
