"""What is remembered goes when it must: from the tables, from the index, and from the bytes of the files."""

import base64
import os
from contextlib import closing

import pytest

from agentic.ids import id_at
from agentic.record import recall as module
from agentic.record.database import connect_blocking
from agentic.record.memories import MemoryReader
from agentic.record.retention import DAY, RetentionPolicy
from agentic.wire.entries import ConsentNote, DeletionNote, LoggedMessage, ProfileNote, UnaskedNote
from tests.support.recording import AT, at_work, said, summary
from tests.support.redis_server import until

ANN, BOB = 77, 78


def secret():
    """A word that no other text has, and that the index has as it is."""
    return "q" + base64.b32encode(os.urandom(15)).decode().lower().rstrip("=")


def in_files(scene, word):
    """Whether a piece of it is anywhere: FTS5 keeps what words share with the one before them only once."""
    files = [path.read_bytes().lower() for path in scene.path.parent.glob("record.db*")]
    return any(word[start : start + 8].encode() in content for content in files for start in (4, 12))


async def forget(scene, person, recorder):
    async with at_work(recorder):
        ordered = await scene.forgets.order(person)
        await scene.forgets.tell()
        while (removed := await scene.forgets.answered(person, ordered)) is None:
            pass
    return removed


def everything_of_ann(word):
    chain = [said(1, f"my word is {word}1"), said(2, f"{word}2?", author_id=BOB, name="Bob", to=said(1))]
    return (
        *chain,
        summary(*chain, text=f"They spoke of {word}3"),
        ProfileNote(user_id=ANN, name="Ann", topics=(f"{word}4",), upto=chain[0].message_id, at=AT),
        UnaskedNote(
            message_id=id_at(AT),
            agent="claude",
            task="follow_up",
            channel_id=5,
            person_id=ANN,
            cause=f"you spoke of {word}5",
            text=f"More on {word}6",
            at=AT,
        ),
        ConsentNote(user_id=ANN, unasked=True, at=AT),
        ConsentNote(user_id=BOB, unasked=False, at=AT),
    )


def counts(scene):
    tables = ("message_log", "summaries", "summary_sources", "profiles", "consents")
    return {table: scene.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables}  # noqa: S608


@pytest.mark.promise(420)
async def test_a_forgotten_person_is_gone_from_the_memories_and_their_words_from_the_files(scene):
    word = secret()
    await scene.put(*everything_of_ann(word))
    await scene.record()
    assert in_files(scene, word)
    removed = await forget(scene, ANN, scene.recorder())
    assert removed.messages == 1
    assert counts(scene) == {"message_log": 1, "summaries": 0, "summary_sources": 0, "profiles": 0, "consents": 1}
    assert scene.rows("SELECT person_id, cause, text FROM unasked") == [(None, "", "")]
    assert scene.rows("SELECT count(*) FROM memory_index") == [(1,)]
    await scene.put(*everything_of_ann(word))
    await scene.record()
    assert counts(scene) == {"message_log": 1, "summaries": 0, "summary_sources": 0, "profiles": 0, "consents": 1}
    await forget(scene, BOB, scene.recorder())
    assert scene.rows("SELECT user_id, unasked FROM consents") == [(BOB, 0)], "a refusal stays"
    assert not in_files(scene, word)


@pytest.mark.promise(509)
async def test_a_message_whose_senders_clock_was_ahead_goes_too_and_does_not_come_back(scene):
    """On Signal an id has the time of the sender's clock; `at` is when the message was heard."""
    ahead = said(1).model_copy(update={"message_id": id_at(4_000_000_000)})
    await scene.put(ahead, summary(ahead))
    await scene.record()
    assert (await forget(scene, ANN, scene.recorder())).messages == 1
    await scene.put(ahead)
    await scene.record()
    assert counts(scene) | {"message_log": 0, "summaries": 0} == counts(scene)


