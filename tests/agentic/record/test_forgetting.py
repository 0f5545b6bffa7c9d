"""What a person or a moderator wants removed is gone from the record, also from the bytes of its files."""

import base64
import os
from contextlib import closing

import pytest

from agentic.ids import FIRST_ELSEWHERE, id_at
from agentic.record.database import connect_blocking
from agentic.record.retention import RetentionPolicy
from agentic.state.record_stream import pack
from agentic.wire.entries import (
    ActionNote,
    DeletionNote,
    FoundPage,
    PostWords,
    ReactionNote,
    SearchWords,
    UnaskedNote,
)
from tests.support.recording import AT, at_work, quotes, said, turn, words
from tests.support.redis_server import until

ALICE, BOB = 77, 78
EARLIER = id_at(AT - 60)  # a message's id
LATER = id_at(4_000_000_000)


def noise(size: int = 9000) -> str:
    """A text that no compression makes smaller: its bytes can be looked for."""
    return base64.b64encode(os.urandom(size)).decode()


def pieces(data: bytes) -> list[bytes]:
    return [data[start : start + 24] for start in range(40, len(data) - 24, max(24, len(data) // 6))]


def found(scene, pieces) -> int:
    """How many of them are in any file of the record."""
    files = [path.read_bytes() for path in scene.path.parent.glob("record.db*")]
    return sum(any(piece in content for content in files) for piece in pieces)


def kept(scene) -> dict[str, str]:
    """Turn → "kept", or why its words were removed."""
    return dict(scene.rows("SELECT turn_id, coalesce(removed, iif(data IS NULL, 'lost', 'kept')) FROM words"))


async def ask(scene, user_id) -> int:
    return await scene.forgets.order(user_id)


@pytest.mark.promise(134)
async def test_a_person_is_forgotten_and_what_is_asked_later_is_recorded(scene):
    await scene.put(
        turn("asked", asked_by=ALICE, asked_message_id=EARLIER),
        turn("other", asked_by=BOB, asked_message_id=EARLIER + 1),
        words("asked", asked_by=ALICE),
        words("quoting", asked_by=BOB, quoted=quotes((EARLIER, ALICE), (EARLIER + 1, BOB))),
        words("other", asked_by=BOB, quoted=quotes((EARLIER + 1, BOB))),
        ReactionNote(message_id=1, channel_id=5, user_id=ALICE, emoji="🔥", at=AT),
        ReactionNote(message_id=1, channel_id=5, user_id=BOB, emoji="🔥", at=AT),
        ActionNote(id="a1", at=AT, by=str(ALICE), action="stop"),
    )
    await scene.record()
    assert set(kept(scene).values()) == {"kept"}
    async with at_work(scene.recorder()):
        ordered = await ask(scene, ALICE)
        await scene.forgets.tell()
        while (removed := await scene.forgets.answered(ALICE, ordered)) is None:
            pass
    assert (removed.prompts, removed.turns, removed.reactions) == (2, 1, 1)
    assert kept(scene) == {"asked": "forgotten", "quoting": "forgotten", "other": "kept"}
    assert scene.rows("SELECT id, asked_by IS NULL, asked_message_id IS NULL FROM turns ORDER BY id") == [
        ("asked", 1, 1),
        ("other", 0, 0),
    ]
    assert scene.rows("SELECT user_id FROM reactions") == [(BOB,)]
    assert scene.rows("SELECT by FROM actions") == [("forgotten",)]
    assert scene.rows("SELECT turn_id, author_id FROM quotes JOIN words ON words.id = words_id") == [("other", BOB)]
    later = ordered / 1000 + 5
    await scene.put(
        turn("late", asked_by=ALICE),
        turn("again", asked_by=ALICE, at=later, asked_message_id=LATER),
        words("again", asked_by=ALICE, at=later, quoted=quotes((LATER, ALICE))),
        words("old one quoted again", at=later, quoted=quotes((EARLIER, ALICE))),
    )
    await scene.record()
    assert kept(scene)["again"] == "kept"
    assert kept(scene)["old one quoted again"] == "forgotten"
    assert scene.rows("SELECT id, asked_by FROM turns WHERE id IN ('again', 'late') ORDER BY id") == [
        ("again", ALICE),
        ("late", None),
    ]


@pytest.mark.promise(134)
async def test_a_recorder_that_was_down_forgets_too_and_drops_what_still_waited_in_the_streams(scene, tmp_path):
    await scene.put(turn("m1", asked_by=ALICE), words("m1", asked_by=ALICE))
    await scene.record()
    await scene.put(turn("m2", asked_by=ALICE), words("m2", asked_by=ALICE))
    await ask(scene, ALICE)
    await scene.record()
    await scene.record(path=tmp_path / "new.db")
    assert kept(scene) == {"m1": "forgotten", "m2": "forgotten"}
    for path in (scene.path, tmp_path / "new.db"):
        assert scene.rows("SELECT id, asked_by FROM turns ORDER BY id", path) == [("m1", None), ("m2", None)]


@pytest.mark.promise(134)
async def test_a_deletion_in_discord_removes_every_prompt_that_quotes_the_message_and_a_post_s_own_words(scene):
    post = PostWords(
        agent="claude",
        turn_id="made",
        message_id=90,
        channel_id=5,
        at=AT,
        text="rude",
        picture=b"hi",
        media_type="image/png",
    )
    await scene.put(
        turn("made", posted=(90,)),
        words("made"),
        post,
        words("quotes it", quoted=quotes((90, None), (70, BOB))),
        words("quotes another", quoted=quotes((70, BOB))),
        ReactionNote(message_id=90, channel_id=5, user_id=BOB, emoji="🔥", at=AT),
    )
    await scene.record()
    await scene.put(DeletionNote(channel_id=5, message_ids=(90, 91), at=AT + 9))
    await scene.record()
    assert kept(scene) == {"made": "deleted", "quotes it": "deleted", "quotes another": "kept"}
    assert scene.rows("SELECT text, deleted_at FROM posts") == [("", AT + 9)]
    assert scene.rows("SELECT (SELECT count(*) FROM pictures), (SELECT count(*) FROM reactions)") == [(0, 0)]
    # Late words do not bring them back, nor does a backup that is restored.
    await scene.put(
        words("late", quoted=quotes((91, BOB))),
        post.model_copy(update={"message_id": 91, "turn_id": "late post"}),
        words("made", n=1),
        post,
    )
    await scene.record()
    assert kept(scene) | {"made": "deleted"} == kept(scene)
    assert kept(scene)["late"] == "deleted"
    assert scene.rows("SELECT message_id, text, deleted_at IS NULL FROM posts") == [(90, "", 0), (91, "", 0)]
    assert scene.rows("SELECT count(*) FROM pictures") == [(0,)]


async def test_a_channel_that_is_deleted_takes_its_turns_prompts_and_posts_along(scene):
    post = PostWords(agent="claude", turn_id="here", message_id=90, channel_id=5, at=AT, text="hi", picture=b"hi")
    await scene.put(
        turn("here", posted=(90,)),
        words("here"),
        post,
        turn("elsewhere", channel_id=6),
        words("elsewhere", channel_id=6),
        words("quotes it", channel_id=6, quoted=quotes((90, None))),
    )
    await scene.record()
    await scene.put(DeletionNote(channel_id=5, message_ids=(), at=AT + 9, whole=True))
    await scene.record()
    assert kept(scene) == {"here": "deleted", "elsewhere": "kept", "quotes it": "deleted"}
    assert scene.rows("SELECT text, deleted_at FROM posts") == [("", AT + 9)]


async def test_a_note_of_a_person_is_recorded_again_after_they_were_forgotten(scene):
    await scene.put(words("before", quoted=quotes((-ALICE, ALICE))))
    await scene.record()
    async with at_work(scene.recorder()):
        ordered = await ask(scene, ALICE)
        await scene.forgets.tell()
        while await scene.forgets.answered(ALICE, ordered) is None:
            pass
    await scene.put(
        words("late", at=AT + 1, quoted=quotes((-ALICE, ALICE))),
        words("after", at=ordered / 1000 + 5, quoted=quotes((-ALICE, ALICE))),
    )
    await scene.record()
    assert kept(scene) == {"before": "forgotten", "late": "forgotten", "after": "kept"}


async def test_a_deletion_and_the_words_that_it_concerns_may_come_in_one_batch(scene):
    await scene.put(words("m1", quoted=quotes((70, BOB))), DeletionNote(channel_id=5, message_ids=(70,), at=AT))
    await scene.record()
    assert kept(scene) == {"m1": "deleted"}


@pytest.mark.promise(134)
async def test_removed_words_are_gone_from_the_bytes_of_the_files(scene):
    """Of long and short prompts among others, whose pages are split and merged on the way."""
    texts = {f"t{number}": noise(60 if number % 3 else 9000) for number in range(60)}
    entries = {
        name: words(name, text=text, quoted=quotes((1000 + number, ALICE if number % 2 else BOB)))
        for number, (name, text) in enumerate(texts.items())
    }
    await scene.put(
        *entries.values(), PostWords(agent="claude", turn_id="t0", message_id=5, channel_id=5, at=AT, text=noise())
    )
    removed, stays = [], []
    for number, entry in enumerate(entries.values()):
        (removed if number % 2 else stays).append(pack(entry).words)
    of_alice = [piece for data in removed for piece in pieces(data) if not any(piece in other for other in stays)]
    of_bob = [piece for data in stays for piece in pieces(data)]
    async with at_work(scene.recorder()):
        await until(lambda: len(kept(scene)) == len(entries) and scene.rows("SELECT text FROM posts"))
        with closing(connect_blocking(scene.path)) as reader:  # the console reads while it happens
            post = reader.execute("SELECT text FROM posts").fetchone()[0].encode()
            assert found(scene, of_alice) > 0.98 * len(of_alice)  # some lie across two pages
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM words").fetchone()
            ordered = await ask(scene, ALICE)
            await scene.put(DeletionNote(channel_id=5, message_ids=(5,), at=AT))
            while await scene.forgets.answered(ALICE, ordered) is None:
                pass
            reader.execute("COMMIT")
        await until(lambda: not found(scene, [*of_alice, *pieces(post)]))
        assert found(scene, of_bob) > 0.9 * len(of_bob)  # t0 led to the post


@pytest.mark.promise(542)
async def test_of_a_private_chat_the_words_of_the_agents_go_too_also_those_that_arrive_later(scene):
    """Known by the request, by a turn in no server, the log, or an unprompted message; not a server's channel."""
    by_request, by_turn, by_log, by_message, shared = FIRST_ELSEWHERE + 5, 52, 53, 54, 55
    private = {"by request": by_request, "by turn": by_turn, "by log": by_log, "by message": by_message}
    channels = {**private, "shared": shared}

    def said_there(round_number: int):
        for number, (name, channel) in enumerate(channels.items()):
            post = EARLIER + 100 * round_number + number
            about = {"channel_id": channel, "agent": "claude", "at": AT}
            yield words(f"{name} {round_number}", channel_id=channel)
            yield PostWords(**about, turn_id=f"{name} {round_number}", message_id=post, text=f"answer {name}")
            logged = {"message_id": post, "channel_id": channel, "guild_id": 9 if name == "shared" else None}
            yield said(round_number, f"answer {name}", agent="claude", **logged)

    await scene.put(
        turn("by turn 1", channel_id=by_turn, asked_by=ALICE),
        turn("by message 1", channel_id=by_message, asked_by=None, kind="instruction"),
        turn("by request 1", channel_id=by_request, asked_by=None),
        turn("by log 1", channel_id=by_log, asked_by=None),
        turn("shared 1", channel_id=shared, asked_by=ALICE, guild_id=9),
        said(11, "hello", channel_id=by_log, guild_id=None, author_id=ALICE),
        said(12, "hello", channel_id=shared, guild_id=9, author_id=ALICE),
        UnaskedNote(
            message_id=EARLIER + 3, agent="claude", task="discover", channel_id=by_message, person_id=ALICE, at=AT
        ),
        *said_there(1),
    )
    await scene.record()
    await scene.forgets.order(ALICE, [by_request])
    await scene.record()
    await scene.put(*said_there(2))
    await scene.record()
    assert scene.rows("SELECT DISTINCT text FROM posts WHERE text <> ''") == [("answer shared",)]
    assert scene.rows("SELECT DISTINCT text FROM message_log") == [("answer shared",)]
    assert {turn_id for turn_id, why in kept(scene).items() if why == "kept"} == {"shared 1", "shared 2"}
    await scene.put(said(1, "welcome back", channel_id=by_turn, agent="claude", message_id=LATER, at=4e9))
    await scene.record()
    assert ("welcome back",) in scene.rows("SELECT text FROM message_log")


@pytest.mark.promise(567)
async def test_what_others_share_is_not_private_though_old_records_lack_its_server(scene):
    """Turns that were given up, and logs of earlier versions, lack the server; the request may name such a channel."""
    in_server, with_bob, logged_bob, two_agents, group = 61, 62, 63, 64, FIRST_ELSEWHERE + 65
    channels = (in_server, with_bob, logged_bob, two_agents, group)
    for channel in channels:
        name = f"asked in {channel}"
        post = {"turn_id": name, "message_id": EARLIER + channel, "channel_id": channel, "at": AT}
        answer = {"agent": "claude", "message_id": EARLIER + channel, "channel_id": channel, "guild_id": None}
        await scene.put(
            turn(name, channel_id=channel, asked_by=ALICE),
            PostWords(agent="claude", text=f"answer {channel}", **post),
            said(1, f"answer {channel}", **answer),
        )
    await scene.put(
        said(2, "hello", channel_id=group, guild_id=None),
        turn("of Bob", channel_id=with_bob, asked_by=BOB),
        said(3, "I am Bob", channel_id=logged_bob, guild_id=None, author_id=BOB),
        said(4, "hello", channel_id=logged_bob, guild_id=None),
        turn("of Grok", channel_id=two_agents, agent="grok", asked_by=None),
        turn("in the server", channel_id=in_server, asked_by=None, guild_id=9),
    )
    await scene.record()
    await scene.forgets.order(ALICE, [in_server, with_bob, logged_bob, two_agents])
    await scene.record()
    answers = {f"answer {channel}" for channel in channels}
    assert {text for (text,) in scene.rows("SELECT text FROM posts")} == answers
    assert {text for (text,) in scene.rows("SELECT text FROM message_log")} == {*answers, "I am Bob"}


@pytest.mark.promise(542)
async def test_words_of_a_channel_that_arrive_after_its_deletion_are_not_recorded(scene):
    await scene.put(DeletionNote(channel_id=5, message_ids=(), at=AT + 9, whole=True))
    await scene.record()
    post = PostWords(agent="claude", turn_id="here", message_id=90, channel_id=5, at=AT, text="hi")
    await scene.put(turn("here", posted=(90,), asked_by=None), words("here"), post)
    await scene.record()
    assert kept(scene) == {"here": "deleted"}
    assert scene.rows("SELECT text FROM posts") == [("",)]


async def test_searches_go_with_the_words_of_their_turns_also_those_that_arrive_later(scene):
    def search(turn_id: str, query: str):
        pages = (FoundPage(title="Trees", url="https://trees.example"),)
        return SearchWords(
            agent="claude", turn_id=turn_id, n=0, channel_id=5, at=AT, seconds=0.5, query=query, pages=pages
        )

    asked = {"asked": ALICE, "quoting": BOB, "other": BOB, "deleted": BOB}
    quoted = {"quoting": quotes((EARLIER, ALICE)), "deleted": quotes((EARLIER + 7, BOB))}
    for name, person in asked.items():
        await scene.put(words(name, asked_by=person, quoted=quoted.get(name, {})), search(name, f"tallest {name}"))
    await scene.record()
    assert len(scene.rows("SELECT query FROM searches")) == 4
    await scene.put(DeletionNote(channel_id=5, message_ids=(EARLIER + 7,), at=AT))
    await ask(scene, ALICE)
    await scene.record()
    await scene.put(search("asked", "again"), words("late", asked_by=ALICE), search("late", "late"))
    await scene.record()
    pages = '[{"title": "Trees", "url": "https://trees.example"}]'
    assert scene.rows("SELECT turn_id, query, results, seconds FROM searches") == [
        ("other", "tallest other", pages, 0.5)
    ]
    await scene.record(policy=RetentionPolicy(None, 0.0001), clock=lambda: AT + 3600)
    assert scene.rows("SELECT query FROM searches") == []


async def test_a_search_goes_though_its_turn_ended_before_a_model_was_asked(scene):
    def search(turn_id: str, channel_id: int = 5):
        about = {"agent": "claude", "turn_id": turn_id, "n": 0, "channel_id": channel_id, "at": AT, "seconds": 0.5}
        return SearchWords(**about, query=f"tallest {turn_id}", pages=())

    private, deleted = FIRST_ELSEWHERE + 5, 7
    for name, person, channel in (("asked", ALICE, 5), ("other", BOB, 5), ("there", None, private), ("gone", BOB, 7)):
        await scene.put(turn(name, asked_by=person, channel_id=channel), search(name, channel))
    await scene.record()
    await scene.forgets.order(ALICE, [private])
    await scene.put(DeletionNote(channel_id=deleted, message_ids=(), at=AT + 9, whole=True))
    await scene.record()
    assert scene.rows("SELECT query FROM searches") == [("tallest other",)]
