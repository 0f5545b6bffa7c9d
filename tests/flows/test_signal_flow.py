"""An agent on Signal in the whole program."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentic.chat import transcript
from agentic.record.memories import is_shared
from agentic.record.personal_data import STORED
from agentic.runtime import services as presence
from agentic.runtime.process import Runtime
from agentic.services.signal import stores
from agentic.services.signal.envelopes import group_chat_id
from agentic.services.signal.service import SignalService
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import UnaskedNote
from tests.support.asking import config
from tests.support.flow import decision
from tests.support.recorded import recorded
from tests.support.redis_server import RedisServer, until
from tests.support.signal_flow import GROUP, SignalFlow, signal_flow
from tests.support.signal_server import ACCOUNT, ANNA, BEN, EVE, IDS, group_id, quoting, reacting


@pytest.mark.promise(472)
async def test_a_message_is_read_and_answered_without_any_token_of_discord(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running() as runtime:

        async def answer(_: object) -> str:
            await f.signal.until(lambda: (ANNA, True) in f.signal.typing)
            return decision("Because of Rayleigh.")

        f.models.answer = answer
        await f.say("why is the sky blue?")
        assert await f.answered() == ["Because of Rayleigh."]
        (request,) = f.models.requests
        assert "Anna: why is the sky blue?" in request.tail
        assert runtime.health().ready
        assert runtime.health().accounts == {"signal": {"claude": True}}
        await f.say("let me in", EVE)
        await f.say("and at night?")
        assert len(await f.answered(2)) == 2
        assert f.said(EVE) == []
        assert not any("let me in" in text for request in f.models.requests for text in request.texts)


async def test_a_foreign_value_in_redis_is_reported_and_read_again_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "RENEW_FIRST", 0.01)
    with RedisServer() as redis:
        async with (
            signal_flow(tmp_path, redis_url=redis.url) as f,
            RedisConnection(redis.url) as link,
            f.running() as runtime,
        ):
            await link.call(lambda redis: redis.set(keys.seen("claude"), "of another program"))
            await until(lambda: any("claude" in name for name in runtime.health().failing), 30)
            await f.say("why is the sky blue?")
            assert await f.answered()
            await link.call(lambda redis: redis.delete(keys.seen("claude")))
            await until(lambda: not runtime.health().failing, 30)
            async with asyncio.timeout(30):
                while await runtime.services.state.coordination.presence.first_seen("claude") is None:  # noqa: ASYNC110
                    await asyncio.sleep(0)


async def test_a_person_sees_and_changes_on_signal_what_is_kept_of_them(tmp_path: Path) -> None:
    orders = ("/privacy", "/privacy unasked off", "/profile edit tea, Tall ships 2027", "/profile", "/profile delete")
    async with signal_flow(tmp_path) as f, f.running() as runtime:
        for number, order in enumerate(orders, start=1):
            await f.say(order)
            await f.answered(number)
        about, refused, saved, shown, deleted = f.said()
        assert "Who reads this channel**: Claude" in about
        assert refused.startswith("Bots no longer write to you on their own.")
        assert saved == "Saved. Your profile now has 2 topics."
        assert "• tea\n• Tall ships 2027\n" in shown
        assert deleted.startswith("Your profile is deleted")
        assert f.models.requests == []
        await until(
            lambda: recorded(runtime.setup.settings.record_file.parent, "SELECT unasked FROM consents") == [(0,)]
        )


async def test_a_person_gets_their_data_as_a_file_in_their_own_chat_and_nobody_elses(tmp_path: Path) -> None:
    logged = config(tmp_path, shared="message_log: true\n")
    async with signal_flow(tmp_path, **logged) as f, f.running() as runtime:
        assert runtime.services.record.own_memory
        assert {*runtime.services.record.forgetting.stores} == {row.store for row in STORED if row.store}
        f.models.answer = lambda _: decision("I see.")
        await f.say("@Claude my tomatoes are ripe", group=GROUP)
        await f.say("@Claude my password is swordfish", BEN, group=GROUP)
        await f.answered(2, group_id(GROUP))
        record = runtime.setup.settings.record_file
        await until(lambda: recorded(record.parent, "SELECT count(*) FROM message_log") == [(4,)])
        assert "Here's everything" in await told(f, "/privacy export")
        (file,) = (data for sent in f.signal.sent for data in sent.pictures)
        assert "my tomatoes are ripe" in file.decode()
        assert ANNA in file.decode()
        assert "swordfish" not in file.decode()
        assert BEN not in file.decode()


async def test_what_is_kept_of_a_person_is_not_shown_in_a_group(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        for private in ("/profile", "/privacy", "/privacy export"):
            assert await told(f, private, group_id(GROUP), group=GROUP) == (
                "Other people read this chat. Send me that in a private chat."
            )


@pytest.mark.promise(507)
async def test_a_group_counts_as_read_by_others_though_only_one_person_in_it_is_heard(tmp_path: Path) -> None:
    """Else the topics of that person's private chat would be used in the group, where strangers read."""
    settings = {"SIGNAL_ALLOWED": ANNA, **config(tmp_path, shared="message_log: true\n")}
    async with signal_flow(tmp_path, **settings) as f, f.running() as runtime:
        f.models.answer = lambda _: decision("I see.")
        await f.say("hello from a stranger", BEN, group=GROUP)
        await f.say("@Claude, my tomatoes are ripe", group=GROUP)
        await f.answered(1, group_id(GROUP))
        await f.say("I am looking for another job")
        await f.answered(1)
        record, group = runtime.setup.settings.record_file, group_chat_id(GROUP)
        await until(lambda: len(_logged(record)) == 4)
        anna, private = next((author, channel) for author, channel in _logged(record) if author and channel != group)
        with closing(sqlite3.connect(record)) as db:
            db.row_factory = sqlite3.Row
            assert is_shared(db, group, anna)
            assert not is_shared(db, private, anna)


