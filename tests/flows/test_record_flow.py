"""What a turn reports reaches the record in the whole program; what is deleted in Discord goes from it."""

from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from tests.support.flow import decision, flow
from tests.support.recorded import recorded
from tests.support.redis_server import RedisServer, until


async def test_a_turn_is_in_the_record_with_its_words_until_its_question_is_deleted(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f, f.running(agents=("chatgpt",)) as runtime:
            heard = []
            runtime.services.bus.subscribe(keys.COORDINATOR_TURNS, heard.append)
            await runtime.services.bus.ready.wait()
            f.models.answer = lambda _: decision("Milk first.")
            await f.discord.say("Alice", "casual", f"<@{f.user_id('chatgpt')}> tea or milk?")
            await f.discord.wait_for(lambda: f.said("casual", "chatgpt"))
            question, post = f.discord.messages("casual")
            await f.discord.react("Bob", "casual", post["id"], "🔥")
            await until(
                lambda: recorded(tmp_path, "SELECT 1 FROM words") and recorded(tmp_path, "SELECT 1 FROM reactions")
            )
            assert [("began" in notice, "ended" in notice) for notice in heard] == [(True, False), (False, True)]
            asked = f"{f.world.user('Alice').id}"
            assert recorded(tmp_path, "SELECT id, outcome, asked_by FROM turns") == [
                (f"m{question['id']}", "posted", int(asked))
            ]
            assert recorded(tmp_path, "SELECT message_id, text FROM posts") == [(int(post["id"]), "Milk first.")]
            assert recorded(tmp_path, "SELECT model_seconds > 0, posting_seconds > 0 FROM turns") == [(1, 1)]
            assert recorded(tmp_path, "SELECT count(*) FROM calls WHERE cost_usd > 0") == [(1,)]
            assert recorded(tmp_path, "SELECT author_id FROM quotes") == [(int(asked),)]
            await f.discord.delete("casual", question["id"])
            await until(lambda: recorded(tmp_path, "SELECT removed, data IS NULL FROM words") == [("deleted", 1)])


async def test_with_no_days_nothing_is_recorded(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, RECORD_DAYS="0") as f:
            async with f.running(agents=("chatgpt",)):
                f.models.answer = lambda _: decision("Milk first.")
                await f.discord.say("Alice", "casual", f"<@{f.user_id('chatgpt')}> tea or milk?")
                await f.discord.wait_for(lambda: f.said("casual", "chatgpt"))
            async with RedisConnection(redis.url) as link:  # what waited was written at the end
                there = [keys.turns("chatgpt"), keys.words("chatgpt"), keys.COORDINATOR_RECORD]
                assert [await link.call(lambda redis, key=key: redis.exists(key)) for key in there] == [1, 0, 0]
    assert not (tmp_path / "record.db").exists()
