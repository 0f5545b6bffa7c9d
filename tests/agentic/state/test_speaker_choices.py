import pytest

from agentic.state.conversations import CHOICE_SECONDS as KEEP_SECONDS
from agentic.state.conversations import MAX_CHOICES, ScorePart, SpeakerChoice, SpeakerChoices, SpeakerScore
from agentic.state.turn_records import TurnRecord
from agentic.wire import keys

CHANNEL = 7
CLAUDE = SpeakerScore(agent="claude", strength=1.2, parts=(ScorePart(why="named by Grok", amount=1.2),))
CHOICE = SpeakerChoice(
    channel_id=CHANNEL, conversation_id="c", at=5.0, chosen="claude", because="named by Grok", pulls=(CLAUDE,)
)


async def test_the_last_choice_of_a_channel_is_kept_for_a_day(link):
    store = SpeakerChoices(link)
    assert await store.last(CHANNEL) is None
    await store.keep(CHOICE.model_copy(update={"at": 4.0}))
    await store.keep(CHOICE)
    assert await store.last(CHANNEL) == CHOICE
    left = await link.call(lambda redis: redis.ttl(keys.pulls(CHANNEL)))
    assert KEEP_SECONDS - 10 < left <= KEEP_SECONDS


TURN = TurnRecord(
    id="t",
    agent="claude",
    at=9.0,
    kind="instruction",
    trigger="round",
    channel_id=CHANNEL,
    conversation_id="c",
    chosen_because="named by Grok",
)


@pytest.mark.parametrize(
    ("made", "turn", "is_found"),
    [
        ({}, {}, True),
        ({"at": 10.0}, {}, False),  # the choice of a later turn
        ({"conversation_id": "d"}, {}, False),
        ({"chosen": "grok"}, {}, False),
        ({}, {"chosen_because": "a person asked for it"}, False),
        ({}, {"chosen_because": None}, False),
        ({"because": "named by Grok" + "!" * 400}, {"chosen_because": "named by Grok!!"}, True),  # cut in the record
    ],
)
async def test_a_turn_finds_the_scores_that_gave_it(link, made, turn, is_found):
    store = SpeakerChoices(link)
    choice = CHOICE.model_copy(update=made)
    await store.keep(choice)
    await store.keep(CHOICE.model_copy(update={"at": 20.0, "pulls": ()}))
    found = await store.of_turn(TURN.model_copy(update=turn))
    assert found == (choice if is_found else None)


async def test_the_choices_of_a_long_day_are_bounded(link):
    store = SpeakerChoices(link)
    for at in range(MAX_CHOICES + 3):
        await store.keep(CHOICE.model_copy(update={"at": float(at)}))
    past = keys.past_pulls(CHANNEL)
    assert await link.call(lambda redis: redis.llen(past)) == MAX_CHOICES
    assert 0 < await link.call(lambda redis: redis.ttl(past)) <= KEEP_SECONDS


async def test_what_another_version_wrote_counts_as_none(link):
    await link.call(lambda redis: redis.set(keys.pulls(CHANNEL), '{"chosen": []}'))
    assert await SpeakerChoices(link).last(CHANNEL) is None


def test_the_pull_of_one_that_could_not_be_asked_is_none():
    assert CHOICE.of("claude") == CLAUDE
    assert CHOICE.of("grok") is None
