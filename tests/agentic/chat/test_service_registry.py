"""Which chat service is asked about a channel, and an agent that is on several."""

from __future__ import annotations

from typing import Any, cast

import pytest

from agentic.chat.service import AgentChannels, ChannelInfo, ChatService, ServiceRegistry
from agentic.state.silence import ChannelRef

DEBATE, KITCHEN, NOBODYS = 10, 2**62 + 1, 2**62 + 2


class Chats:
    """The channels of an agent on one service."""

    def __init__(self, channel_id: int, me: int, *, arriving: bool = False) -> None:
        self._channel_id, self._me, self.arriving = channel_id, me, arriving
        self.waited: list[int] = []

    def own_id(self, channel_id: int) -> int:
        return self._me

    def known(self) -> list[ChannelInfo]:
        return [ChannelInfo(self._channel_id, "here", "casual")]

    def place(self, channel_id: int) -> ChannelRef:
        return ChannelRef(channel_id, guild_id=self._me)

    async def wait_for(self, channel_id: int) -> None:
        self.waited.append(channel_id)


class Chat(ChatService):
    """A service with one channel."""

    def __init__(self, channel_id: int, **agents: Chats) -> None:
        self._channel_id, self._agents = channel_id, agents

    def owns(self, channel_id: int) -> bool:
        return channel_id == self._channel_id

    def channels_for(self, agent: str) -> AgentChannels | None:
        return cast(Any, self._agents.get(agent))


class OtherChat(Chat):
    """Another class of service."""


def registry(*services: ChatService) -> ServiceRegistry:
    nothing: dict[str, Any] = dict.fromkeys(("scope", "directory", "transcripts", "attachments", "redact"))
    return ServiceRegistry(services, **nothing)


@pytest.fixture
def server() -> Chat:
    return Chat(DEBATE, claude=Chats(DEBATE, 1, arriving=True), grok=Chats(DEBATE, 2))


@pytest.fixture
def lines() -> OtherChat:
    return OtherChat(KITCHEN, claude=Chats(KITCHEN, 11), penny=Chats(KITCHEN, 13))


def test_a_channel_is_of_the_service_that_owns_it_and_else_of_the_first(server: Chat, lines: OtherChat) -> None:
    services = registry(server, lines)
    assert [services.of(channel) for channel in (DEBATE, KITCHEN, NOBODYS)] == [server, lines, server]
    assert (services.first, list(services), services.get(OtherChat)) == (server, [server, lines], lines)


def test_a_service_that_is_not_in_use_is_not_found(server: Chat) -> None:
    with pytest.raises(LookupError, match="OtherChat is not in use"):
        registry(server).get(OtherChat)


async def test_an_agent_on_several_services_is_asked_about_a_channel_where_the_channel_is(
    server: Chat, lines: OtherChat
) -> None:
    channels = registry(server, lines).channels_for("claude")
    assert channels is not None
    assert [channels.own_id(channel) for channel in (DEBATE, KITCHEN, NOBODYS)] == [1, 11, 1]
    assert [info.channel_id for info in channels.known()] == [DEBATE, KITCHEN]
    assert (channels.arriving, channels.place(KITCHEN)) == (True, ChannelRef(KITCHEN, guild_id=11))
    await channels.wait_for(KITCHEN)
    there = cast(Any, lines.channels_for("claude"))
    assert there.waited == [KITCHEN]


def test_an_agent_on_one_service_has_its_channels_there_alone(server: Chat, lines: OtherChat) -> None:
    services = registry(server, lines)
    assert services.channels_for("penny") is lines.channels_for("penny")
    assert services.channels_for("gemini") is None
