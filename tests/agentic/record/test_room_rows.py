"""Rooms, their messages and contests in the record: the newest state counts, and people's words go when they must."""

from typing import Any

import pytest

from agentic.ids import id_at
from agentic.record import rows as room_rows
from agentic.record.retention import DAY, RetentionPolicy
from agentic.wire import keys
from agentic.wire.entries import (
    Contender,
    ContestNote,
    ConversationNote,
    DeletionNote,
    PostWords,
    RoomConclusion,
    RoomMessage,
    RoomNote,
    RoomWords,
)
from tests.support.recording import AT, at_work, turn

ALICE, BOB = 77, 78
THREAD = 50
SENT = id_at(AT - 60)


def room(**more: Any) -> RoomNote:
    values: dict[str, Any] = {
        "thread_id": THREAD,
        "channel_id": 5,
        "conversation_id": "c1",
        "topic": "tomatoes",
        "policy": "round-robin",
        "members": ("claude", "grok"),
        "status": "active",
        "opened_by": ALICE,
        "opened_at": AT,
        "changed_at": AT,
    }
    return RoomNote(**{**values, **more})


def heard(*messages: RoomMessage, at: float = AT, agent: str = "claude") -> RoomWords:
    return RoomWords(agent=agent, thread_id=THREAD, at=at, messages=messages)


def said(number: int, text: str = "hi", person: int = ALICE) -> RoomMessage:
    return RoomMessage(message_id=SENT + number, author="person", author_id=person, name="Ann", text=text, at=AT - 60)


def contest(**more: Any) -> ContestNote:
    contenders = (Contender(agent="claude", model="anthropic/m", votes=2), Contender(agent="grok", model="xai/m"))
    values: dict[str, Any] = {"id": "900", "kind": "arena", "at": AT, "channel_id": 5, "question": "why?"}
    return ContestNote(**{**values, "asked_by": ALICE, "contenders": contenders, **more})


async def forget(scene: Any, person: int) -> None:
    async with at_work(scene.recorder()):
        ordered = await scene.forgets.order(person)
        await scene.forgets.tell()
        while await scene.forgets.answered(person, ordered) is None:
            pass


async def test_a_room_has_its_newest_state_also_where_an_older_one_comes_later(scene):
    await scene.put(room(), room(status="paused", why="stopped", turn_number=4, changed_at=AT + 9, left=("grok",)))
    await scene.put(room(turn_number=3, changed_at=AT + 5))
    await scene.record()
    assert scene.rows("SELECT status, why, turn_number, members, left_members FROM rooms") == [
        ("paused", "stopped", 4, '["claude", "grok"]', '["grok"]')
    ]


def conversation(**more: Any) -> ConversationNote:
    return ConversationNote(id="c1", channel_id=THREAD, theme="debate", started_at=AT, **more)


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_room_that_is_resumed_has_a_conversation_that_runs(scene, at_once):
    resumed, ended = room(changed_at=AT + 9), conversation(ended_at=AT + 5, ended_because="paused", messages=4)
    for notes in [(conversation(), room(), ended, resumed)] if at_once else [(conversation(),), (ended,), (resumed,)]:
        await scene.put(*notes)
        await scene.record()
    assert scene.rows("SELECT ended_at, ended_because, messages FROM conversations") == [(None, None, 4)]


async def test_a_room_s_note_that_comes_late_does_not_undo_its_conversation_s_end(scene):
    await scene.put(conversation(), conversation(ended_at=AT + 5, ended_because="paused"))
    await scene.record()
    await scene.put(room(turn_number=3, changed_at=AT + 4), room(status="paused", changed_at=AT + 6))
    await scene.record()
    assert scene.rows("SELECT ended_at, ended_because FROM conversations") == [(AT + 5, "paused")]


async def test_a_message_that_was_edited_has_the_text_of_its_newest_reading(scene):
    await scene.put(heard(said(1, "new"), at=AT + 5), heard(said(1, "old"), said(2), at=AT + 1, agent="grok"))
    await scene.record()
    assert scene.rows("SELECT text FROM room_messages ORDER BY message_id") == [("new",), ("hi",)]


