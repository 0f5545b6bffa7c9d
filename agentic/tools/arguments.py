"""Validate a call's arguments against the tool's JSON schema, with a one-line message for the model.

A schema may come from another program. References are not fetched, and one that cannot be resolved accepts anything.
Regular expressions are not run, because one can take forever. An invalid schema, or one whose references never end,
accepts anything too: the tool checks its own arguments. `oneOf` is read as `anyOf`, which is what other programs mean
by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

MOST_REFERENCES = 10_000  # followed for one call: a few references that double each other would never end
RAW = "_raw"  # the key under which a provider's module puts arguments that are not JSON

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
    """Say what does not fit, in one line that the model can act on. None if everything fits."""
    if set(arguments) == {RAW} and RAW not in (schema.get("properties") or {}):
        return "the arguments are not one JSON object"
    from referencing import Registry  # no registry retrieves by itself
    from referencing.exceptions import Unresolvable

    _references_left.set([MOST_REFERENCES])
    try:
        validator = _validator()({"type": "object", **schema}, registry=Registry())
        error = next(validator.iter_errors(dict(arguments)), None)
        return None if error is None else _described(error)
    except (Unresolvable, RecursionError, TypeError, ValueError, AttributeError, LookupError):
        return None  # not a valid schema


@cache
def _validator() -> Any:
    """Return the validator class, without the keywords that run a schema's regular expressions."""
    from jsonschema import Draft202012Validator, validators  # 60 ms, and only needed to call tools
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


def _described(error: Any) -> str:
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
