"""The parents of a reply, as the transcript and the log have them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry, Reaction, Speaker
from agentic.record.memories import Chain
from agentic.turn import history as chains
from agentic.turn.history import ChainPlace, FoundChain, find_reply_chain, known_chain
from agentic.wire.entries import LoggedMessage
from tests.support.remembered import Remembered

ALICE = Speaker(11, "Alice", "person")
CLAUDE = Speaker(21, "Claude", "agent", "claude")


def said(message_id: int, reply_to: int | None = None, text: str = "words", **more: object) -> Entry:
    return Entry(message_id, ALICE, text, float(message_id), reply_to=reply_to, **more)  # type: ignore[arg-type]


def post(message_id: int) -> Entry:
    return Entry(message_id, CLAUDE, "words", float(message_id))


def place(*entries: Entry, reset: int = 0) -> ChainPlace:
    transcript = Transcript(100)
    for entry in entries:
        transcript.add(entry)
    return ChainPlace(transcripts=(transcript,), reset=reset)


def ids(found: FoundChain) -> list[int]:
    return [entry.id for entry in found.entries]


def test_each_reply_leads_to_the_message_before_it() -> None:
    there = place(said(1), said(2, 1), said(3), said(4, 2))
    assert ids(known_chain(said(5, 4), there, 20)) == [1, 2, 4]
    assert ids(known_chain(said(5, 4), there, 2)) == [2, 4]
    assert known_chain(said(5), there, 20) == known_chain(said(5, 4), there, 0) == FoundChain()


@pytest.mark.promise(485)
def test_a_post_leads_to_the_message_that_called_the_agent() -> None:
    there = place(said(1), post(2), said(3, 2))
    there.transcripts[0].note_answers([2], 1)
    assert ids(known_chain(said(4, 3), there, 20)) == [1, 2, 3]


def test_where_the_transcript_ends_the_next_message_is_named() -> None:
    found = known_chain(said(5, 4), place(said(4, 2)), 20)
    assert (ids(found), found.missing, found.left) == ([4], 2, 19)


def test_a_message_that_the_service_sent_with_the_reply_is_part_of_it() -> None:
    there = place(said(4))
    there.transcripts[0].quote(said(2, 1))
    found = known_chain(said(5, 2), there, 20)
    assert (ids(found), found.missing, found.left) == ([2], 1, 19)


def test_a_deleted_message_ends_it_and_a_reset_too() -> None:
    there = place(said(1), said(2, 1), said(3, 2))
    there.transcripts[0].delete(2)
    assert ids(known_chain(said(5, 3), there, 20)) == [3]
    assert ids(known_chain(said(5, 3), place(said(1), said(2, 1), said(3, 2), reset=2), 20)) == [3]


def test_a_hidden_message_is_left_out_and_what_is_before_it_is_shown() -> None:
    there = place(said(1), said(2, 1, ".aside"), said(3, 2), said(4, 3, reactions=(Reaction("🫥"),)))
    assert ids(known_chain(said(5, 4), there, 20)) == [1, 3]


def test_messages_that_name_each_other_end() -> None:
    assert ids(known_chain(said(5, 4), place(said(3, 4), said(4, 3)), 20)) == [3, 4]


def test_the_first_message_of_a_thread_may_be_in_its_parent() -> None:
    above, thread = place(said(1), said(2, 1)), place(said(8, 2))
    both = ChainPlace(transcripts=(*thread.transcripts, *above.transcripts))
    assert ids(known_chain(said(9, 8), both, 20)) == [1, 2, 8]


# --- the part that the log has ---------------------------------------------------------------------------------------


def logged(message_id: int, text: str = "words", **more: object) -> LoggedMessage:
    fields = {"author": "person", "author_id": 12, "name": "Bob", "channel_id": 100, "at": 1.0, **more}
    return LoggedMessage(message_id=message_id, text=text, **fields)  # type: ignore[arg-type]


OLDER = Chain(messages=(logged(1), logged(2, agent="claude", author="agent", author_id=None)), channel_id=100)
SHORT = replace(OLDER, summary="They talk of bees.", upto=1, sources=(1,), people=frozenset({12, 13}))


async def found(chain: Chain, there: ChainPlace | None = None, most: int = 20) -> FoundChain:
    there = there or place(said(4, 3))
    return await find_reply_chain(said(5, 4), there, most, Remembered(chains={3: chain}))


async def test_where_the_transcript_ends_the_log_goes_on() -> None:
    chain = await found(OLDER)
    assert [entry.id for entry in chain.entries] == [1, 2, 4]
    assert [entry.speaker for entry in chain.entries[:2]] == [
        Speaker(12, "Bob", "person"),
        Speaker(0, "Bob", "agent", "claude"),
    ]
    assert (chain.summary, chain.people) == ("", frozenset())


@pytest.mark.promise(485)
async def test_what_a_post_of_an_earlier_run_answers_is_known_from_the_log() -> None:
    class Asked(Remembered):
        async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain:
            assert (message_id, most, reply_to) == (4, 19, None)
            return OLDER

    chain = await find_reply_chain(said(5, 4), place(post(4)), 20, Asked())
    assert [entry.id for entry in chain.entries] == [1, 2, 4]


async def test_a_summary_stands_for_what_lies_further_back() -> None:
    chain = await found(SHORT)
    assert (chain.summary, chain.sources, chain.people) == ("They talk of bees.", (1,), frozenset({12, 13}))


async def test_a_chain_of_another_channel_is_not_shown() -> None:
    """A message that was forwarded refers to one elsewhere."""
    chain = await found(replace(SHORT, channel_id=200))
    assert (len(chain.entries), chain.summary) == (1, "")


async def test_what_was_deleted_or_reset_ends_the_logs_part_too() -> None:
    there = place(said(4, 3))
    there.transcripts[0].delete(1)
    assert await found(SHORT, there) == FoundChain((logged_as_entry(2), said(4, 3)))
    assert await found(SHORT, place(said(4, 3), reset=1)) == FoundChain((logged_as_entry(2), said(4, 3)))
    sources_gone = replace(SHORT, messages=SHORT.messages[1:], sources=(1,))
    assert (await found(sources_gone, there)).summary == ""


def logged_as_entry(message_id: int) -> Entry:
    return Entry(message_id, Speaker(0, "Bob", "agent", "claude"), "words", 1.0)


async def test_what_lost_its_words_and_what_ignored_people_wrote_is_left_out() -> None:
    hidden = replace(OLDER, messages=(logged(1, ""), logged(2, ".aside"), logged(3)))
    assert [entry.id for entry in (await found(hidden)).entries] == [3, 4]
    there = replace(
        place(said(4, 3)), may_show=lambda entry: entry.speaker.id != 12, may_tell=lambda people: 12 not in people
    )
    chain = await found(SHORT, there)
    assert ([entry.id for entry in chain.entries], chain.summary) == ([2, 4], "")


async def test_a_turn_does_not_wait_for_a_record_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Remembered):
        async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain:
            await asyncio.Event().wait()
            raise AssertionError("it went on")

    monkeypatch.setattr(chains, "READ_SECONDS", 0.0)
    chain = await find_reply_chain(said(5, 4), place(said(4, 3)), 20, Hanging())
    assert [entry.id for entry in chain.entries] == [4]


async def test_the_log_is_not_asked_where_the_transcript_has_all_that_is_wanted() -> None:
    class Unasked(Remembered):
        async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain:
            raise AssertionError("asked")

    for most, there in ((20, place(said(3), said(4, 3))), (1, place(said(4, 3))), (0, place())):
        await find_reply_chain(said(5, 4), there, most, Unasked())
