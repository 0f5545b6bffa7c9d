from dataclasses import replace

from agentic.context.entries import Attachment, Entry, Reaction, Speaker
from agentic.record.notes import MAX_ROOM_MESSAGES, RoomLog
from tests.agentic.turn.test_room_turns import in_room, turn
from tests.support.agent_scene import THREAD
from tests.support.doubles import ALICE

EVE, POLL = Speaker(5, "Eve", "person"), Speaker(6, "Poll", "stranger")
GROK = Speaker(2, "Grok", "agent", "grok")


def log(*ignored: int) -> RoomLog:
    return RoomLog(lambda: 100.0, lambda user_id, roles, _: user_id in ignored or 9 in roles)


def said(message_id: int, speaker: Speaker = EVE, text: str = "So?", **more: object) -> Entry:
    return Entry(message_id, speaker, text, 50.0, **more)  # type: ignore[arg-type]


def ids(words: object) -> list[int]:
    return [each.message_id for each in words.messages] if words is not None else []  # type: ignore[attr-defined]


def test_each_message_is_noted_once_and_again_when_it_was_edited() -> None:
    made = log()
    assert ids(made.news("claude", 1, 7, [said(1), said(2, GROK)])) == [1, 2]
    assert made.news("grok", 1, 7, [said(1), said(2, GROK)]) is None
    assert ids(made.news("claude", 1, 7, [said(1, text="So what?"), said(2, GROK), said(3)])) == [1, 3]


def test_authors_are_told_apart() -> None:
    words = log().news("claude", 1, 7, [said(1), said(2, GROK)])
    assert words is not None
    assert [(each.author, each.author_id, each.agent, each.name) for each in words.messages] == [
        ("person", 5, None, "Eve"),
        ("agent", None, "grok", "Grok"),
    ]


def test_hidden_messages_other_bots_and_ignored_people_are_left_out() -> None:
    entries = [
        said(1, text="m continue"),
        replace(said(2), reactions=(Reaction("🫥"),)),
        said(3, POLL),
        said(4, replace(EVE, roles=frozenset({9}))),
        said(5, Speaker(7, "Mallory", "person")),
        said(6),
    ]
    assert ids(log(7).news("claude", 1, 7, entries)) == [6]


def test_an_entry_is_bounded() -> None:
    entries = [said(number, text="x" * 9_000) for number in range(1, 2 * MAX_ROOM_MESSAGES)]
    words = log().news("claude", 1, 7, entries)
    assert len(ids(words)) == MAX_ROOM_MESSAGES
    assert words is not None
    assert max(len(each.text) for each in words.messages) == 4_000


def test_a_message_of_files_alone_names_them() -> None:
    words = log().news("claude", 1, 7, [said(1, text="", attachments=(Attachment(3, "tea.pdf", "https://x", 1),))])
    assert words is not None
    assert words.messages[0].text == "(file: tea.pdf)"


async def test_after_a_turn_in_a_room_its_new_messages_go_along_with_the_turn_s_words() -> None:
    scene = await in_room()
    await scene.hear("And who checks it?", channel=THREAD)
    await turn(scene, 1)
    _, words = scene.watcher.ended_turns[0]
    (room,) = words.rooms()
    assert [(each.author_id, each.text) for each in room.messages] == [(ALICE, "And who checks it?"), (None, "Hello.")]
    assert words.size > 0
    await scene.instruct("elsewhere")
    assert scene.watcher.ended_turns[1][1].rooms() == []
    await scene.aclose()
