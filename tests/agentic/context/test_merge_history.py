from dataclasses import replace

from agentic.context.entries import Entry, Reaction, Speaker
from agentic.context.history import merge_history
from agentic.wire.messages import HistoryEntry

ALICE = Speaker(1, "Alice", "person")
NAMES = {"grok": "Grok", "claude": "Claude"}


def entries(*ids):
    return tuple(Entry(i, ALICE, f"text {i}", float(i)) for i in ids)


def test_what_the_transcript_has_is_not_repeated():
    known = entries(10, 20)
    assert merge_history(known, [HistoryEntry(agent="grok", text="again", message_id=20)], NAMES) == known


def test_who_reacted_is_told_by_the_record_where_the_transcript_has_only_numbers():
    text = "Hot take  [reactions: 🔥 (claude) ❤️ (grok) 💯 (mistral)]"
    counted = (Reaction("🔥", count=2), Reaction("❤", count=1), Reaction("👍", count=3))
    [entry] = merge_history(
        (replace(entries(20)[0], reactions=counted),), [HistoryEntry(agent="grok", text=text, message_id=20)], NAMES
    )
    assert entry.reactions == (
        Reaction("🔥", ("Claude",), 2),
        Reaction("❤", ("Grok",), 1),
        Reaction("👍", (), 3),  # 💯 is not there any more
    )
    assert entry.text == "text 20"


def test_who_is_known_to_have_reacted_is_not_told_twice_nor_crowded_out():
    record = HistoryEntry(agent="grok", text="x  [reactions: 🔥 (claude)]", message_id=20)
    for known in ((Reaction("🔥", ("Claude",), 1),), (Reaction("🔥", ("Alice",), 1),), ()):
        before = (replace(entries(20)[0], reactions=known),)
        assert merge_history(before, [record], NAMES) == before


def test_what_it_lacks_is_put_in_at_its_place():
    merged = merge_history(entries(10, 30), [HistoryEntry(agent="grok", text="Hot take", message_id=20)], NAMES)
    assert [(e.id, e.speaker.name, e.text) for e in merged][1] == (20, "Grok", "Hot take")


def test_a_record_without_an_id_follows_the_record_before_it():
    history = [
        HistoryEntry(agent="grok", text="known", message_id=10),
        HistoryEntry(agent="claude", text="no id"),
    ]
    merged = merge_history(entries(10, 30), history, NAMES)
    assert [e.text for e in merged] == ["text 10", "no id", "text 30"]


def test_a_record_of_a_deleted_message_is_left_out():
    history = [HistoryEntry(agent="grok", text="taken back", message_id=20)]
    assert [e.id for e in merge_history(entries(10), history, NAMES, deleted=[20])] == [10]


def test_an_agent_of_another_make_keeps_its_own_name():
    merged = merge_history((), [HistoryEntry(agent="mistral", text="hi", message_id=5)], NAMES)
    assert merged[0].speaker.name == "mistral"
