from __future__ import annotations

from agentic.console.parts import ConsoleContext, RecordFile
from agentic.state.conversations import ScorePart, SpeakerChoice, SpeakerScore
from tests.agentic.console.conftest import ODD_ID, Pages


async def test_a_message_leads_to_its_turn_also_when_redis_has_forgotten_it(pages: Pages) -> None:
    why = await pages.get("/api/live/why/77")
    assert (why["agent"], why["id"], why["has_page"], why["scores"]) == ("claude", ODD_ID, True, [])
    assert await pages.get("/api/live/why/78", status=404) == {"error": "No turn is recorded for this message."}


async def test_a_message_says_why_its_bot_was_chosen_and_with_which_scores(
    pages: Pages, parts: ConsoleContext, record: RecordFile
) -> None:
    query = """SELECT message_id, turns.* FROM posts JOIN turns ON turns.agent = posts.agent AND turns.id = turn_id
        WHERE conversation_id IS NOT NULL ORDER BY turns.at DESC LIMIT 1"""
    post = next(iter(await (await record.open()).execute_fetchall(query)))
    why = await pages.get(f"/api/live/why/{post['message_id']}")
    assert (why["agent"], why["chosen_because"]) == (post["agent"], "has said less than its share")
    assert (why["scores"], why["policy"]) == ([], "in rounds, each in a different order")
    score = SpeakerScore(agent=post["agent"], strength=1.2, parts=(ScorePart(why="named by Ada", amount=1.2),))
    choice = SpeakerChoice(
        channel_id=post["channel_id"],
        conversation_id=post["conversation_id"],
        at=post["at"] - 1,
        chosen=post["agent"],
        because=post["chosen_because"],
        pulls=(score,),
    )
    await parts.state.coordination.scores.keep(choice)
    scores = (await pages.get(f"/api/live/why/{post['message_id']}"))["scores"]
    assert scores == [score.model_dump(mode="json")]


async def test_a_picture_that_discord_gives_no_more_comes_from_the_record(pages: Pages, record: RecordFile) -> None:
    found = await (await record.open()).execute_fetchall("SELECT message_id, data FROM pictures")
    message_id, data = next(iter(found))
    answer = await pages.client.get(f"/api/files/{message_id}/1")
    assert (await answer.read(), answer.content_type.startswith("image/")) == (data, True)
