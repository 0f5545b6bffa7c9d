"""A schema as a provider wants it, made once: schemas live as long as the program and go with each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]


class MadeOnce:
    """Keeps what `make` makes of a schema under the rules of a model. Nobody may change it."""

    def __init__(self, make: Callable[[Schema, Any], dict[str, Any]], most: int) -> None:
        self._make, self._most = make, most
        # By identity, with the objects themselves: while they are kept nothing else has their identities.
        self._made: dict[tuple[int, int], tuple[Schema, object, dict[str, Any]]] = {}

    def of(self, schema: Schema, rules: object) -> dict[str, Any]:
        key = (id(schema), id(rules))
        known = self._made.get(key)
        if known is None:
            if len(self._made) >= self._most:
                self._made.clear()
            known = self._made[key] = (schema, rules, self._make(schema, rules))
        return known[2]
