"""Properties of the specification of the gateway: sessions by channel, on a Redis inside the process."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.context.entries import Entry, Speaker
from agentic.llm.providers.agent_sdk import AgentSession
from agentic.state.context import Sessions
from agentic.state.shared_state import SharedState
from agentic.turn.history import AgentSessions, entries_after, reset_conversation
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import empty_redis

CHANNEL = st.integers(1, 2**63)
CONVERSATION = st.builds(AgentSession, st.text(min_size=1, max_size=60), st.integers(0, 10**6), st.text(max_size=32))
ANN = Speaker(5, "Ann", "person")

quick = settings(max_examples=100, deadline=None)


class House:
    """Of a house what a reset asks for."""

    def __init__(self, link):
        self.state = SharedState(link)


# Feature: discord-claude-gateway, Property 10: For any channel with a stored session ID, invoking the reset handler for that channel should result in the session manager returning undefined for that channel's session ID.  # noqa: E501
@quick
@given(channel=CHANNEL, conversation=CONVERSATION, reset=st.integers(1, 2**62), others=st.booleans())
def test_after_a_reset_the_channel_has_no_session_and_nothing_from_before(channel, conversation, reset, others):
    """With the session the transcript up to the reset is no longer context, for agents without sessions too."""
    agents = ("claude", "grok") if others else ("claude",)

    async def play():
        async with RedisConnection(empty_redis()) as link:
            services, sessions = House(link), AgentSessions("claude", Sessions(link))
            await sessions.keep(channel, conversation)
            await reset_conversation(services, agents, channel, reset)
            assert await sessions.of(channel) is None
            assert await AgentSessions("claude", Sessions(link)).of(channel) is None
            return {name: await services.state.context.resets.since(name, channel) for name in ("claude", "grok")}

    since = asyncio.run(play())
    assert since == {"claude": reset, "grok": reset if others else 0}
    said = [Entry(number, ANN, "x", 0.0) for number in (reset - 1, reset, reset + 1)]
    assert [entry.id for entry in entries_after(said, since["claude"])] == [reset + 1]
    assert len(entries_after(said, 0)) == 3


STEPS = st.lists(
    st.tuples(st.sampled_from(["keep", "drop", "reset", "read"]), st.booleans(), CONVERSATION), max_size=12
)


# Feature: discord-claude-gateway, Property 11: For any two distinct channel IDs with different stored session IDs, operations on one channel (setting, getting, or removing its session) should not affect the session ID stored for the other channel.  # noqa: E501
@quick
@given(channels=st.lists(CHANNEL, min_size=2, max_size=2, unique=True), steps=STEPS, together=st.booleans())
def test_what_happens_in_one_channel_changes_nothing_in_another(channels, steps, together):
    """Against a plain mapping; `together`: the two channels' steps at the same time, each channel's in order."""

    async def walk(services, sessions, wanted, own):
        for number, (what, second, conversation) in own:
            channel = channels[second]
            if what == "keep":
                await sessions.keep(channel, conversation)
                wanted[channel] = conversation
            elif what == "drop":
                await sessions.drop(channel)
                wanted[channel] = None
            elif what == "reset":
                await reset_conversation(services, ("claude",), channel, number + 1)
                wanted[channel] = None
            assert await sessions.of(channel) == wanted[channel]

    async def play():
        async with RedisConnection(empty_redis()) as link:
            services = House(link)
            sessions, wanted = AgentSessions("claude", services.state.context.sessions), dict.fromkeys(channels)
            numbered = list(enumerate(steps))
            lanes = [[one for one in numbered if one[1][1] is second] for second in (False, True)]
            walks = [walk(services, sessions, wanted, lane) for lane in (lanes if together else [numbered])]
            await asyncio.gather(*walks)
            assert {channel: await sessions.of(channel) for channel in channels} == wanted

    asyncio.run(play())