@pytest.mark.promise(506)
async def test_a_quote_of_a_post_in_anothers_chat_tells_nothing_of_it(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running():
        f.models.answer = lambda _: decision("I see.")
        await f.say("hello", ANNA)
        await f.answered(1, ANNA)
        post = f.signal.sent[0].timestamp
        assert "answered Anna" in await told(f, "/why", ANNA, quote=quoting(ACCOUNT, post))
        assert "I have no record" in await told(f, "/why", BEN, quote=quoting(ACCOUNT, post), who=BEN)


@pytest.mark.promise(493)
async def test_why_a_message_came_unasked_is_known_from_the_record_to_those_in_its_chat(tmp_path: Path) -> None:
    async with signal_flow(tmp_path) as f, f.running() as runtime:
        services, post = runtime.services, await _posted_unasked(f, runtime)
        await services.state.link.call(lambda redis: redis.delete(keys.turns("claude")))
        said = await told(f, "/why", ANNA, quote=quoting(ACCOUNT, post))
        assert "followed up on a conversation while nobody was writing. Why: Anna was not answered." in said
        assert "🔕" in said
        assert "I have no record" in await told(f, "/why", BEN, quote=quoting(ACCOUNT, post), who=BEN)


async def _posted_unasked(f: SignalFlow, runtime: Runtime) -> int:
    """A post to Anna that the record has as a follow-up; its timestamp."""
    services = runtime.services
    f.models.answer = lambda _: decision("I see.")
    await f.say("hello", ANNA)
    await f.answered(1, ANNA)
    (turn,) = await written(lambda: services.state.turns.records.last("claude"))
    about: dict[str, Any] = {"task": "follow_up", "channel_id": turn.channel_id, "person_id": turn.asked_by}
    about |= {"cause": "Anna was not answered", "at": services.clock()}
    services.record.notes.log("claude", UnaskedNote(message_id=turn.posted[0], agent="claude", **about))
    await written(lambda: services.record.memory.unasked(turn.posted[0]))
    return f.signal.sent[0].timestamp


@pytest.mark.promise(495)
async def test_the_status_of_an_agent_says_what_it_writes_unasked_waits_for(tmp_path: Path) -> None:
    async with signal_flow(tmp_path, IDLE_TASKS="follow_up") as f, f.running() as runtime:
        await written(runtime.services.state.coordination.idle.read)
        assert "My unprompted messages have to wait: follow-ups (in " in await told(f, "/status")


async def written(look: Callable[[], Awaitable[Any]]) -> Any:
    """What is found once it was written, which happens in the background."""
    while not (found := await look()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return found


def _logged(record: Path) -> list[tuple[Any, ...]]:
    return recorded(record.parent, "SELECT author_id, channel_id FROM message_log")


async def told(f: SignalFlow, text: str, recipient: str = ANNA, **more: Any) -> str:
    """What is answered to a command."""
    before = len(f.said(recipient))
    await f.say(text, **more)
    return (await f.answered(before + 1, recipient))[before]


async def addresses(link: RedisConnection) -> str:
    """All that is kept in Redis of people and chats of Signal."""
    people = await link.call(lambda redis: redis.hgetall(stores.SIGNAL_PEOPLE))
    chats = await link.call(lambda redis: redis.hgetall(stores.SIGNAL_CHATS))
    return f"{people} {chats}"


async def until_kept(link: RedisConnection, *words: str) -> None:
    found = ""

    async def look() -> bool:
        nonlocal found
        found = await addresses(link)
        return all(word in found for word in words)

    await written(look)


@pytest.mark.parametrize("linked", [False, True], ids=["by a text", "by the Discord account they are linked to"])
async def test_who_is_forgotten_leaves_no_address_and_no_word_and_is_known_again_when_they_write(
    tmp_path: Path, linked: bool
) -> None:
    settings = {"LINKED_PEOPLE": f"{ANNA}:222222222222222222"} if linked else {}
    with RedisServer() as redis:
        async with (
            signal_flow(tmp_path, redis_url=redis.url, **settings) as f,
            f.running() as runtime,
            RedisConnection(redis.url) as link,
        ):
            f.models.answer = lambda _: decision("I see.")
            await f.say("my cat is called Minka")
            await f.say("@Claude and mine is Mohrle", BEN)
            await f.say("@Claude Minka is ill", group=GROUP)
            await f.say("@Claude Mohrle too", BEN, group=GROUP)
            await f.answered(2, group_id(GROUP))
            await f.answered(1, BEN)
            await f.answered(1)
            async with asyncio.timeout(30):
                await until_kept(link, ANNA, IDS[ANNA], "Anna", BEN)
            if linked:
                await runtime.services.record.forgetting.forget(222222222222222222)
            else:
                assert (await told(f, "/forget me")).endswith("write /forget me yes")
                before = len(f.said())
                await f.say("/forget me yes")
                done, details = (await f.answered(before + 2))[before:]
                assert done.startswith("Done. I deleted ")
                assert "Messages on your phone" in details
            kept = await addresses(link)
            assert not any(word in kept for word in (ANNA, IDS[ANNA], "Anna"))
            assert BEN in kept
            said = words_of(runtime)
            assert "Minka" not in said
            assert "Mohrle too" in said
            before = len(f.said())
            await f.say("hello again")
            await f.answered(before + 1)
            assert "Minka" not in "".join(f.models.requests[-1].texts)
            async with asyncio.timeout(30):
                await until_kept(link, ANNA, IDS[ANNA])


def words_of(runtime: Runtime) -> str:
    chats = runtime.services.chats.get(SignalService)._chats.all()
    return "\n".join(
        entry.text for chat in chats for entry in runtime.services.chats.transcripts.of(chat.channel_id).entries()
    )


async def test_forgetting_a_person_keeps_the_transcripts_of_others_however_many_chats_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "MAX_CHANNELS", 4)
    async with signal_flow(tmp_path) as f, f.running() as runtime:
        f.models.answer = lambda _: decision("I see.")
        for number in range(6):
            runtime.services.chats.get(SignalService)._chats.group(ACCOUNT, f"Z3JvdXA{number}")
        await f.say("my tomatoes are ripe", BEN)
        await f.answered(1, BEN)
        await told(f, "/forget me yes")
        await f.say("what did I say?", BEN)
        await f.answered(2, BEN)
        assert "tomatoes" in "".join(f.models.requests[-1].texts)


@pytest.mark.promise(508)
async def test_who_is_linked_later_is_forgotten_with_what_was_kept_before(tmp_path: Path) -> None:
    logged = config(tmp_path, shared="message_log: true\n")
    with RedisServer() as redis:
        async with signal_flow(tmp_path, redis_url=redis.url, **logged) as f, f.running() as runtime:
            f.models.answer = lambda _: decision("I see.")
            await f.say("my tomatoes are ripe")
            await f.answered()
            record = runtime.setup.settings.record_file
            await until(lambda: [author for author, _ in _logged(record) if author])
        linked = {**logged, "LINKED_PEOPLE": f"{ANNA}:222222222222222222"}
        async with signal_flow(tmp_path, redis_url=redis.url, **linked) as f, f.running():
            assert "1 logged message of yours" in await told(f, "/forget me yes")
            assert [author for author, _ in _logged(record) if author] == []


@pytest.mark.promise(508)
async def test_a_message_that_vanishes_while_the_program_is_off_is_gone_from_the_record_after_its_start(
    tmp_path: Path,
) -> None:
    logged = config(tmp_path, shared="message_log: true\n")
    with RedisServer() as redis:
        async with signal_flow(tmp_path, redis_url=redis.url, **logged) as f, f.running() as runtime:
            f.models.answer = lambda _: decision("I see.")
            record = runtime.setup.settings.record_file
            await f.say("this may stay")
            await f.answered(1)
            await f.say("this goes in a minute", expiresInSeconds=60)
            await f.answered(2)
            await until(lambda: len(_logged(record)) == 4)
        async with RedisConnection(redis.url) as link:  # the minute is over
            for one, _ in await link.call(lambda redis: redis.zrange(stores.SIGNAL_VANISHING, 0, -1, withscores=True)):
                await link.call(lambda redis, one=one: redis.zadd(stores.SIGNAL_VANISHING, {one: 1.0}))
        async with signal_flow(tmp_path, redis_url=redis.url, **logged) as f, f.running():
            await until(lambda: len(_logged(record)) == 2)


async def test_a_reaction_to_a_post_from_before_a_restart_is_recorded(tmp_path: Path) -> None:
    with RedisServer() as redis:
        async with signal_flow(tmp_path, redis_url=redis.url) as f, f.running() as runtime:
            f.models.answer = lambda _: decision("I see.")
            await f.say("hello")
            await f.answered(1)
            post, folder = f.signal.sent[0].timestamp, runtime.setup.settings.record_file.parent
            await until(lambda: recorded(folder, "SELECT agent FROM posts") == [("claude",)])
        async with signal_flow(tmp_path, redis_url=redis.url) as f, f.running():
            await f.say(None, reaction=reacting("👍", ACCOUNT, post))
            await until(lambda: recorded(folder, "SELECT emoji FROM reactions") == [("👍",)])
            await f.say(None, reaction=reacting("👍", ACCOUNT, post, remove=True))
            await until(lambda: recorded(folder, "SELECT emoji FROM reactions") == [])


@pytest.mark.promise(488)
async def test_a_command_is_carried_out_by_the_process_that_acts_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer() as redis:
        async with (
            signal_flow(tmp_path, redis_url=redis.url) as f,
            f.running(),
            f.running(stands_by=True, coordinator=False) as second,
        ):
            await f.signal.until(lambda: f.signal.connections() == 2)
            assert (await told(f, "/help")).startswith("You can write these to me")
            await f.say("hello")
            await f.answered(2)
            assert len(f.said()) == 2
            await until(lambda: "hello" in words_of(second))
            assert "/help" not in words_of(second)
        assert "Signal: a command" not in {task.get_name() for task in asyncio.all_tasks()}, "nothing outlives it"
    assert not any("was not answered" in text for text in caplog.messages)