async def test_a_room_keeps_its_newest_messages(scene, monkeypatch):
    few = room_rows.OLD_ROOM_MESSAGES.replace(str(room_rows.MAX_ROOM_MESSAGES), "3")
    monkeypatch.setattr(room_rows, "OLD_ROOM_MESSAGES", few)
    await scene.put(heard(*map(said, range(5))), heard(said(7), said(6)))
    await scene.record()
    assert scene.rows("SELECT message_id FROM room_messages ORDER BY 1") == [(SENT + number,) for number in (4, 6, 7)]


async def test_a_turn_says_why_its_agent_was_chosen_and_its_number_in_the_room(scene):
    await scene.put(turn("m1", chosen_because="named by Ann", room_turn=7))
    await scene.record()
    assert scene.rows("SELECT chosen_because, room_turn FROM turns") == [("named by Ann", 7)]


async def test_a_contest_is_recorded_once_with_its_contenders(scene):
    await scene.put(contest(), contest())
    await scene.record()
    assert scene.rows("SELECT kind, question, asked_by FROM contests") == [("arena", "why?", ALICE)]
    assert scene.rows("SELECT agent, model, votes FROM contenders") == [
        ("claude", "anthropic/m", 2),
        ("grok", "xai/m", 0),
    ]


@pytest.mark.promise(233)
async def test_a_forgotten_person_is_gone_from_rooms_and_contests_and_does_not_come_back(scene):
    await scene.put(room(), heard(said(1), said(2, person=BOB)), contest(), contest(id="r", kind="room"))
    await scene.record()
    await forget(scene, ALICE)
    await scene.put(room(changed_at=AT + 9), heard(said(1, "again"), said(3), at=AT + 9), contest(id="901"))
    await scene.record()
    assert scene.rows("SELECT author_id FROM room_messages") == [(BOB,)]
    assert scene.rows("SELECT opened_by, topic, changed_at FROM rooms") == [(None, "tomatoes", AT + 9)]
    assert scene.rows("SELECT id, question, asked_by FROM contests ORDER BY id") == [
        ("900", "", None),
        ("901", "", None),
        ("r", "why?", None),
    ]


@pytest.mark.promise(233)
async def test_who_opened_a_room_does_not_come_back_when_the_request_is_no_longer_known(scene):
    await scene.put(room())
    await scene.record()
    await forget(scene, ALICE)
    await scene.record(clock=lambda: 4_000_000_000.0)
    assert scene.rows("SELECT * FROM forgotten") == []
    await scene.link.commands.delete(keys.COORDINATOR_FORGOTTEN)
    await scene.put(room(changed_at=AT + 9, turn_number=7))
    await scene.record()
    assert scene.rows("SELECT turn_number, opened_by FROM rooms") == [(7, None)]


async def test_a_person_who_writes_after_that_is_recorded_again(scene):
    await forget(scene, ALICE)
    later = id_at(4_000_000_000)
    await scene.put(heard(RoomMessage(message_id=later, author="person", author_id=ALICE, text="back")))
    await scene.record()
    assert scene.rows("SELECT text FROM room_messages") == [("back",)]


@pytest.mark.promise(233)
async def test_messages_deleted_in_discord_go_and_do_not_come_back(scene):
    await scene.put(heard(said(1), said(2)), contest(id=str(SENT)))
    await scene.record()
    await scene.put(DeletionNote(channel_id=THREAD, message_ids=(SENT, SENT + 1), at=AT + 1))
    await scene.record()
    await scene.put(heard(said(1, "edited"), at=AT + 9), contest(id=str(SENT), kind="arena"))
    await scene.record()
    assert scene.rows("SELECT message_id FROM room_messages") == [(SENT + 2,)]
    assert scene.rows("SELECT question FROM contests") == [("",)]


@pytest.mark.promise(233)
async def test_a_room_that_a_person_deletes_leaves_only_what_its_turns_cost(scene):
    of_room = {"id": f"room-{THREAD}", "kind": "room", "asked_by": None}
    await scene.put(
        room(status="closed"),
        room(thread_id=51, conversation_id="c2"),
        heard(said(1)),
        contest(**of_room),
        contest(),
        conversation(),
        turn("t1", channel_id=THREAD, cost_usd=0.25),
    )
    await scene.record()
    await scene.put(DeletionNote(channel_id=THREAD, message_ids=(), at=AT + 9, whole=True, room=True))
    await scene.record()
    assert scene.rows("SELECT thread_id FROM rooms") == [(51,)]
    assert scene.rows("SELECT id FROM contests") == [("900",)]
    assert scene.rows("SELECT contest_id, agent FROM contenders ORDER BY agent") == [("900", "claude"), ("900", "grok")]
    assert scene.rows("SELECT * FROM conversations") == scene.rows("SELECT * FROM room_messages") == []
    assert scene.rows("SELECT cost_usd FROM turns") == [(0.25,)]


