"""The recorder: what is in the streams is in the file, once."""

import asyncio
import itertools
import shutil
import sqlite3
from contextlib import closing

import pytest

from agentic.record import recorder as module
from agentic.record.database import connect_blocking
from agentic.record.retention import RetentionPolicy
from agentic.record.rows import outcome_of
from agentic.state.record_stream import RecordedAgents, unpack
from agentic.state.turn_records import Reacted
from agentic.wire import keys
from agentic.wire.entries import ActionNote, ConversationNote, Phases, PostWords, ReactionNote
from tests.support.recording import AT, at_work, quotes, recording, turn, words
from tests.support.redis_server import empty_redis, shared_redis, until

BEGAN = ConversationNote(id="c1", channel_id=5, theme="casual", topic="tea", started_at=AT)


async def length(scene, stream):
    return await scene.link.call(lambda redis: redis.xlen(stream))


async def test_every_kind_of_entry_is_in_the_file_and_words_leave_redis(scene):
    prompt = words(
        "m1", system="Be kind.", history=(), completion="Hi!", quoted=quotes((70, 77), (71, None)), asked_by=77
    )
    await scene.put(
        BEGAN,
        turn("m1", posted=(90,), phases=Phases(model=2.0), reacted=Reacted(emoji="🔥", message_id=70), round_number=2),
        prompt,
        PostWords(
            agent="claude",
            turn_id="m1",
            message_id=90,
            channel_id=5,
            at=AT,
            text="Hi!",
            picture=b"hi",
            media_type="image/png",
        ),
        ReactionNote(message_id=90, channel_id=5, user_id=77, emoji="🍅", at=AT),
        ReactionNote(message_id=90, channel_id=5, user_id=77, emoji="👀", at=AT),
        ReactionNote(message_id=90, channel_id=5, user_id=77, emoji="🍅", at=AT, given=False),
        ReactionNote(message_id=90, channel_id=5, user_id=78, emoji="🍅", at=AT),
        ReactionNote(message_id=90, channel_id=5, user_id=78, emoji="🍅", at=AT, given=False),
        ReactionNote(message_id=90, channel_id=5, user_id=78, emoji="🍅", at=AT),
        ActionNote(id="a1", at=AT, by="console", action="stop", channel_id=5),
        BEGAN.model_copy(update={"ended_at": AT + 60, "ended_because": "done", "messages": 3}),
    )
    await scene.record()
    assert scene.rows("SELECT id, topic, ended_at, messages FROM conversations") == [("c1", "tea", AT + 60, 3)]
    assert scene.rows(
        "SELECT agent, id, day, outcome, round, model_seconds, emoji, reacted_to, asked_by FROM turns"
    ) == [("claude", "m1", "2026-09-21", "posted", 2, 2.0, "🔥", 70, 77)]
    assert scene.rows("SELECT turn_id, n, model, cost_usd, day FROM calls") == [
        ("m1", 0, "anthropic/m", 0.5, "2026-09-21")
    ]
    assert scene.rows("SELECT turn_id, name FROM tool_calls") == [("m1", "look_up")]
    assert scene.rows("SELECT message_id, text, turn_id FROM posts") == [(90, "Hi!", "m1")]
    assert scene.rows("SELECT media_type, data FROM pictures") == [("image/png", b"hi")]
    assert scene.rows("SELECT message_id, user_id, emoji FROM reactions") == [(90, 77, "👀"), (90, 78, "🍅")]
    assert scene.rows("SELECT by, action FROM actions") == [("console", "stop")]
    assert scene.rows("SELECT message_id, author_id, turn_id FROM quotes JOIN words ON words.id = words_id") == [
        (70, 77, "m1"),
        (71, None, "m1"),
    ]
    [(data,)] = scene.rows("SELECT data FROM words")
    assert unpack(data) == prompt.model_copy(update={"quoted": {}})
    assert await length(scene, keys.words("claude")) == 0
    assert await length(scene, keys.turns("claude")) == 1, "/why reads it"


async def test_a_persona_that_becomes_known_meanwhile_is_recorded_from_its_first_turn(scene):
    async with at_work(scene.recorder()):
        await scene.put(turn("m1"), turn("m2", agent="historian"), words("m2", agent="historian"))
        await until(lambda: scene.rows("SELECT id FROM turns") == [("m1",)])
        await RecordedAgents(scene.link).add("historian")
        await until(lambda: scene.rows("SELECT agent, turn_id FROM words") == [("historian", "m2")])
    assert scene.rows("SELECT agent, id FROM turns ORDER BY id") == [("claude", "m1"), ("historian", "m2")]


