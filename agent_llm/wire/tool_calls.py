"""Tools on the wire, what all providers have in common. Pure functions.

A round of the tool loop goes back as the provider itself wrote it, thinking and signatures included, where it is the
same model's: its `echo`. Another model reads what was called and what came of it, with ids of ours, since providers
make them by different rules and want each only once.

Arguments that are no JSON object become the one argument RAW, the text as it came: the tool then says what it misses,
and the model sees its own mistake. Python's integers keep every digit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_llm.profiles import Profile
from agent_llm.types import Picture, ToolCall, ToolResult, ToolRound
from agent_llm.wire.lenient_json import parts
from agent_llm.wire.schemas import ConvertedSchemas
from agent_llm.wire.turns import is_seen

RAW = "_raw"

# What Anthropic and OpenAI refuse at the top of a function's parameters, which servers' tools like to have there.
_COMBINED = ("allOf", "anyOf", "oneOf")
# The keywords of a schema that OpenAI's strict mode takes at every depth, with no further rule to heed.
_PLAIN = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "description", "anyOf", "title"}
)


def arguments_of(written: Any) -> Mapping[str, Any]:
    """A call's arguments, from the JSON text or the object that a provider gives."""
    if isinstance(written, Mapping):
        return written
    said = written if isinstance(written, str) else ""
    try:
        read = json.loads(said or "{}", parse_constant=_refuse)
        json.dumps(read, ensure_ascii=False).encode()  # half a surrogate pair could never be sent again
    except (ValueError, RecursionError):
        return {RAW: said}
    return read if isinstance(read, dict) else {RAW: said}


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def written(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON text; those that were none as the model wrote them."""
    raw = arguments.get(RAW)
    if isinstance(raw, str) and len(arguments) == 1:
        return raw
    return json.dumps(dict(arguments), ensure_ascii=False, default=str)


def parameters_of(parameters: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """A tool's parameters as providers take them: one plain object at the top, no keyword that the model refuses."""
    return _PARAMETERS.of(parameters, profile.unknown_in_parameters)


def _plain(parameters: Mapping[str, Any], unknown: frozenset[str]) -> dict[str, Any]:
    cleaned = _cleaned(parameters, unknown)
    properties: dict[str, Any] = {}
    required: list[str] = list(cleaned.get("required", ()))
    for keyword in _COMBINED:
        for branch in parts(cleaned, keyword):
            properties |= branch.get("properties", {})
            required += branch.get("required", ()) if keyword == "allOf" else ()
        cleaned.pop(keyword, None)
    flat = {**cleaned, "type": "object", "properties": properties | dict(cleaned.get("properties") or {})}
    return flat | ({"required": list(dict.fromkeys(required))} if required else {})


_PARAMETERS = ConvertedSchemas(_plain, most=1000)


def _cleaned(schema: Mapping[str, Any], unknown: frozenset[str]) -> dict[str, Any]:
    """Without the keywords, at every depth; names of properties are no keywords."""
    cleaned: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            cleaned[key] = {name: _cleaned_value(part, unknown) for name, part in value.items()}
        elif key not in unknown:
            cleaned[key] = value if key in ("enum", "const", "default") else _cleaned_value(value, unknown)
    return cleaned


def _cleaned_value(value: Any, unknown: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return _cleaned(value, unknown)
    return [_cleaned_value(item, unknown) for item in value] if isinstance(value, (list, tuple)) else value


def is_strict(schema: Any) -> bool:
    """Whether a schema already keeps the rules of OpenAI's strict mode, so that asking for it changes no meaning.

    Every object is closed and requires all it has: https://platform.openai.com/docs/guides/structured-outputs
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


# --- rounds ---------------------------------------------------------------------------------------------------------


def echo_of(name: str, content: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What a model said, in its provider's shape, for `ToolRound.echo`. `name` is the model's `provider/model`."""
    return {"by": name, "content": list(content)}


def own_echo(step: ToolRound, name: str) -> list[Mapping[str, Any]]:
    """What this very model said in a round; empty where it was another, or where the echo has not come along."""
    return parts(step.echo, "content") if isinstance(step.echo, Mapping) and step.echo.get("by") == name else []


def calls_with_results(step: ToolRound, place: int, *, own: bool) -> list[tuple[ToolCall, ToolResult]]:
    """Each call of the round at `place` with its result, by the id. Providers want one for every call."""
    results = {result.call_id: result for result in step.results}
    pairs = []
    for number, call in enumerate(step.calls):
        result = results.get(call.id) or ToolResult(call.id, call.name, "this call was not run", is_error=True)
        name = call.id if own else f"call_{place}_{number}"
        told = ToolResult(name, call.name, result.text, result.pictures, result.is_error)
        pairs.append((ToolCall(name, call.name, call.arguments), told))
    return pairs


def shown(result: ToolResult, profile: Profile) -> tuple[str, list[Picture]]:
    """A result's text, and those of its pictures that the model can look at; the text tells of the others."""
    seen = [picture for picture in result.pictures if is_seen(picture, profile)]
    missing = len(result.pictures) - len(seen)
    if not missing:
        return result.text, seen
    line = f"[{missing} picture{'s' if missing > 1 else ''} came with this and cannot be shown here]"
    return f"{result.text}\n{line}".lstrip("\n"), seen