async def test_a_thread_that_is_deleted_takes_its_messages_along(scene):
    await scene.put(room(), heard(said(1), said(2)))
    await scene.record()
    await scene.put(DeletionNote(channel_id=THREAD, message_ids=(), at=AT + 1, whole=True))
    await scene.record()
    assert scene.rows("SELECT count(*) FROM room_messages") == [(0,)]
    assert scene.rows("SELECT count(*) FROM rooms") == [(1,)]


@pytest.mark.parametrize(
    ("policy", "kept"), [(RetentionPolicy(90, 7), (0, 1, 1, 2)), (RetentionPolicy(7, None), (0, 0, 0, 0))]
)
async def test_what_people_said_goes_with_the_prompts_and_rooms_and_contests_with_the_rest(scene, policy, kept):
    old = AT - 8 * DAY
    message = RoomMessage(message_id=id_at(old), author="person", author_id=BOB, text="hi")
    await scene.put(room(opened_at=old, changed_at=old), heard(message, at=old), contest(at=old))
    await scene.record(policy=policy)
    counts = scene.rows(
        "SELECT (SELECT count(*) FROM room_messages), (SELECT count(*) FROM rooms), (SELECT count(*) FROM contests),"
        " (SELECT count(*) FROM contenders)"
    )
    assert counts == [kept]


async def test_without_prompts_no_message_of_a_room_is_recorded_but_posts_are(scene):
    post = PostWords(agent="claude", turn_id="m1", message_id=90, channel_id=THREAD, at=AT, text="Hi!")
    await scene.put(room(), heard(said(1)), post)
    await scene.record(policy=RetentionPolicy(None, 0))
    assert scene.rows("SELECT (SELECT count(*) FROM room_messages), (SELECT count(*) FROM posts)") == [(0, 1)]


# what came of a room


def conclusion(**more: Any) -> RoomConclusion:
    values: dict[str, Any] = {"thread_id": THREAD, "channel_id": 5, "topic": "tomatoes", "arguments": ("seeds",)}
    ids = {"message_ids": (SENT + 1, SENT + 2), "people": (ALICE, BOB)}
    return RoomConclusion(**{**values, **ids, "closed_at": AT, "at": AT, **more})


KEPT = "SELECT arguments FROM room_conclusions"


async def test_each_end_of_a_room_is_concluded_once_and_the_latest_counts(scene):
    await scene.put(conclusion(), conclusion(arguments=(), at=AT + 5))
    await scene.record()
    assert scene.rows(KEPT) == [('["seeds"]',)]
    await scene.put(conclusion(arguments=("soup",), closed_at=AT + 50, at=AT + 51))
    await scene.record()
    assert scene.rows(KEPT) == [('["soup"]',)]


@pytest.mark.promise(594)
async def test_a_conclusion_is_forgotten_with_a_person_who_wrote_there_and_does_not_come_back(scene):
    await scene.put(conclusion())
    await scene.record()
    await forget(scene, BOB)
    assert scene.rows(KEPT) == []
    await scene.put(conclusion())
    await scene.record()
    assert scene.rows(KEPT) == []


@pytest.mark.parametrize(
    "gone",
    [
        DeletionNote(channel_id=THREAD, message_ids=(SENT + 2,), at=AT + 1),
        DeletionNote(channel_id=THREAD, message_ids=(), at=AT + 1, whole=True),
    ],
    ids=["a post", "the thread"],
)
@pytest.mark.parametrize("late", [True, False])
async def test_a_conclusion_goes_with_one_of_its_posts_and_with_its_thread(scene, gone, late):
    for note in (gone, conclusion()) if late else (conclusion(), gone):
        await scene.put(note)
        await scene.record()
    assert scene.rows(KEPT) == []