@pytest.mark.promise(133)
async def test_what_is_delivered_twice_is_there_once_and_a_restored_backup_catches_up(scene, tmp_path):
    await scene.put(turn("m1"), BEGAN)
    await scene.record()
    backup = tmp_path / "backup.db"
    shutil.copy(scene.path, backup)
    await scene.put(
        turn("m2"), BEGAN.model_copy(update={"ended_at": AT}), ActionNote(id="a1", at=AT, by="x", action="stop")
    )
    await scene.record()
    shutil.copy(backup, scene.path)
    await scene.record()
    await scene.record(path=tmp_path / "new.db")
    for path in (scene.path, tmp_path / "new.db"):
        assert scene.rows("SELECT id FROM turns ORDER BY seq", path) == [("m1",), ("m2",)]
        assert scene.rows("SELECT ended_at FROM conversations", path) == [(AT,)]
        assert scene.rows("SELECT id FROM actions", path) == [("a1",)]
        assert scene.rows("SELECT sum(dropped) FROM positions", path) == [(0,)]


async def test_a_file_that_its_owner_deletes_or_replaces_is_begun_again_and_catches_up(scene, caplog):
    await scene.put(turn("m1"))
    async with at_work(scene.recorder()):
        await until(lambda: scene.rows("SELECT id FROM turns") == [("m1",)])
        scene.path.unlink()
        await until(lambda: scene.path.exists() and scene.rows("SELECT name FROM sqlite_schema WHERE name = 'turns'"))
        await until(lambda: scene.rows("SELECT id FROM turns") == [("m1",)])
    assert "was moved, deleted, or replaced" in caplog.text


@pytest.mark.promise(133)
async def test_a_redis_that_was_emptied_is_read_on_from_its_new_beginning(scene):
    await scene.put(turn("m1"), turn("m2"))
    async with at_work(scene.recorder()):
        await until(lambda: scene.rows("SELECT count(*) FROM turns") == [(2,)])
        shared_redis().flush()
        await scene.put(turn("m3"), words("m3"))
        await until(lambda: scene.rows("SELECT count(*) FROM turns") == [(3,)])
    shared_redis().flush()
    await scene.link.call(lambda redis: redis.xadd(keys.turns("claude"), {"record": turn("m4").to_json()}, id="5-1"))
    await scene.record()  # its clock was set back too
    assert scene.rows("SELECT id FROM turns ORDER BY seq") == [("m1",), ("m2",), ("m3",), ("m4",)]
    assert scene.rows("SELECT sum(dropped) FROM positions") == [(0,)]


@pytest.mark.promise(133)
async def test_what_a_bound_removed_before_it_was_read_is_counted_and_logged(scene, caplog):
    await scene.put(turn("m1"))
    await scene.record()
    await scene.put(turn("m2"), turn("m3"), turn("m4"))
    ids = [entry for entry, _ in await scene.link.call(lambda redis: redis.xrange(keys.turns("claude")))]
    await scene.link.call(lambda redis: redis.xdel(keys.turns("claude"), *ids[1:3]))
    await scene.record()
    assert scene.rows("SELECT last_n, dropped FROM positions WHERE dropped > 0") == [(4, 2)]
    assert "agent:claude:turns: 2 entries were removed" in caplog.text


async def test_an_entry_that_cannot_be_read_or_written_is_left_out_and_the_others_are_there(scene, caplog):
    stream = keys.turns("claude")
    await scene.put(turn("m1"))
    await scene.link.call(lambda redis: redis.xadd(stream, {"record": "{nonsense"}))
    await scene.link.call(lambda redis: redis.xadd(stream, {"kind": "of a later version", "data": "x"}))
    await scene.put(turn("m2", guild_id=2**70), turn("m3"))
    await scene.record()
    assert scene.rows("SELECT id FROM turns ORDER BY seq") == [("m1",), ("m3",)]
    assert "reading 1 entries failed" in caplog.text
    assert "recording a TurnRecord failed" in caplog.text


