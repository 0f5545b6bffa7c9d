import asyncio

from agentic.agent.events import MentionEvent
from agentic.agent.limits import REPLY_SECONDS, ReplyThrottle
from agentic.context.entries import Entry, Speaker
from agentic.turn.result import HOURGLASS, LINES, MAX_LINES, MAX_WAITING, BusyReplies
from tests.support.doubles import Clock, settle


class Outlet:
    def __init__(self):
        self.posts, self.signs, self.hold = [], [], None

    async def post(self, post, turn_id):
        if self.hold:
            await self.hold.wait()
        self.posts.append((post.text, post.ping))

    async def react(self, message_id, emoji):
        if self.hold:
            await self.hold.wait()
        self.signs.append((message_id, emoji))


def mention(message_id, person=11, channel=1):
    asked = Entry(message_id, Speaker(person, "Alice", "person"), "well?", 1.0)
    return MentionEvent.of(asked, channel_id=channel, theme="casual", to_all=False, now=0.0)


async def test_a_person_is_told_once_a_minute_in_a_channel_and_sees_a_sign_meanwhile():
    clock, outlet = Clock(), Outlet()
    busy = BusyReplies(ReplyThrottle(clock))
    for number in (1, 2, 3):
        busy.reply(outlet, mention(number))
    await settle()
    assert outlet.posts == [(LINES["busy"], 11)]
    assert outlet.signs == [(2, HOURGLASS), (3, HOURGLASS)]
    busy.reply(outlet, mention(4, person=12))
    busy.reply(outlet, mention(5, channel=2))
    clock.now += REPLY_SECONDS
    busy.reply(outlet, mention(6))
    await settle()
    assert len(outlet.posts) == 4


async def test_a_crowd_gets_a_few_lines_at_a_time_so_that_answers_come_through():
    outlet = Outlet()
    outlet.hold = asyncio.Event()
    busy = BusyReplies(ReplyThrottle(Clock()))
    for person in range(300):
        busy.reply(outlet, mention(person + 1, person=person + 1))
    outlet.hold.set()
    await settle()
    assert len(outlet.posts) == MAX_LINES
    assert len(outlet.signs) == MAX_WAITING - MAX_LINES
    busy.reply(outlet, mention(999, person=999))
    await settle()
    assert len(outlet.posts) == MAX_LINES + 1


async def test_the_end_gives_up_what_is_on_its_way():
    outlet = Outlet()
    outlet.hold = asyncio.Event()
    busy = BusyReplies(ReplyThrottle(Clock()))
    busy.reply(outlet, mention(1))
    await settle()
    await busy.aclose()
    outlet.hold.set()
    await settle()
    assert outlet.posts == []
