import itertools
from dataclasses import replace

from agent_context.entries import Entry, Reaction, Speaker
from agent_discord.directory import Directory
from agent_discord.transcript import MAX_ENTRIES, Transcript, Transcripts

ALICE = Speaker(1, "Alice", "person")


def said(entry_id, text="hello", **more):
    return Entry(entry_id, ALICE, text, float(entry_id), **more)


def ids(transcript):
    return [entry.id for entry in transcript.entries()]


def test_entries_stand_in_order_whatever_order_they_come_in():
    for order in itertools.permutations((1, 2, 3)):
        transcript = Transcript(9)
        for entry_id in order:
            transcript.add(said(entry_id))
        assert ids(transcript) == [1, 2, 3]


def test_the_same_event_of_four_bots_is_one_message():
    transcript = Transcript(9)
    for _ in range(4):
        transcript.add(said(1))
    assert ids(transcript) == [1]


def test_a_message_that_comes_after_its_deletion_stays_away():
    transcript = Transcript(9)
    transcript.delete(1)
    transcript.add(said(1))
    assert ids(transcript) == []


def test_an_edit_replaces_the_text():
    transcript = Transcript(9)
    transcript.add(said(1))
    transcript.revise(replace(said(1), text="bye"))
    assert (transcript.get(1).text, transcript.get(1).edited) == ("bye", True)


def test_only_the_newest_are_kept():
    transcript = Transcript(9)
    for entry_id in range(1, MAX_ENTRIES + 6):
        transcript.add(said(entry_id))
    transcript.add(said(1))
    assert ids(transcript) == list(range(6, MAX_ENTRIES + 6))


def test_reactions_are_counted_once_however_many_bots_report_them():
    transcript = Transcript(9)
    transcript.add(said(1))
    for _ in range(4):
        transcript.react(1, "🔥", 5, "grok")
    assert transcript.get(1).reactions == (Reaction("🔥", ("grok",), 1),)


def test_reactions_that_were_there_before_are_counted_without_names():
    transcript = Transcript(9)
    transcript.add(said(1, reactions=(Reaction("👍", count=2),)))
    transcript.react(1, "👍", 5, "grok")
    assert transcript.get(1).reactions == (Reaction("👍", ("grok",), 3),)


def test_taking_back_an_old_reaction_counts_once_for_all_bots():
    transcript = Transcript(9)
    transcript.add(said(1, reactions=(Reaction("👍", count=2),)))
    for _ in range(4):
        transcript.unreact(1, "👍", 5)
    assert transcript.get(1).reactions == (Reaction("👍", (), 1),)


def test_a_reaction_taken_back_by_the_last_one_is_gone():
    transcript = Transcript(9)
    transcript.add(said(1))
    transcript.react(1, "🔥", 5, "grok")
    transcript.unreact(1, "🔥", 5)
    assert transcript.get(1).reactions == ()


def test_reactions_can_be_cleared_for_one_emoji_or_all():
    transcript = Transcript(9)
    transcript.add(said(1))
    transcript.react(1, "🔥", 5, "grok")
    transcript.react(1, "👍", 5, "grok")
    transcript.clear_reactions(1, "🔥")
    assert [r.emoji for r in transcript.get(1).reactions] == ["👍"]
    transcript.clear_reactions(1)
    assert transcript.get(1).reactions == ()


def test_words_that_one_bot_may_not_read_are_filled_in_by_another():
    transcript = Transcript(9)
    transcript.add(said(1, ""))
    transcript.add(said(1, "hello"))
    assert transcript.get(1).text == "hello"


def test_a_user_who_turns_out_to_be_an_agent_is_shown_as_one():
    directory = Directory()
    transcripts = Transcripts(directory)
    transcripts.of(9).add(Entry(1, Speaker(5, "Grok", "stranger"), "hi", 1.0))
    directory.learn("grok", 5)
    assert transcripts.of(9).get(1).speaker == Speaker(5, "Grok", "agent", "grok")


def test_a_gap_leaves_the_record_unwhole_but_remembers_that_it_was():
    transcript = Transcript(9)
    transcript.whole = True
    transcript.note_gap()
    assert (transcript.whole, transcript.was_whole) == (False, True)
