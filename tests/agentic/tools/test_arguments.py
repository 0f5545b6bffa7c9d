from __future__ import annotations

import pytest

from agentic.tools.call_runner import problem_with

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1},
        "count": {"type": "integer", "minimum": 1, "maximum": 10},
        "kind": {"enum": ["news", "web"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "where": {"$ref": "#/$defs/place"},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "deep": {"type": "boolean"},
    },
    "required": ["query"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"query": "a"}, None),
        ({"query": "a", "count": 10, "kind": "web", "tags": ["x"], "where": {"city": "Ulm"}, "when": None}, None),
        ({"query": "a", "count": 3.0}, None),
        ({}, "query is missing"),
        ({"query": 1}, "query must be string"),
        ({"query": ""}, "query must be at least 1 characters"),
        ({"query": "a", "count": "3"}, "count must be integer"),
        ({"query": "a", "count": True}, "count must be integer"),
        ({"query": "a", "count": 11}, "count must be at most 10"),
        ({"query": "a", "kind": "sea"}, "kind must be one of 'news', 'web'"),
        ({"query": "a", "tags": ["x", 2]}, "tags[1] must be string"),
        ({"query": "a", "tags": ["x", "y", "z"]}, "tags must be at most 2 items"),
        ({"query": "a", "where": {}}, "where.city is missing"),
        ({"query": "a", "when": 5}, "when fits none of its allowed forms"),
        ({"query": "a", "deep": 1}, "deep must be boolean"),
        ({"query": "a", "more": 1}, "more is not one of its arguments"),
        ({"_raw": "{broken"}, "the arguments are not one JSON object"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(arguments, problem):
    assert problem_with(arguments, SCHEMA) == problem


def test_a_schema_that_refers_to_itself_or_to_elsewhere_ends():
    endless = {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}, "b": {"$ref": "https://x.example/s"}}}
    assert problem_with({"a": 1, "b": 2}, endless) is None
    tree = {"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["children"]}
    assert problem_with({"children": [{"children": []}, {}]}, tree) == "children[1].children is missing"


@pytest.mark.promise(22)
def test_a_regular_expression_of_a_schema_is_not_run():
    assert problem_with({"a": "a" * 40 + "!"}, {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}) is None


@pytest.mark.promise(22)
def test_references_that_double_each_other_come_to_an_end():
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(60)}
    assert problem_with({"a": 1}, {"properties": {"a": {"$ref": "#/$defs/s0"}}, "$defs": steps | {"s60": {}}}) is None
    assert problem_with({"a": 1}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}) is None


@pytest.mark.parametrize(
    "more",
    [
        {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False},
        {"propertyNames": {"pattern": "^(a+)+$"}},
    ],
)
def test_nor_is_one_for_the_names_of_arguments(more):
    assert problem_with({"a" * 40 + "!": 1}, more) is None


@pytest.mark.promise(22)
def test_nothing_of_a_schema_is_fetched(monkeypatch):
    def fetched(*_, **__):
        raise AssertionError("somebody asked for it")

    monkeypatch.setattr("socket.getaddrinfo", fetched)
    monkeypatch.setattr("urllib.request.urlopen", fetched)
    for where in ("https://x.example/s", "file:///etc/passwd", "other#/a", "urn:x"):
        schema = {
            "$schema": "https://x.example/own",
            "$id": "https://x.example/here",
            "properties": {"a": {"$ref": where}},
        }
        assert problem_with({"a": 1}, schema) is None
        assert problem_with({"a": 1}, schema | {"required": ["b"]}) == "b is missing"


def test_what_is_written_as_one_of_and_meant_as_any_of_is_taken():
    assert problem_with({"a": 1}, {"properties": {"a": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}}) is None
    assert problem_with({"a": ""}, {"properties": {"a": {"oneOf": [{"type": "integer"}]}}}) == (
        "a fits none of its allowed forms"
    )


@pytest.mark.parametrize(
    "schema", [{}, {"properties": None}, {"required": "a"}, {"properties": {"a": True}}, {"type": 3}]
)
def test_a_schema_that_is_none_takes_everything(schema):
    assert problem_with({"a": 1}, schema) is None


@pytest.mark.parametrize(
    ("bound", "fits", "fails"),
    [
        ({"minimum": 2}, 2, 1),
        ({"maximum": 2}, 2, 3),
        ({"exclusiveMinimum": 2}, 3, 2),
        ({"exclusiveMaximum": 2}, 1, 2),
        ({"minLength": 2}, "ab", "a"),
        ({"maxLength": 2}, "ab", "abc"),
        ({"minItems": 1}, [1], []),
        ({"maxItems": 1}, [1], [1, 2]),
    ],
)
def test_a_bound_holds_from_the_first_value_beyond_it(bound, fits, fails):
    schema = {"properties": {"it": bound}}
    assert problem_with({"it": fits}, schema) is None
    assert problem_with({"it": fails}, schema) is not None
