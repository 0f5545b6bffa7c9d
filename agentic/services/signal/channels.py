"""The chats of an agent on Signal, and the channels of one that is on both services."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentic.agent.agent import ChannelInfo, Channels, ReactionView
from agentic.agent.services import AgentServices
from agentic.chat.outlet import Outlet
from agentic.ids import is_snowflake
from agentic.services.signal.account import SignalAccount
from agentic.services.signal.chats import Chat
from agentic.services.signal.sink import SignalSink
from agentic.services.signal.view import SignalView


class SignalChannels:
    """The chats of one agent's account that it has heard of, in this run or in an earlier one. `may_act` says whether
    this process acts for the agent."""

    arriving = False  # what is known is known at once

    def __init__(
        self, agent: str, account: SignalAccount, services: AgentServices, *, may_act: Callable[[], bool]
    ) -> None:
        self._agent, self._account, self._services, self._may_act = agent, account, services, may_act

    @property
    def acts(self) -> bool:
        """Whether this process acts for the agent."""
        return self._may_act()

    def own_id(self, channel_id: int) -> int | None:
        del channel_id
        return self._account.me.person

    def known(self) -> Sequence[ChannelInfo]:
        theme = self._services.settings.signal_theme
        return [ChannelInfo(chat.channel_id, chat.name, theme, group=chat.is_group) for chat in self._chats()]

    def parent(self, channel_id: int) -> int | None:
        """None: a chat has no threads."""
        del channel_id
        return None

    def is_stopped(self, channel_id: int) -> bool:
        """Whether a person stopped the bots in the chat, or the owner everywhere."""
        return self._services.stops.holds(channel_id)

    def view_of(self, channel_id: int) -> SignalView | None:
        """None for a chat in which the account is not."""
        chat = self._account.chats.get(channel_id)
        if chat is None or self._account.number not in chat.accounts:
            return None
        return SignalView(self._account, chat)

    def outlet_of(self, channel_id: int) -> Outlet | None:
        view = self.view_of(channel_id)
        return self._outlet(view) if view is not None else None

    def answering(self, channel_id: int) -> Outlet | None:
        """The outlet for answers to commands, which are given in a stopped chat too."""
        view = self.view_of(channel_id)
        return self._outlet(view, stops=False) if view is not None else None

    async def outlet_in_scope(self, channel_id: int) -> Outlet | None:
        """The same: every chat with a person who is heard is in scope, and the sink refuses the others."""
        return self.outlet_of(channel_id)

    async def wait_for(self, channel_id: int) -> None:
        """Returns at once: no chat arrives later."""

    def _chats(self) -> list[Chat]:
        return self._account.chats.of_account(self._account.number)

    def _outlet(self, view: SignalView, *, stops: bool = True) -> Outlet:
        services, chat = self._services, view.channel_id

        async def claim(part: str) -> bool:
            return await services.ledger.post_claims.first(self._agent, part)

        async def give_up(part: str) -> None:
            await services.ledger.post_claims.give_up(self._agent, part)

        sink = SignalSink(
            view,
            may_post=lambda: self._may_act() and not (stops and self.is_stopped(chat)),
            claim=claim,
            give_up=give_up,
            clean=services.outbound.redact,
        )
        return Outlet(view, sink)


class JoinedChannels:
    """The channels of an agent that is on Discord and on Signal: a channel's number says whose it is."""

    def __init__(self, discord: Channels, signal: SignalChannels) -> None:
        self._discord, self._signal = discord, signal

    @property
    def arriving(self) -> bool:
        return self._discord.arriving

    def own_id(self, channel_id: int) -> int | None:
        return self._of(channel_id).own_id(channel_id)

    def known(self) -> Sequence[ChannelInfo]:
        return [*self._discord.known(), *self._signal.known()]

    def parent(self, channel_id: int) -> int | None:
        return self._of(channel_id).parent(channel_id)

    def is_stopped(self, channel_id: int) -> bool:
        return self._of(channel_id).is_stopped(channel_id)

    def view_of(self, channel_id: int) -> ReactionView | None:
        return self._of(channel_id).view_of(channel_id)

    def outlet_of(self, channel_id: int) -> Outlet | None:
        return self._of(channel_id).outlet_of(channel_id)

    async def outlet_in_scope(self, channel_id: int) -> Outlet | None:
        return await self._of(channel_id).outlet_in_scope(channel_id)

    async def wait_for(self, channel_id: int) -> None:
        await self._of(channel_id).wait_for(channel_id)

    def _of(self, channel_id: int) -> Channels:
        return self._discord if is_snowflake(channel_id) else self._signal


def with_signal(agent: str, discord: Channels, services: AgentServices, may_act: Callable[[], bool]) -> Channels:
    """The agent's channels on Discord, and those on Signal where it has a number."""
    account = services.signal.get(agent)
    if account is None:
        return discord
    return JoinedChannels(discord, SignalChannels(agent, account, services, may_act=may_act))
