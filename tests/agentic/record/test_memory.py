"""Memories for a turn, as the recorder left them in the file: chains, what fits to a question, people."""

import pytest

from agentic.context.options import Options
from agentic.record.memories import Chain, Kept, MemoryReader, Profile
from agentic.record.personal_data import RECORD
from agentic.wire.entries import ConsentNote, ProfileNote, UnaskedNote
from tests.support.recording import AT, said, summary


@pytest.fixture
async def memory(scene):
    opened = MemoryReader(scene.path)
    yield opened
    await opened.aclose()


def anywhere(channel_id):
    return True


async def test_a_chain_is_what_a_message_answers_the_oldest_first(scene, memory):
    first = said(1, "Which tomato?")
    answer = said(2, "San Marzano.", agent="claude", to=first)
    other = said(3, "Elsewhere")
    last = said(4, "Why?", to=answer)
    await scene.put(first, answer, other, last)
    await scene.record()
    chain = await memory.chain(last.message_id, 20)
    assert (chain.messages, chain.summary, chain.people) == ((first, answer), "", frozenset({77}))
    assert (await memory.chain(last.message_id, 1)).messages == (answer,)
    assert await memory.chain(first.message_id, 20) == Chain()


@pytest.mark.parametrize(("most", "shown"), [(Options().chain_messages, 20), (50, 50), (1000, 50)])
async def test_a_chain_brings_twenty_messages_unless_told_otherwise_and_never_more_than_fifty(
    scene, memory, most, shown
):
    chain = [said(1)]
    for number in range(2, 56):
        chain.append(said(number, to=chain[-1]))
    await scene.put(*chain)
    await scene.record()
    assert (await memory.chain(chain[-1].message_id, most)).messages == tuple(chain[-1 - shown : -1])


async def test_a_message_that_the_log_does_not_have_yet_has_a_chain_by_what_it_answers(scene, memory):
    first = said(1)
    await scene.put(first)
    await scene.record()
    assert (await memory.chain(999, 20, reply_to=first.message_id)).messages == (first,)


async def test_a_summary_stands_for_what_lies_before_its_last_message_and_with_it(scene, memory):
    chain = [said(1)]
    for number in range(2, 6):
        chain.append(said(number, author_id=78, to=chain[-1]))
    await scene.put(*chain, summary(*chain[:3], text="About tea."))
    await scene.record()
    found = await memory.chain(chain[4].message_id, 20)
    assert (found.summary, found.upto, found.messages) == ("About tea.", chain[2].message_id, (chain[3],))
    assert found.people == {77, 78}


async def test_messages_that_answer_each_other_in_a_circle_end(scene, memory):
    one, other = said(1), said(2)
    await scene.put(one.model_copy(update={"reply_to": other.message_id}), said(2, to=one))
    await scene.record()
    assert len((await memory.chain(one.message_id, 20)).messages) == 2


async def test_a_chain_never_leaves_its_channel(scene, memory):
    secret = said(1, "secret", channel_id=6)
    await scene.put(secret, answer := said(2, to=secret))
    await scene.record()
    assert (await memory.chain(answer.message_id, 20)).messages == ()


@pytest.mark.promise(422)
async def test_what_was_said_is_recalled_where_the_reader_could_have_read_it(scene, memory):
    await scene.put(
        said(1, "My greenhouse has eleven tomatoes now"),
        said(2, "The trains are late again today"),
        said(3, "I will paint the greenhouse green", channel_id=6),
    )
    await scene.record()
    [found] = await memory.recall("greenhouse tomato", lambda channel_id: channel_id == 5, 5)
    assert (found.kind, found.channel_id, found.name, found.text) == (
        "message",
        5,
        "Ann",
        "My greenhouse has eleven tomatoes now",
    )
    assert (found.message_id, found.at, found.people) == (said(1).message_id, AT - 3599, frozenset({77}))
    assert {each.channel_id for each in await memory.recall("greenhouse", anywhere, 5)} == {5, 6}
    assert await memory.recall("greenhouse", lambda _: False, 5) == ()


async def test_a_person_has_a_profile_a_consent_and_counts_of_what_is_kept(scene, memory):
    chain = (said(1), said(2))
    await scene.put(
        *chain,
        summary(*chain),
        ProfileNote(user_id=77, name="Ann", topics=("tomatoes", "trains"), upto=said(2).message_id, at=AT),
        ConsentNote(user_id=77, unasked=True, at=AT),
        UnaskedNote(message_id=9, agent="claude", task="discover", channel_id=5, person_id=77, cause="trains", at=AT),
    )
    await scene.record()
    assert await memory.profile(77) == Profile(77, "Ann", ("tomatoes", "trains"), "model", AT)
    assert await memory.consent(77) is True
    assert await memory.kept_about(77) == Kept(
        {**NOTHING, "logged message": 2, "summarized conversation": 1, "unprompted message": 1},
        topics=2,
        since=AT - 3599,
    )
    found = await memory.unasked(9)
    assert (found.agent, found.task, found.person_id, found.cause) == ("claude", "discover", 77, "trains")
    assert (await memory.profile(1), await memory.consent(1), await memory.unasked(1)) == (None, None, None)


NOTHING = {row.noun: 0 for row in RECORD if row.noun}


@pytest.mark.promise(423)
async def test_a_record_that_is_not_there_has_nothing_until_it_is(scene, memory):
    assert await memory.chain(1, 20) == Chain()
    assert await memory.recall("tomatoes", anywhere, 5) == ()
    assert await memory.kept_about(77) == Kept()
    await scene.put(ConsentNote(user_id=77, unasked=False, at=AT))
    await scene.record()
    assert await memory.consent(77) is False


@pytest.mark.promise(423)
async def test_a_file_that_cannot_be_read_has_nothing_and_is_reported_once(tmp_path, caplog):
    path = tmp_path / "record.db"
    path.write_text("no database at all" * 99)
    memory = MemoryReader(path)
    assert [await memory.consent(77), await memory.profile(77)] == [None, None]
    assert caplog.text.count("for memories failed") == 1
    await memory.aclose()
