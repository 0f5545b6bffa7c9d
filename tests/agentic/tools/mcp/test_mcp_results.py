"""What servers answer, as text and pictures."""

import base64

import pytest
from mcp_types import CallToolResult, ImageContent, ReadResourceResult, Resource, TextContent, TextResourceContents

from agentic.llm.types import Picture
from agentic.tools.mcp.connection import (
    MAX_CHARACTERS,
    MAX_PICTURES,
    output_of,
    output_of_listing,
    output_of_resource,
)
from tests.support.tools.mcp_server import PNG


def text(*texts, **more):
    return output_of(CallToolResult(content=[TextContent(text=text) for text in texts], **more))


def picture(data):
    encoded = data if isinstance(data, str) else base64.b64encode(data).decode()
    return ImageContent(data=encoded, mime_type="image/webp")


def test_texts_stand_one_under_the_other_and_an_error_is_marked():
    assert text("a <b>", "c").text == "a <b>\nc"
    assert text("no", is_error=True).is_error
    assert text().text == "[nothing]"


@pytest.mark.parametrize(
    ("said", "value", "shown"),
    [
        ('{"a": 1}', {"a": 1}, '{"a": 1}'),
        ("5", {"result": 5}, "5"),
        ("five", {"result": "five"}, "five"),
        ("found", {"a": 10**30}, f'found\n{{"a": {10**30}}}'),
        ("5", 6, "5\n6"),
    ],
)
def test_a_structured_value_is_shown_unless_it_was_said_already(said, value, shown):
    assert text(said, structured_content=value).text == shown


def test_a_picture_is_what_its_bytes_are():
    output = output_of(CallToolResult(content=[picture(PNG)]))
    assert output.pictures == (Picture(PNG, "image/png"),)
    assert output.text == ""


@pytest.mark.parametrize("data", [b"<svg/>", "!!!", "é", PNG[:20], "A" * 8_000_000, ""])
def test_what_is_no_picture_of_use_is_named(data):
    output = output_of(CallToolResult(content=[picture(data)]))
    assert output.pictures == ()
    assert output.text.startswith("[picture: ")
    assert len(output.text) < 100


def test_pictures_are_few():
    output = output_of(CallToolResult(content=[picture(PNG)] * (MAX_PICTURES + 2)))
    assert len(output.pictures) == MAX_PICTURES
    assert output.text.count("left out") == 2


def test_a_long_result_is_cut():
    output = text("x" * MAX_CHARACTERS, "y")
    assert "y" not in output.text.splitlines()
    assert output.text.endswith(f"[cut here, at {MAX_CHARACTERS} characters]")


def test_resources_are_listed_one_a_line():
    resource = Resource(uri="a://b", name="n", description="two\nlines")
    assert output_of_listing([resource], []).text == "a://b: n, two lines"
    assert output_of_listing([], []).text == "[no resources]"
    assert output_of_listing([resource] * 300, []).text.endswith("\n[and 100 more]")


def test_a_resource_of_several_parts_names_them():
    parts = [TextResourceContents(uri=f"a://{name}", text=f"text {name}") for name in "xy"]
    assert output_of_resource(ReadResourceResult(contents=parts[:1])).text == "text x"
    assert output_of_resource(ReadResourceResult(contents=parts)).text == (
        "[resource a://x]\ntext x\n[resource a://y]\ntext y"
    )
