import asyncio

import pytest

from agentic.chat.directory import Directory
from agentic.chat.service import ChannelInfo
from agentic.runtime.services import RENEW_EVERY, keep_present
from agentic.services.discord.service import learn_webhook_posts
from agentic.wire import keys
from tests.support.doubles import LoopTime, MemoryBus, MemoryPresence, settle


class House:
    """Claude's presence, kept; whether it is online is for the test to say."""

    def __init__(self):
        self.store, self.directory, self.online = MemoryPresence(), Directory(), True
        self.directory.learn("claude", 21)
        self.loop = LoopTime()
        names, channels = ("claude", "grok"), [ChannelInfo(5, "lounge", "casual", 70), ChannelInfo(6, "Ann", "casual")]
        work = keep_present("claude", self.store, self.directory, names, lambda: self.online, lambda: channels)
        self.task = asyncio.create_task(work)

    async def renewal(self):
        await self.loop.run(RENEW_EVERY, step=RENEW_EVERY)

    async def end(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def services():
    services = House()
    await settle()
    yield services
    await services.end()


async def test_an_agent_that_is_online_says_which_user_it_is_again_and_again(services):
    assert services.store.texts == {"claude": "21"}
    assert services.store.servers == {5: 70}, "a direct message is in none"
    services.store.texts.clear()  # the key ran out
    await services.renewal()
    assert services.store.texts == {"claude": "21"}


async def test_it_says_good_bye(services):
    await services.end()
    assert services.store.texts == {}


async def test_one_that_is_not_online_leaves_the_key_to_the_one_that_is(services):
    services.online = False
    services.store.texts["claude"] = "of another process"
    await services.renewal()
    await services.end()
    assert services.store.texts == {"claude": "of another process"}


async def test_it_learns_who_the_others_are(services):
    services.store.texts["grok"] = "22"
    await services.renewal()
    assert services.directory.agent_of(22) == "grok"


async def test_nonsense_under_a_key_makes_nobody_an_agent(services):
    services.store.texts["grok"] = "hello"
    await services.renewal()
    assert services.directory.id_of("grok") is None


async def test_it_goes_on_when_redis_is_back(services):
    services.store.away = True
    await services.renewal()
    services.store.texts.clear()
    services.store.away = False
    await services.renewal()
    assert services.store.texts == {"claude": "21"}


async def test_an_end_without_redis_is_an_end_all_the_same(services):
    services.store.away = True
    await services.end()
    assert services.task.cancelled()


async def test_a_post_by_webhook_of_another_process_is_known_as_soon_as_it_says_so():
    bus, directory = MemoryBus(), Directory()
    learn_webhook_posts(bus, directory)
    for said in ("5 historian", "nonsense", "6 "):
        await bus.handlers[keys.WEBHOOK_POSTED](said)
    assert (directory.agent_of_post(5), directory.agent_of_post(6)) == ("historian", None)
