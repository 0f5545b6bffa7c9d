from __future__ import annotations

import re

import pytest

from agentic.wire.reasons import ENDINGS
from tests.agentic.console.conftest import Pages


async def test_conversations_are_listed_in_pages_with_how_they_ended(pages: Pages) -> None:
    first = await pages.get("/api/conversations", count="3")
    assert first["items"][0]["id"] == "showcase"
    assert first["items"][0]["channel"]["name"] == "debate"
    assert first["items"][0]["ended_text"] in ENDINGS.values()
    second = await pages.get("/api/conversations", count="3", before=first["next"])
    ids = [each["id"] for each in (*first["items"], *second["items"])]
    assert len(set(ids)) == 6


async def test_a_conversation_is_a_chat_with_its_skipped_turns_in_their_places(pages: Pages) -> None:
    shown = await pages.get("/api/conversations/showcase")
    assert [item["agent"] for item in shown["items"] if item["posts"]][:3] == ["gemini", "grok", "claude"]
    assert all(bool(item["posts"]) == (item["outcome"] == "posted") for item in shown["items"])
    assert [item["at"] for item in shown["items"]] == sorted(item["at"] for item in shown["items"])


@pytest.mark.parametrize("name", ["none", "x" * 500, "%00", "..%2f..%2fetc"])
async def test_a_conversation_that_is_not_there_is_said_so(pages: Pages, name: str) -> None:
    response = await pages.client.get(f"/api/conversations/{name}")
    assert response.status == 404
    assert (await response.json()).keys() == {"error"}


@pytest.mark.parametrize("query", [{"before": "inf:a"}, {"before": "x:" + "y" * 400}, {"channel": "a"}])
async def test_odd_parameters_are_refused(pages: Pages, query: dict[str, str]) -> None:
    await pages.get("/api/conversations", status=400, **query)


@pytest.mark.parametrize(
    ("kind", "media_type"), [("html", "text/html"), ("md", "text/markdown"), ("json", "application/json")]
)
async def test_a_conversation_is_saved_as_a_file_which_the_browser_does_not_open(
    pages: Pages, kind: str, media_type: str
) -> None:
    response = await pages.client.get("/api/conversations/showcase/export", params={"format": kind})
    assert (response.status, response.content_type) == (200, media_type)
    disposition = response.headers["Content-Disposition"]
    assert re.fullmatch(rf'attachment; filename="conversation-2026-11-22-[a-z0-9-]+\.{kind}"', disposition)
    assert "marshmallow" in await response.text()


async def test_an_unknown_format_is_refused(pages: Pages) -> None:
    await pages.get("/api/conversations/showcase/export", status=400, format="../pdf")
    await pages.get("/api/conversations/none/export", status=404, format="md")