@pytest.mark.promise(130)
async def test_two_recorders_one_acts_and_the_other_takes_over(scene, tmp_path):
    other = tmp_path / "other machine" / "record.db"
    first, second = scene.recorder(holder="a"), scene.recorder(holder="b", path=other)
    async with at_work(first):
        following = asyncio.create_task(second.run())
        await scene.put(turn("m1"))
        await until(lambda: scene.rows("SELECT count(*) FROM turns") == [(1,)])
        assert (first.state, second.state) == ("recording", "standing by")
        assert not other.exists()
    await until(lambda: second.acting)
    await scene.put(turn("m2"))
    await second.finish(following)
    assert scene.rows("SELECT id FROM turns") == [("m1",)]
    assert scene.rows("SELECT id FROM turns", other) == [("m1",), ("m2",)]


@pytest.mark.promise(130)
async def test_a_recorder_that_was_paused_does_not_write_over_what_its_successor_wrote(scene, caplog):
    def write_as_successor():
        with closing(connect_blocking(scene.path, writable=True)) as connection:
            connection.execute("INSERT INTO positions VALUES (?, '1-1', 1, 7)", (keys.turns("claude"),))

    async with at_work(scene.recorder()):
        await asyncio.to_thread(write_as_successor)
        await scene.put(turn("m1"))
    assert "another recorder wrote" in caplog.text
    assert scene.rows("SELECT id FROM turns") == [("m1",)]
    assert scene.rows("SELECT dropped FROM positions WHERE stream LIKE '%turns'") == [(7,)]


@pytest.mark.promise(131)
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.write_bytes(b"not a database at all" * 100), "damaged"),
        (lambda path: sqlite3.connect(path).executescript("CREATE TABLE theirs (a)"), "another program's"),
    ],
)
async def test_a_file_that_cannot_be_used_is_one_line_and_is_tried_again(scene, caplog, harm, said):
    caplog.set_level("INFO")
    harm(scene.path)
    await scene.put(turn("m1"))
    recorder = scene.recorder()
    task = asyncio.create_task(recorder.run())
    await until(lambda: recorder.problem)
    await until(lambda: recorder._failures > 2)
    lines = [line for line in caplog.messages if "recording failed" in line]
    assert len(lines) == 1
    assert str(scene.path) in lines[0]
    assert recorder.state == recorder.problem
    assert said in lines[0]
    scene.path.unlink()
    await until(lambda: recorder.acting and not recorder.problem)
    await recorder.finish(task)
    assert scene.rows("SELECT id FROM turns") == [("m1",)]
    assert "recording again" in caplog.text


@pytest.mark.promise(131)
async def test_a_disk_that_is_full_loses_nothing(scene, monkeypatch, caplog):
    write, tries = module.write, itertools.count()

    async def sometimes(*arguments):
        if next(tries) < 2:
            raise sqlite3.OperationalError("database or disk is full")
        return await write(*arguments)

    monkeypatch.setattr(module, "write", sometimes)
    await scene.put(turn("m1"))
    async with at_work(scene.recorder()) as recorder:
        await until(lambda: scene.rows("SELECT id FROM turns") == [("m1",)])
        await until(lambda: not recorder.problem)
    assert [line for line in caplog.messages if "the disk is full; the bots continue" in line]


async def test_it_works_on_a_redis_inside_the_process(tmp_path):
    async with recording(empty_redis(), tmp_path / "record.db") as scene:
        await scene.put(turn("m1"), words("m1"))
        await scene.record()
        assert scene.rows("SELECT turn_id FROM words") == [("m1",)]


async def test_without_prompts_posts_and_turns_are_kept_all_the_same(scene):
    await scene.put(
        turn("m1"), words("m1"), PostWords(agent="claude", turn_id="m1", message_id=90, channel_id=5, at=AT, text="Hi!")
    )
    await scene.record(policy=RetentionPolicy(None, 0))
    assert scene.rows(
        "SELECT (SELECT count(*) FROM words), (SELECT count(*) FROM posts), (SELECT count(*) FROM turns)"
    ) == [(0, 1, 1)]


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"posted": (1,)}, "posted"),
        ({"posted": (1,), "reason": "budget"}, "posted"),
        ({"posted": (1,), "reason": "model_failed"}, "failed"),
        ({"posted": (1,), "reason": "person_budget"}, "refused"),
        ({"reacted": Reacted(emoji="🔥", message_id=1)}, "reacted"),
        ({"reason": "skipped"}, "skipped"),
        ({"reason": "deadline"}, "timed_out"),
        ({"reason": "cooldown"}, "refused"),
        ({"reason": "skipped", "outcome": "odd"}, "odd"),
    ],
)
def test_the_outcome_of_an_older_version_s_record_follows_from_its_reason(values, outcome):
    assert outcome_of(turn("m1", **{"outcome": "", **values})) == outcome
