"""A bot while nobody writes, in the whole program: summary, profile, follow-up and discovery, one after the other, and
nothing more until a person writes."""

import sqlite3
from contextlib import closing

from agent_coordinator.idle import scheduler
from agent_ids import sent_at
from agent_protocol.record.entries import LoggedMessage
from tests.support.flow import decision, flow
from tests.support.models.wire.values import ModelRequest
from tests.support.redis_server import RedisServer, until

SETTINGS = {
    "IDLE_TASKS": "summarise, profile, follow_up, discover",
    "UNASKED_MESSAGES": "everyone",
    "IDLE_AFTER_SECONDS": "1",
    "IDLE_FOLLOW_UP_MIN_SECONDS": "0.2",
    "IDLE_FOLLOW_UP_MAX_SECONDS": "0.4",
    "IDLE_DISCOVER_MIN_SECONDS": "1",
    "IDLE_DISCOVER_MAX_SECONDS": "1.2",
    "UNASKED_PERSON_HOURS": "0",
    "UNASKED_CHANNEL_HOURS": "0",
    "COORDINATOR_ACTIVE_START": "0",
    "COORDINATOR_ACTIVE_END": "24",
}
FOLLOW_UP = "The race of the tall ships begins in Bergen this August, after nine years in other harbours."
DISCOVERY = "A bakery in Ghent lends its starter to neighbours; its oldest one is from before the war."


def answered(request: ModelRequest) -> str:
    asked = f"{request.system}\n" + "\n".join(request.texts)
    if "You write notes on a talk" in asked:
        return "Alice asked where the tall ships go, and Claude said Bergen."
    if "You keep a list of the subjects" in asked:
        return "sourdough bread"
    if "likes to talk about the subjects" in asked:
        return decision(DISCOVERY)
    return decision(FOLLOW_UP if "ended with a message that nobody took up" in asked else "To Bergen, says the list.")


async def test_the_tasks_come_in_their_order_and_then_it_is_quiet_until_a_person_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "TICK_SECONDS", 0.05)

    def rows(question):
        with closing(sqlite3.connect(tmp_path / "record.db")) as db:
            return db.execute(question).fetchall()

    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, **SETTINGS) as f, f.running(agents=("claude",)) as runtime:
            f.models.answer = answered
            channel, alice = f.channel("casual"), f.world.user("Alice").id

            async def log() -> None:
                """As the bot does where the option message_log is on: a chain, since each message answers the last."""
                before = None
                for message in f.discord.messages("casual"):
                    number, person = int(message["id"]), message["author"]["id"] == str(alice)
                    entry = LoggedMessage(
                        message_id=number,
                        channel_id=channel,
                        guild_id=f.world.guild.id,
                        author="person" if person else "agent",
                        author_id=alice if person else None,
                        agent=None if person else "claude",
                        name="Alice" if person else "Claude",
                        text=message["content"],
                        reply_to=before,
                        at=sent_at(number),
                        read_at=sent_at(number),
                    )
                    runtime.services.record.log("claude", entry)
                    before = number
                await until(lambda: rows("SELECT max(message_id) FROM message_log") == [(before,)], 60)

            await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> where do the tall ships go this year?")
            await f.discord.wait_for(lambda: f.said("casual", "claude"), 60)
            await f.discord.say("Alice", "casual", "I would love to see them, and to bake sourdough bread there.")
            await log()
            await f.discord.say("Alice", "casual", "So.")  # the record has all of it now, and the times start over
            await until(lambda: rows("SELECT 1 FROM unasked WHERE task = 'discover'"), 60)
            assert f.said("casual", "claude")[1:] == [FOLLOW_UP, DISCOVERY]
            assert rows("SELECT task, person_id FROM unasked ORDER BY at") == [
                ("follow_up", alice),
                ("discover", alice),
            ]
            asked = "\n".join(text for request in f.models.requests for text in (request.system, *request.texts))
            order = ("notes on a talk", "list of the subjects", "nobody took up", "about the subjects below")
            assert [order.index(each) for each in sorted(order, key=asked.index)] == [0, 1, 2, 3]
            calls, standing = len(f.models.requests), runtime.coordinator.idle._standing

            def rests(task: str) -> bool:
                return standing.schedule_of(task, "claude").state.why == "nothing was written since it last looked"

            await until(lambda: rests("follow_up") and rests("discover"), 60)
            assert len(f.models.requests) == calls
