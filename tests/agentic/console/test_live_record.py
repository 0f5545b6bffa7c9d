from __future__ import annotations

from agentic.console.parts import RecordFile
from tests.agentic.console.conftest import ODD_ID, Pages


async def test_a_message_leads_to_its_turn_also_when_redis_has_forgotten_it(pages: Pages) -> None:
    assert await pages.get("/api/live/why/77") == {"agent": "claude", "id": ODD_ID}
    assert await pages.get("/api/live/why/78", status=404) == {"error": "No turn is recorded for this message."}


async def test_a_picture_that_discord_gives_no_more_comes_from_the_record(pages: Pages, record: RecordFile) -> None:
    found = await (await record.open()).execute_fetchall("SELECT message_id, data FROM pictures")
    message_id, data = next(iter(found))
    answer = await pages.client.get(f"/api/files/{message_id}/1")
    assert (await answer.read(), answer.content_type.startswith("image/")) == (data, True)
