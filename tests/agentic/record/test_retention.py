"""What is older than the owner wants goes, in small steps, and the file gives its room back."""

import os

from agentic.ids import id_at
from agentic.record import recorder, retention
from agentic.record.retention import DAY, EVERY, RetentionPolicy
from agentic.wire.entries import ActionNote, ConversationNote, DeletionNote, PostWords, ReactionNote
from tests.support.recording import AT, at_work, quotes, turn, words
from tests.support.redis_server import until

TABLES = (
    "turns",
    "calls",
    "tool_calls",
    "words",
    "quotes",
    "posts",
    "pictures",
    "reactions",
    "conversations",
    "actions",
)


def entries(name, at):
    message = id_at(at)
    return (
        turn(name, at=at, posted=(message,)),
        words(name, at=at, text=os.urandom(3000).hex(), quoted=quotes((message - 1, 7))),
        PostWords(
            agent="claude",
            turn_id=name,
            message_id=message,
            channel_id=5,
            at=at,
            picture=b"hi",
            media_type="image/png",
        ),
        ReactionNote(message_id=message, channel_id=5, user_id=7, emoji="🔥", at=at),
        ConversationNote(id=name, channel_id=5, theme="casual", started_at=at),
        ActionNote(id=name, at=at, by="console", action="stop"),
    )


def kept(scene):
    names = {"turns": "id", "conversations": "id", "actions": "id"}
    return {table: scene.rows(f"SELECT count({names.get(table, '*')}) FROM {table}")[0][0] for table in TABLES}  # noqa: S608


async def test_prompts_go_after_their_days_and_the_rest_after_its_own(scene):
    await scene.put(*entries("old", AT - 91 * DAY), *entries("between", AT - 8 * DAY), *entries("new", AT - 1 * DAY))
    await scene.record(policy=RetentionPolicy(None, None))
    assert set(kept(scene).values()) == {3}
    await scene.record(policy=RetentionPolicy(90, 7))
    assert kept(scene) == {**dict.fromkeys(TABLES, 2), "words": 1, "quotes": 1}
    assert scene.rows("SELECT id FROM turns ORDER BY at") == [("between",), ("new",)]
    await scene.record(policy=RetentionPolicy(90, 0))
    assert kept(scene) == {**dict.fromkeys(TABLES, 2), "words": 0, "quotes": 0}
    await scene.record(policy=RetentionPolicy(0.5, None))
    assert set(kept(scene).values()) == {0}


async def test_many_rows_go_in_steps_between_which_turns_are_recorded_and_the_file_shrinks(scene, monkeypatch):
    monkeypatch.setattr(retention, "ROWS", 5)
    monkeypatch.setattr(retention, "PAGES", 10)
    monkeypatch.setattr(retention, "SPARE_PAGES", 2)
    monkeypatch.setattr(recorder, "LAST_SECONDS", 30.0)
    await scene.put(*(words(f"t{number}", at=AT - 8 * DAY, text=os.urandom(9000).hex()) for number in range(100)))
    await scene.record()
    before, steps = scene.path.stat().st_size, []
    step = retention.Retention.step

    async def counted(self, db):
        if len(steps) == 1:
            await scene.put(turn("meanwhile"))
        more = await step(self, db)
        steps.append(scene.rows("SELECT (SELECT count(*) FROM words), (SELECT count(*) FROM turns)")[0])
        return more

    monkeypatch.setattr(retention.Retention, "step", counted)
    await scene.record(policy=RetentionPolicy(None, 7))
    assert scene.rows("SELECT count(*) FROM words") == [(0,)]
    assert any(left and recorded for left, recorded in steps), "the turn did not have to wait for the end"
    assert scene.path.stat().st_size < before / 3
    assert scene.rows("PRAGMA freelist_count")[0][0] <= 12


async def test_it_looks_once_an_hour_and_forgets_old_deletions(scene):
    now = [AT]
    await scene.put(DeletionNote(channel_id=5, message_ids=(1,), at=AT - 7 * DAY))
    async with at_work(scene.recorder(clock=lambda: now[0], policy=RetentionPolicy(90, 7))):
        await until(lambda: scene.rows("SELECT count(*) FROM deleted_messages") == [(1,)])
        await scene.put(turn("m1", at=AT - 89.99 * DAY))
        await until(lambda: scene.rows("SELECT count(*) FROM turns") == [(1,)])
        now[0] += DAY + EVERY
        await until(lambda: scene.rows("SELECT count(*) FROM turns") == [(0,)])
        await until(lambda: scene.rows("SELECT count(*) FROM deleted_messages") == [(0,)])


async def test_copies_that_migrations_made_go_with_the_prompts_that_they_hold(scene):
    old, new = (scene.path.with_name(f"record.db.before-{number}") for number in ("0002", "0003"))
    for copy, at in ((old, AT - 8 * DAY), (new, AT)):
        copy.write_bytes(b"words")
        os.utime(copy, (at, at))
    await scene.record(policy=RetentionPolicy(90, 7))
    assert (old.exists(), new.exists()) == (False, True)
    await scene.forgets.order(77)
    await scene.record(policy=RetentionPolicy(90, 7))
    assert not new.exists(), "somebody asked to be forgotten"