async def test_a_person_who_writes_after_that_is_remembered_again(scene):
    await forget(scene, ANN, scene.recorder())
    later = 4_000_000_000
    back = said(1).model_copy(update={"message_id": id_at(later), "at": later, "read_at": later})
    await scene.put(back, summary(back, at=later))
    await scene.record()
    assert counts(scene) | {"message_log": 1, "summaries": 1} == counts(scene)


@pytest.mark.promise(420)
async def test_a_summary_that_comes_after_the_request_has_no_word_from_before_it(scene):
    old, other = said(1), said(2, author_id=BOB, to=said(1))
    await scene.put(old, other)
    await scene.record()
    await forget(scene, ANN, scene.recorder())
    later = 4_000_000_000
    await scene.put(summary(old, other, at=later))
    await scene.record()
    assert counts(scene)["summaries"] == 0
    await scene.put(summary(other, people=(ANN, BOB), at=later))
    await scene.record()
    assert counts(scene)["summaries"] == 1, "all that it is made of is still in the log"


@pytest.mark.promise(480)
@pytest.mark.parametrize("late", [False, True])
async def test_a_profile_of_words_from_before_the_request_does_not_come_back(scene, late):
    def made(of: LoggedMessage) -> ProfileNote:
        return ProfileNote(user_id=ANN, name="Ann", topics=("tea",), upto=of.message_id, at=4_000_000_000)

    await scene.put(said(1), *(() if late else (made(said(1)),)))
    await scene.record()
    await forget(scene, ANN, scene.recorder())
    await scene.put(made(said(1)))
    await scene.record()
    assert scene.rows("SELECT topics FROM profiles") == []
    await scene.put(made(back := said(1).model_copy(update={"message_id": id_at(4_000_000_000)})), back)
    await scene.record()
    assert scene.rows("SELECT topics FROM profiles") == [('["tea"]',)], "what they write later makes one"


async def test_a_profile_that_was_made_of_words_which_the_request_had_not_removed_yet_goes_with_them(scene):
    """The record is told of a request somewhat later, and knew the person's old and new messages until then."""
    later = 4_000_000_000
    new = said(2).model_copy(update={"message_id": id_at(later), "at": later, "read_at": later})
    await scene.put(said(1), new, ProfileNote(user_id=ANN, topics=("tea",), upto=new.message_id, at=later))
    await scene.record()
    await forget(scene, ANN, scene.recorder())
    assert scene.rows("SELECT count(*) FROM profiles WHERE topics <> '[]'") == [(0,)]
    assert counts(scene)["message_log"] == 1


@pytest.mark.promise(480)
@pytest.mark.parametrize("together", [False, True])
async def test_a_summary_of_words_that_were_edited_while_it_was_made_is_not_kept(scene, together):
    await scene.put(said(1), said(2, to=said(1)))
    await scene.record()
    await scene.put(said(1, "never mind", read_at=AT + 5))
    if not together:
        await scene.record()
    await scene.put(summary(said(1), said(2), at=AT))
    await scene.record()
    assert counts(scene)["summaries"] == 0
    await scene.put(summary(said(1), said(2), at=AT + 6))
    await scene.record()
    assert counts(scene)["summaries"] == 1


@pytest.mark.promise(420)
async def test_deleted_messages_go_with_the_summaries_that_have_them_and_do_not_come_back(scene):
    word = secret()
    first, second, other = said(1, f"{word} it is"), said(2, to=said(1)), said(3, "else")
    sent = UnaskedNote(message_id=id_at(AT), agent="claude", task="discover", channel_id=5, text=word, cause="x", at=AT)
    entries = (first, second, other, summary(first, second, text=f"On {word}"), summary(other), sent)
    await scene.put(*entries)
    await scene.record()
    assert in_files(scene, word)
    await scene.put(DeletionNote(channel_id=5, message_ids=(first.message_id, sent.message_id), at=AT))
    async with at_work(scene.recorder()):
        await until(lambda: not in_files(scene, word))
    await scene.put(*entries)
    await scene.record()
    assert not in_files(scene, word)
    assert counts(scene) | {"message_log": 2, "summaries": 1} == counts(scene)
    assert scene.rows("SELECT text, cause FROM unasked") == [("", "")]
    assert len(scene.rows("SELECT rowid FROM memory_index")) == 3


