"""Whether a call's arguments fit the tool's JSON schema, as the `jsonschema` package judges it; in one line for models.

A schema may come from another program. Nothing in it is fetched: a reference to elsewhere takes anything. No regular
expression of it is run, because one can take for ever. One that is no schema, or whose references do not come to an
end, takes anything too: what is not judged here is left to the tool, which judges its arguments itself. So is `oneOf`,
which other programs write where they mean `anyOf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MOST_REFERENCES = 10_000  # followed for one call: a few that double each other are more than anybody could follow
RAW = "_raw"  # where a provider's module puts arguments that are no JSON

_WITH_PATTERNS = ("pattern", "patternProperties", "unevaluatedProperties")
_WORDS: Mapping[str, Callable[[Any], str]] = {
    "type": lambda kinds: f"must be {kinds if isinstance(kinds, str) else ' or '.join(kinds)}",
    "const": lambda value: f"must be {value!r}",
    "enum": lambda choices: f"must be one of {', '.join(map(repr, choices[:20]))}",
    "minimum": "must be at least {}".format,
    "maximum": "must be at most {}".format,
    "exclusiveMinimum": "must be more than {}".format,
    "exclusiveMaximum": "must be less than {}".format,
    "minLength": "must be at least {} characters".format,
    "maxLength": "must be at most {} characters".format,
    "minItems": "must be at least {} items".format,
    "maxItems": "must be at most {} items".format,
    "anyOf": lambda _: "fits none of its allowed forms",
    "oneOf": lambda _: "fits none of its allowed forms",
}
_references_left: ContextVar[list[int]] = ContextVar("references_left")


def problem_with(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str | None:
    """What does not fit, in one line that the model can act on; None where everything does."""
    if set(arguments) == {RAW} and RAW not in (schema.get("properties") or {}):
        return "the arguments are not one JSON object"
    from referencing import Registry  # no registry retrieves by itself
    from referencing.exceptions import Unresolvable

    _references_left.set([MOST_REFERENCES])
    try:
        validator = _validator()({"type": "object", **schema}, registry=Registry())
        error = next(validator.iter_errors(dict(arguments)), None)
        return None if error is None else _told(error)
    except (Unresolvable, RecursionError, TypeError, ValueError, AttributeError, LookupError):
        return None  # it is no schema


@cache
def _validator() -> Any:
    """The class, without what would run a schema's regular expressions."""
    from jsonschema import Draft202012Validator, validators  # 60 ms, and only for who calls tools
    from jsonschema.exceptions import UnknownType
    from referencing.exceptions import Unresolvable

    known = Draft202012Validator.VALIDATORS

    def lenient(keyword: str) -> Any:
        def check(*judged: Any) -> Iterator[ValidationError]:
            left = _references_left.get()
            left[0] -= keyword != "type"
            if left[0] < 0:
                raise RecursionError
            try:
                yield from known[keyword](*judged) or ()
            except (Unresolvable, UnknownType):
                return

        return check

    def others(validator: Any, wanted: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[ValidationError]:
        if not schema.get("patternProperties"):
            yield from known["additionalProperties"](validator, wanted, value, schema) or ()

    judged = {keyword: check for keyword, check in known.items() if keyword not in _WITH_PATTERNS}
    judged |= {keyword: lenient(keyword) for keyword in ("$ref", "$dynamicRef", "type")}
    return validators.create(
        Draft202012Validator.META_SCHEMA,
        judged | {"additionalProperties": others, "oneOf": known["anyOf"]},
        type_checker=Draft202012Validator.TYPE_CHECKER,
    )


def _told(error: Any) -> str:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)[:200]
    path, keyword, value = place.lstrip("."), str(error.validator), error.instance
    if keyword == "required" and isinstance(value, dict):
        lacking = next(name for name in error.validator_value if name not in value)
        return f"{path}.{lacking} is missing".lstrip(".")
    if keyword == "additionalProperties" and isinstance(value, dict):
        other = next(name for name in value if name not in error.schema.get("properties", {}))
        return f"{path}.{other[:100]} is not one of its arguments".lstrip(".")
    words = _WORDS[keyword](error.validator_value) if keyword in _WORDS else error.message[:200]
    return f"{path or 'the arguments'} {words}"
