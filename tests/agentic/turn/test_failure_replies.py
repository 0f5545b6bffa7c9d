import asyncio

import pytest

from agentic.agent.events import MentionEvent
from agentic.chat.outlet import CannotPost
from agentic.context.entries import Entry, Speaker
from agentic.turn.result import LINES, MEANINGS, REACTIONS, REPLY_SECONDS, post_failure_reply
from agentic.wire.reasons import REASONS
from tests.support.doubles import LoopTime

ASKED = Entry(5, Speaker(11, "Alice", "person"), "well?", 1.0)
EVENT = MentionEvent.of(ASKED, channel_id=1, theme="casual", to_all=False, now=0.0)


class Outlet:
    def __init__(self, wrong=None, *, may_react=True):
        self.posts, self.reactions, self.wrong, self.may_react = [], [], wrong, may_react

    async def post(self, post, turn_id):
        if self.wrong:
            raise self.wrong
        self.posts.append((post.text, post.ping, turn_id))

    async def react(self, message_id, emoji):
        self.reactions.append((message_id, emoji))
        return True


@pytest.mark.parametrize("reason", sorted(LINES))
async def test_a_line_goes_to_the_person_under_a_nonce_of_its_own(reason):
    outlet = Outlet()
    await post_failure_reply(outlet, EVENT, reason)
    assert outlet.posts == [(LINES[reason], 11, "m5:excuse")]
    assert outlet.reactions == []


@pytest.mark.parametrize("reason", ["cooldown", "daily_limit", "too_often"])
async def test_a_limit_is_a_sign_at_the_message(reason):
    outlet = Outlet()
    await post_failure_reply(outlet, EVENT, reason)
    assert (outlet.posts, outlet.reactions) == ([], [(5, "⏳")])


@pytest.mark.promise(578)
async def test_where_there_are_no_reactions_a_limit_is_a_message():
    outlet = Outlet(may_react=False)
    await post_failure_reply(outlet, EVENT, "budget")
    await post_failure_reply(outlet, EVENT, "too_often", explains=True)
    assert [text for text, *_ in outlet.posts] == ["💤", MEANINGS["too_often"]]
    assert outlet.reactions == []


@pytest.mark.parametrize("reason", sorted(MEANINGS))
async def test_what_a_sign_means_is_said_with_it(reason):
    outlet = Outlet()
    await post_failure_reply(outlet, EVENT, reason, explains=True)
    assert (outlet.posts, outlet.reactions) == ([(MEANINGS[reason], 11, "m5:excuse")], [(5, "⏳")])


async def test_where_no_word_may_be_written_a_signs_meaning_is_left_out():
    outlet = Outlet(CannotPost("not_permitted"))
    assert await post_failure_reply(outlet, EVENT, "cooldown", explains=True) is None
    assert outlet.reactions == [(5, "⏳")]


@pytest.mark.parametrize("reason", ["budget", "agent_budget", "person_budget"])
async def test_no_money_is_a_sleeping_sign(reason):
    outlet = Outlet()
    await post_failure_reply(outlet, EVENT, reason)
    assert (outlet.posts, outlet.reactions) == ([], [(5, "💤")])


async def test_a_person_with_a_recent_reply_gets_a_sign():
    outlet = Outlet()
    await post_failure_reply(outlet, EVENT, "benched", quiet=True)
    assert (outlet.posts, outlet.reactions) == ([], [(5, "💤")])


@pytest.mark.parametrize("reason", sorted(LINES))
async def test_where_no_word_may_be_written_a_sign_is_given(reason):
    outlet = Outlet(CannotPost("not_permitted"))
    await post_failure_reply(outlet, EVENT, reason)
    await post_failure_reply(outlet, EVENT, "not_permitted")
    assert outlet.reactions == [(5, "🙊")] * 2


@pytest.mark.parametrize("reason", ["unknown_channel", "not_ours"])
async def test_where_nothing_can_be_posted_nothing_is_tried(reason):
    outlet = Outlet()
    await post_failure_reply(outlet, EVENT, reason)
    assert (outlet.posts, outlet.reactions) == ([], [])


async def test_a_failure_reply_that_cannot_be_posted_is_logged(caplog):
    await post_failure_reply(Outlet(CannotPost("discord_failed")), EVENT, "busy")
    assert "cannot post a failure reply" in caplog.text


@pytest.mark.promise(9)
def test_failure_replies_are_for_known_reasons_and_short_lines_without_markup():
    assert {*LINES, *REACTIONS} <= REASONS.keys()
    assert MEANINGS.keys() <= REACTIONS.keys()
    assert all(len(line) < 100 and not set("\n`<@{") & set(line) for line in MEANINGS.values())
    assert all(len(line) < 100 and not set("\n`<@{") & set(line) for line in LINES.values())


async def test_a_discord_that_hangs_does_not_hold_the_channel_for_ever(caplog):
    class Hanging(Outlet):
        async def react(self, message_id, emoji):
            await asyncio.Event().wait()

    loop = LoopTime()
    saying = asyncio.create_task(post_failure_reply(Hanging(), EVENT, "cooldown"))
    await loop.run(REPLY_SECONDS + 1)
    assert saying.done()
    assert "posting a failure reply timed out" in caplog.text