@pytest.mark.promise(420)
async def test_a_deleted_channel_takes_all_along_and_late_messages_too(scene):
    entries = (said(1), said(2, to=said(1)), summary(said(1), said(2)), said(3, channel_id=6))
    await scene.put(*entries)
    await scene.record()
    await scene.put(DeletionNote(channel_id=5, message_ids=(), at=AT, whole=True))
    await scene.record()
    await scene.put(*entries, said(4))
    await scene.record()
    assert scene.rows("SELECT channel_id FROM message_log") == [(6,)]
    assert counts(scene)["summaries"] == 0


@pytest.mark.promise(420)
async def test_an_edited_message_s_old_words_leave_the_file(scene):
    word = secret()
    await scene.put(said(1, f"my password is {word}"))
    await scene.record()
    assert in_files(scene, word)
    await scene.put(said(1, "never mind", read_at=AT))
    async with at_work(scene.recorder()):
        await until(lambda: not in_files(scene, word))


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (RetentionPolicy(90, 7, 30), {"message_log": 1, "summaries": 1, "profiles": 1}),
        (RetentionPolicy(90, 7, None), {"message_log": 2, "summaries": 2, "profiles": 2}),
        (RetentionPolicy(20, None, None), {"message_log": 1, "summaries": 1, "profiles": 1}),
        (RetentionPolicy(None, None, 0), {"message_log": 0, "summaries": 0, "profiles": 2}),
    ],
)
async def test_messages_and_summaries_go_after_their_days_and_profiles_when_they_rest_on_nothing(scene, policy, kept):
    word, ago = secret(), AT - 40 * DAY
    old = said(1, word, author_id=BOB).model_copy(update={"message_id": id_at(ago), "at": ago, "read_at": ago})
    new = said(2)
    await scene.put(
        *(old, summary(old, text=word, at=ago), new, summary(new)),
        ProfileNote(user_id=BOB, topics=("x",), upto=old.message_id, at=ago),
        ProfileNote(user_id=ANN, topics=("x",), upto=new.message_id, at=ago),
        ConsentNote(user_id=BOB, unasked=False, at=ago),
    )
    await scene.record(policy=policy)
    found = counts(scene)
    assert found | kept == found
    assert found["consents"] == 1
    assert in_files(scene, word) == (kept["message_log"] == 2)


@pytest.mark.promise(423)
async def test_without_fts5_all_is_kept_but_nothing_is_recalled_until_it_is_there_again(scene, monkeypatch, caplog):
    word = secret()
    await scene.put(said(1, "tomatoes in the greenhouse"), said(2, f"{word} forever"))
    await scene.record()
    with monkeypatch.context() as lacking:
        lacking.setattr(module, "MODULE", "fts6")
        await scene.put(DeletionNote(channel_id=5, message_ids=(said(2).message_id,), at=AT))
        await scene.put(said(3, "tomatoes on the balcony"))
        await scene.record()
        assert "no FTS5" in caplog.text
        assert scene.rows("SELECT count(*) FROM message_log") == [(2,)]
        assert not in_files(scene, word)
    memory = MemoryReader(scene.path)
    assert await memory.recall("tomatoes", lambda _: True, 5) == ()
    await scene.record()
    found = await memory.recall("tomatoes", lambda _: True, 5)
    assert {each.text for each in found} == {"tomatoes in the greenhouse", "tomatoes on the balcony"}
    await memory.aclose()


async def test_an_index_that_was_not_kept_up_is_put_right_at_the_start(scene):
    await scene.put(said(1, "tomatoes"), said(2, "trains"), summary(said(2), text="violins"))
    await scene.record()
    with closing(connect_blocking(scene.path, writable=True)) as another:
        another.execute("DELETE FROM message_log WHERE text = 'trains'")
        another.execute("DELETE FROM summaries")
        another.execute("DELETE FROM memory_index WHERE rowid = ?", (said(1).message_id,))
    await scene.record()
    assert scene.rows("SELECT rowid FROM memory_index") == [(said(1).message_id,)]
