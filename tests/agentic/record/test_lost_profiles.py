"""What a model made of messages that leave the log goes with them, for whatever reason they leave: else nobody knew any
longer where its topics were spoken of, and who may read of them."""

import pytest

from agentic.ids import id_at
from agentic.record.idle_queries import IdleMemory
from agentic.record.retention import DAY, RetentionPolicy
from agentic.wire.entries import DeletionNote, ProfileNote
from tests.support.recording import AT, said

ANN, HIDDEN, OPEN = 77, 6, 5


def days_ago(days, text, **more):
    at = AT - days * DAY
    return said(1, text, **{"message_id": id_at(at), "at": at, "read_at": at, **more})


SECRET = days_ago(40, "The merger comes in May", channel_id=HIDDEN)
KNOWN = said(2, "My tomatoes are ripe, and many")
ANSWER = said(3, "Fine.", agent="claude")
ELSEWHERE = days_ago(20, "Hello!", channel_id=HIDDEN, agent="claude")  # the agent takes part in both channels

LEFT = {
    "its message is deleted": DeletionNote(channel_id=HIDDEN, message_ids=(SECRET.message_id,), at=AT),
    "its channel is deleted": DeletionNote(channel_id=HIDDEN, message_ids=(), at=AT, whole=True),
    "it expires": RetentionPolicy(None, None, 30),
    "no messages are kept any more": RetentionPolicy(None, None, 0),
}

EDITED = SECRET.model_copy(update={"text": "never mind", "read_at": AT + 5})


def model_s(*topics, upto=KNOWN, **more):
    return ProfileNote(**{"user_id": ANN, "name": "Ann", "topics": topics, "upto": upto.message_id, "at": AT, **more})


async def leaves(scene, why):
    if isinstance(why, RetentionPolicy):
        await scene.record(policy=why)
    else:
        await scene.put(why)
        await scene.record()


async def asked(scene, question, *given):
    memory = IdleMemory(scene.path)
    try:
        return await getattr(memory, question)("claude", *given)
    finally:
        await memory.aclose()


async def discoveries(scene):
    """The topics of each discovery, with the channels that they may be of."""
    return [(each.channel_id, each.topics, each.origins) for each in await asked(scene, "people", 5)]


@pytest.fixture
async def told(scene):
    """A profile that knows of the hidden channel, and has handed its topic on once."""
    await scene.put(SECRET, ELSEWHERE, KNOWN, ANSWER, model_s("the merger", upto=SECRET, at=SECRET.at + 60))
    await scene.put(model_s("the merger", "tomatoes", message_ids=(KNOWN.message_id,)))
    await scene.record()
    assert await discoveries(scene) == [(OPEN, ("the merger", "tomatoes"), (OPEN, HIDDEN))]
    return scene


@pytest.mark.promise(491)
@pytest.mark.parametrize("why", LEFT.values(), ids=LEFT)
async def test_no_topic_outlives_what_tells_where_it_was_spoken_of(told, why):
    await leaves(told, why)
    assert await discoveries(told) == []
    assert told.rows("SELECT name, topics FROM profiles WHERE name <> '' OR topics <> '[]'") == []


@pytest.mark.promise(491)
@pytest.mark.parametrize("why", list(LEFT.values())[:3], ids=list(LEFT)[:3])
async def test_the_next_profile_is_made_of_what_is_left(told, why):
    await leaves(told, why)
    found = await asked(told, "to_profile")
    assert (found.material, found.topics) == ("Ann: My tomatoes are ripe, and many", ())
    await told.put(model_s("tomatoes", message_ids=found.message_ids, at=4_000_000_000))
    await told.record()
    assert await discoveries(told) == [(OPEN, ("tomatoes",), (OPEN,))]


@pytest.mark.promise(491)
@pytest.mark.parametrize("why", list(LEFT.values())[:3], ids=list(LEFT)[:3])
async def test_a_persons_own_topics_stay(told, why):
    own = ProfileNote(user_id=ANN, name="Ann", topics=("bread",), by="person", at=AT - 50 * DAY)
    await told.put(own)
    await leaves(told, why)
    assert [(channel, topics) for channel, topics, _ in await discoveries(told)] == [(OPEN, ("bread",))]


