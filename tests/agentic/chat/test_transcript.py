import itertools
from dataclasses import replace

import pytest

from agentic.chat.directory import Directory
from agentic.chat.transcript import MAX_CHANNELS, MAX_ENTRIES, MAX_QUOTED, Transcript, Transcripts
from agentic.context.entries import Entry, Reaction, Speaker

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


@pytest.mark.promise(70)
def test_the_same_event_of_four_bots_is_one_message():
    transcript = Transcript(9)
    for _ in range(4):
        transcript.add(said(1))
    assert ids(transcript) == [1]


@pytest.mark.promise(70)
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


def test_only_the_newest_are_kept_and_the_oldest_go_in_steps():
    transcript = Transcript(9)
    transcript.begins = True
    begun = []
    for entry_id in range(1, 3 * MAX_ENTRIES):
        transcript.add(said(entry_id))
        assert ids(transcript)[-MAX_ENTRIES:] == list(range(max(1, entry_id - MAX_ENTRIES + 1), entry_id + 1))
        begun.append(ids(transcript)[0])
    assert list(dict.fromkeys(begun))[:4] == [1, 102, 203, 304]
    assert not transcript.begins
    transcript.add(said(1))
    assert ids(transcript)[0] != 1


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


def test_a_mark_is_a_persons_as_long_as_one_person_gave_it():
    transcript = Transcript(9)
    transcript.add(said(1, reactions=(Reaction("🙃", count=1),)))  # read by REST: people's alone
    transcript.react(1, "🙃", 5, "grok", bot=True)
    transcript.unreact(1, "🙃", 6, bot=True)  # given before it was read, and not counted then
    assert transcript.get(1).reactions == (Reaction("🙃", ("grok",), 2, by_person=True),)
    transcript.unreact(1, "🙃", 11)
    assert transcript.get(1).reactions == (Reaction("🙃", ("grok",), 1, by_person=False),)
    transcript.react(1, "🙃", 11, "Alice")
    assert transcript.get(1).reactions == (Reaction("🙃", ("grok",), 2, by_person=True),)


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


def test_a_user_that_is_learned_to_be_an_agent_is_relabelled():
    directory = Directory()
    transcripts = Transcripts(directory)
    transcripts.of(9).add(Entry(1, Speaker(5, "Grok", "stranger"), "hi", 1.0))
    directory.learn("grok", 5)
    assert transcripts.of(9).get(1).speaker == Speaker(5, "Grok", "agent", "grok")


def test_a_gap_leaves_the_record_unwhole_but_remembers_that_it_was():
    transcript = Transcript(9)
    transcript.is_complete = True
    transcript.note_gap()
    assert (transcript.is_complete, transcript.was_complete) == (False, True)


def test_a_persons_message_does_not_come_after_itself():
    transcript = Transcript(9)
    transcript.add(said(1))
    assert [transcript.person_spoke_after(message_id) for message_id in (0, 1)] == [True, False]


def test_the_channel_that_was_used_least_is_dropped():
    transcripts = Transcripts(Directory())
    first = transcripts.of(1)
    first.add(said(1))
    for channel_id in range(2, MAX_CHANNELS + 1):
        transcripts.of(channel_id)
    transcripts.of(1)
    transcripts.of(MAX_CHANNELS + 1)
    assert (transcripts.known(1), transcripts.known(2)) == (first, None)


def test_a_channel_that_is_known_from_its_beginning_lacks_nothing_however_deep_somebody_looks():
    transcript = Transcript(9, depth=10)
    transcript.is_complete = transcript.begins = True
    transcript.deepen(20)
    assert transcript.is_complete


def test_only_a_webhooks_message_turns_out_to_be_ours():
    transcript = Transcript(9)
    transcript.add(said(1))
    transcript.add(replace(said(2), speaker=replace(ALICE, webhook=True)))
    for message_id in (1, 2):
        transcript.relabel_post(message_id, "claude")
    assert [entry.speaker.agent for entry in transcript.entries()] == [None, "claude"]


def test_a_watcher_hears_of_each_change_once_however_many_bots_deliver_it():
    transcripts, heard = Transcripts(Directory()), []
    end = transcripts.watch(lambda channel_id, message_id: heard.append((channel_id, message_id)))
    transcript = transcripts.of(9)
    steps = (
        lambda: transcript.add(said(1)),
        lambda: transcript.revise(said(1, "hello again")),
        lambda: transcript.react(1, "🔥", 5, "Claude", bot=True),
        lambda: transcript.unreact(1, "🔥", 5, bot=True),
        lambda: transcript.react(1, "👍", 6, "Bob"),
        lambda: transcript.clear_reactions(1),
        lambda: transcripts.directory.learn("claude", ALICE.id),
        lambda: transcript.delete(1),
        lambda: transcript.delete(2),  # known to nobody here, but perhaps still on a page
    )
    for count, step in enumerate(steps, start=1):
        for _ in range(4):
            step()
        assert heard == [*((9, 1),) * min(count, 8), *((9, 2),) * (count - 8)]
    end()
    transcript.add(said(3))
    assert len(heard) == len(steps)


def test_a_reaction_of_before_the_read_that_is_taken_back_is_reported_once():
    transcripts, heard = Transcripts(Directory()), []
    transcript = transcripts.of(9)
    transcript.add(said(1, reactions=(Reaction("🔥", count=2),)))
    transcripts.watch(lambda channel_id, message_id: heard.append(message_id))
    for _ in range(4):
        transcript.unreact(1, "🔥", 5)
    assert (heard, transcript.get(1).reactions[0].count) == ([1], 1)


def test_a_quoted_message_is_known_until_it_is_deleted_but_is_no_part_of_the_transcript():
    transcript = Transcript(9)
    transcript.add(said(5))
    transcript.quote(said(2))
    transcript.revise(replace(said(2), text="bye"))
    assert (ids(transcript), transcript.has(2), transcript.quoted(2).text) == ([5], False, "bye")
    transcript.delete(2)
    transcript.quote(said(2))
    assert transcript.quoted(2) is None


def test_a_message_of_the_transcript_is_never_replaced_by_its_quotation():
    transcript = Transcript(9)
    transcript.quote(said(2, "as quoted"))
    transcript.add(said(2, "as it is"))
    transcript.quote(said(2, "as quoted again"))
    assert (transcript.get(2).text, transcript.quoted(2).text) == ("as it is", "as it is")


def test_only_the_newest_quotations_are_kept():
    transcript = Transcript(9)
    for entry_id in range(1, MAX_QUOTED + 2):
        transcript.quote(said(entry_id))
    assert (transcript.quoted(1), transcript.quoted(2)) == (None, said(2))
