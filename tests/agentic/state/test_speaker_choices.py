from agentic.state.conversations import CHOICE_SECONDS as KEEP_SECONDS
from agentic.state.conversations import ScorePart, SpeakerChoice, SpeakerChoices, SpeakerScore
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


async def test_what_another_version_wrote_counts_as_none(link):
    await link.call(lambda redis: redis.set(keys.pulls(CHANNEL), '{"chosen": []}'))
    assert await SpeakerChoices(link).last(CHANNEL) is None


def test_the_pull_of_one_that_could_not_be_asked_is_none():
    assert CHOICE.of("claude") == CLAUDE
    assert CHOICE.of("grok") is None