@pytest.mark.promise(491)
@pytest.mark.parametrize("why", LEFT.values(), ids=LEFT)
async def test_what_was_read_before_a_message_left_brings_nothing_back(told, why):
    """A profile that was being made meanwhile had the topics so far, of the hidden channel too."""
    await leaves(told, why)
    await told.put(model_s("the merger", "tomatoes", "violins", message_ids=(KNOWN.message_id,), at=AT + 90))
    await told.record()
    assert await discoveries(told) == []


@pytest.mark.promise(491)
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("why", [*LEFT.values(), EDITED], ids=[*LEFT, "it is edited"])
async def test_the_first_profile_of_messages_that_leave_while_it_is_made_is_not_kept(scene, why, together):
    await scene.put(SECRET, KNOWN)
    await scene.record()
    if together and not isinstance(why, RetentionPolicy):
        await scene.put(why)
    else:
        await leaves(scene, why)
    await scene.put(model_s("the merger", message_ids=(SECRET.message_id, KNOWN.message_id)))
    await scene.record()
    assert scene.rows("SELECT topics FROM profiles") == []


async def test_a_profile_stays_while_each_of_its_channels_has_a_message_and_with_messages_it_does_not_know(told):
    more = days_ago(10, "And in June the next one", channel_id=HIDDEN)
    newest = said(9, "What else?")
    await told.put(more, newest)
    await told.record(policy=RetentionPolicy(None, None, 30))
    await told.put(DeletionNote(channel_id=OPEN, message_ids=(newest.message_id,), at=AT))
    await told.record()
    assert told.rows("SELECT count(*) FROM message_log WHERE text LIKE '%merger%' OR text = 'What else?'") == [(0,)]
    assert await discoveries(told) == [(OPEN, ("the merger", "tomatoes"), (OPEN, HIDDEN))]


@pytest.mark.promise(491)
@pytest.mark.parametrize("text", ["never mind", ""])
async def test_what_is_edited_out_or_hidden_is_in_no_profile_from_before(told, text):
    await told.put(EDITED.model_copy(update={"text": text}))
    await told.record()
    assert await discoveries(told) == []
    await told.put(model_s("the merger", "tomatoes", "violins", message_ids=(KNOWN.message_id,), at=AT + 4))
    await told.record()
    assert await discoveries(told) == [], "it was being made meanwhile"
    found = await asked(told, "to_profile")
    assert "merger" not in found.material
    await told.put(model_s("tomatoes", message_ids=found.message_ids, at=AT + 60))
    await told.record()
    assert [topics for _, topics, _ in await discoveries(told)] == [("tomatoes",)]


async def test_a_message_that_reads_as_before_and_one_that_a_profile_does_not_know_take_nothing(told):
    await told.put(newest := said(9, "What else?"))
    await told.record()
    again = SECRET.model_copy(update={"read_at": AT + 5})
    await told.put(again, newest.model_copy(update={"text": "And what else?", "read_at": AT + 5}))
    await told.record()
    assert await discoveries(told) == [(OPEN, ("the merger", "tomatoes"), (OPEN, HIDDEN))]


async def test_another_persons_message_that_leaves_changes_nothing(told):
    theirs = days_ago(50, "Hi", channel_id=HIDDEN, author_id=78)
    await told.put(theirs)
    await told.record()
    await told.put(DeletionNote(channel_id=HIDDEN, message_ids=(theirs.message_id,), at=AT))
    await told.record()
    assert await discoveries(told) == [(OPEN, ("the merger", "tomatoes"), (OPEN, HIDDEN))]


async def test_a_message_that_expires_beyond_those_a_profile_knows_is_no_place_of_its_topics(told):
    """The last one that it knows of a channel counts: newer ones there do not say where its topics are from."""
    newer = said(8, "Any news?", channel_id=HIDDEN)
    await told.put(newer)
    await told.record(policy=RetentionPolicy(None, None, 30))
    assert await discoveries(told) == []
