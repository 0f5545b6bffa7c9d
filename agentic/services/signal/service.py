"""Signal as a chat service: the client, the accounts of all agents, and a listener for each agent of this process.

settings ─ accounts ─┬─ SignalChannels   views and sinks, for turns
address book ────────┘
listener ─ handler ─ the agent's host in this process, if there is one
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack

from agent_config import Settings
from agentic.chat.attachments import AttachmentReader
from agentic.chat.service import AgentChannels
from agentic.findings import Findings
from agentic.ids import is_snowflake
from agentic.process.tasks import cancel_and_wait
from agentic.services.context import HostedService, ServiceContext
from agentic.services.handler import AccountHandler
from agentic.services.signal.channels import SIGNAL, SignalChannels
from agentic.services.signal.check import check_signal
from agentic.services.signal.client import SignalClient, SignalFetcher
from agentic.services.signal.contacts import Chats, Contacts, SignalAccount
from agentic.services.signal.envelopes import direct_chat_id
from agentic.services.signal.listener import SignalListener
from agentic.services.signal.settings import SignalSettings
from agentic.services.signal.stores import AddressBook, VanishingMessages
from agentic.services.signal.text_commands import SignalCommands

AGAIN_SECONDS = 5.0  # before a failed listener starts again

log = logging.getLogger(__name__)


class SignalService(HostedService):
    """The accounts of all agents on Signal. It listens only for the agents of this process."""

    info = SIGNAL

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._accounts: dict[str, SignalAccount] = {}
        self._listeners: dict[str, SignalListener] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def check(self, settings: Settings, found: Findings) -> None:
        await check_signal(settings, found)

    async def open(self, context: ServiceContext) -> None:
        """Open the accounts, after reading the addresses that earlier runs saved."""
        self._context, services = context, context.services
        settings, names = SignalSettings.of(services.settings), services.agents.roster.names
        client = await self._stack.enter_async_context(SignalClient(settings.signal_api_url))
        files = SignalFetcher(client)
        agents = {number: (agent, names.get(agent, agent)) for agent, number in settings.signal_numbers.items()}
        self._contacts = Contacts(agents, allowed=settings.signal_allowed, linked=settings.linked_people)
        self._chats, attachments = Chats(self._contacts), AttachmentReader(files)
        self._book = AddressBook(services.state.link, self._contacts, self._chats, services.chats.transcripts)
        await self._book.restore()
        self._stack.push_async_callback(self._book.aclose)
        for agent, number in settings.signal_numbers.items():
            services.chats.directory.learn_also(agent, self._contacts.ours(number).person)
            shared = self._contacts, self._chats, services.chats.transcripts
            self._accounts[agent] = SignalAccount(number, client, *shared, files, attachments)

    def listen(self) -> None:
        context, services = self._context, self._context.services
        theme = SignalSettings.of(services.settings).signal_theme
        for agent in (agent for agent in context.accounts if agent in self._accounts):
            account, channels = self._accounts[agent], self._channels_of(agent)
            commands = SignalCommands(agent, account, services, channels)
            handler = AccountHandler(agent, context, channels, commands, theme)
            listener = SignalListener(account, handler, vanishing=VanishingMessages(services.state.link))
            self._listeners[agent] = listener
            listening = _listen(agent, listener, handler)
            self._tasks.append(context.start(listening, f"{agent}: Signal", essential=False))

    async def stop_listening(self) -> None:
        """Stop listening. Messages that arrive while no process listens are probably lost: in json-rpc mode the server
        delivers them only to open connections, and doesn't keep them."""
        await cancel_and_wait(*self._tasks)

    async def aclose(self) -> None:
        await self._stack.aclose()

    def owns(self, channel_id: int) -> bool:
        return self._chats.get(channel_id) is not None

    def channels_for(self, agent: str) -> AgentChannels | None:
        return self._channels_of(agent) if agent in self._accounts else None

    def _channels_of(self, agent: str) -> SignalChannels:
        return SignalChannels(self._accounts[agent], self._context.services, lease=self._context.lease_of(agent))

    def health(self) -> Mapping[str, bool]:
        return {agent: one.receiver.is_connected for agent, one in self._listeners.items()}

    def chat_names(self) -> Mapping[int, str]:
        return {chat.channel_id: chat.name for chat in self._chats.all()}

    def other_ids(self, person: int) -> Collection[int]:
        return self._contacts.other_ids(person)

    def private_chats(self, person: int) -> Collection[int]:
        """Return the chats that a person has or had, including chats that weren't used since the start."""
        people, numbers = {person, *self.other_ids(person)}, [account.number for account in self._accounts.values()]
        made = {direct_chat_id(number, each) for number in numbers for each in people if not is_snowflake(each)}
        return made | {chat.channel_id for chat in self._chats.all() if chat.person in people}

    async def forget(self, person: int) -> None:
        await self._book.forget(person)

    def export(self, person: int) -> Sequence[Mapping[str, str | None]]:
        """Return a person's address, under one of their ids alone."""
        who = self._contacts.of(person)
        if who is None or who.person != person:
            return ()
        return ({"name": who.name, "number": who.number, "account": who.account},)

    async def knows_history(self, channel_id: int) -> bool:
        """Return whether the chat has a transcript: there is no other history on Signal."""
        return self._context.services.chats.transcripts.known(channel_id) is not None


async def _listen(agent: str, listener: SignalListener, handler: AccountHandler) -> None:
    try:
        while True:
            try:
                await listener.run()
            except Exception:  # the outermost edge of the task: one account must not stop the others
                log.exception("%s: listening on Signal failed; trying again in %.0f s", agent, AGAIN_SECONDS)
            await asyncio.sleep(AGAIN_SECONDS)
    finally:
        await handler.aclose()
