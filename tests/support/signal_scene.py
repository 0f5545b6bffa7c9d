"""An account of ours on the stand-in for Signal's server: a listener that hears, views, and sinks that send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from support.signal_server import ACCOUNT, ANNA, SignalServer

from agentic.chat.attachments import AttachmentReader
from agentic.chat.directory import Directory
from agentic.chat.service import PersonReaction
from agentic.chat.transcript import Transcripts
from agentic.context.entries import Entry
from agentic.services.signal.channels import SignalSink, SignalView
from agentic.services.signal.client import SignalClient, SignalFetcher
from agentic.services.signal.contacts import Chat, Chats, Contacts, SignalAccount
from agentic.services.signal.envelopes import message_id
from agentic.services.signal.listener import SignalListener
from agentic.services.signal.messages import Heard
from agentic.state.leases import ConditionalLease


class Handler:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.messages: list[Heard] = []
        self.from_agents: list[Heard] = []
        self.edits: list[Heard] = []
        self.deletions: list[tuple[int, tuple[int, ...]]] = []
        self.reactions: list[tuple[PersonReaction, bool]] = []
        self.changed = asyncio.Event()
        self.raises: list[Exception] = []

    async def on_message(self, heard: Heard) -> None:
        self.messages.append(heard)
        self.changed.set()
        if self.raises:
            raise self.raises.pop()

    async def on_agent_message(self, heard: Heard) -> None:
        self.from_agents.append(heard)
        self.changed.set()

    async def on_edit(self, heard: Heard) -> None:
        self.edits.append(heard)
        self.changed.set()

    async def on_delete(self, channel_id: int, message_ids: Collection[int]) -> None:
        self.deletions.append((channel_id, tuple(message_ids)))
        self.changed.set()

    async def on_reaction(self, reaction: PersonReaction, *, given: bool) -> None:
        self.reactions.append((reaction, given))
        self.changed.set()

    async def until(self, condition: Callable[[], object], seconds: float = 30) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


class Claims:
    """Each key is claimed once."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.asked: list[str] = []

    async def first(self, agent: str, key: str) -> bool:
        self.asked.append(key)
        if key in self.keys:
            return False
        self.keys.append(key)
        return True

    async def give_up(self, agent: str, key: str) -> None:
        self.keys.remove(key)


class Scene:
    """One account with its listener at work."""

    def __init__(self, server: SignalServer, account: SignalAccount, listener: SignalListener) -> None:
        self.server, self.account, self.listener = server, account, listener
        self.claims = Claims()
        self.may_post = True

    @property
    def handler(self) -> Handler:
        found = self.listener._handler
        assert isinstance(found, Handler)
        return found

    @property
    def transcripts(self) -> Transcripts:
        return self.account.transcripts

    async def hear(self, text: str | None, who: str = ANNA, **more: Any) -> Heard:
        """A person writes, and the account hears it."""
        before = len(self.handler.messages)
        await self.server.say(text, who, number=self.account.number, **more)
        await self.handler.until(lambda: len(self.handler.messages) > before)
        return self.handler.messages[-1]

    def chat_with(self, who: str = ANNA) -> Chat:
        from agentic.services.signal.envelopes import Address

        return self.account.chats.direct(self.account.number, self.account.contacts.learn(Address(who)))

    def view(self, chat: Chat) -> SignalView:
        return SignalView(self.account, chat)

    def sink(self, chat: Chat, clean: Callable[[str], str] = str) -> SignalSink:
        lease = ConditionalLease(lambda: self.may_post)
        return SignalSink(self.view(chat), lease=lease, claims=self.claims, clean=clean)

    def entries(self, chat: Chat) -> list[Entry]:
        return self.account.transcript(chat).entries()

    def number_of(self, who: str, timestamp: int) -> int:
        """The number of a person's message."""
        from agentic.services.signal.envelopes import Address

        return message_id(self.account.contacts.base_of(Address(who)), timestamp)


@asynccontextmanager
async def signal_scene(
    server: SignalServer,
    *,
    allowed: Collection[str] = ("all",),
    linked: Mapping[str, int] | None = None,
    accounts: Mapping[str, tuple[str, str]] | None = None,
    number: str = ACCOUNT,
    **options: Any,
) -> AsyncIterator[Scene]:
    """A scene whose listener is connected; `options` are the client's."""
    contacts = Contacts(accounts or {ACCOUNT: ("penny", "Penny")}, allowed=allowed, linked=linked)
    async with SignalClient(server.url, **options) as client:
        files = SignalFetcher(client)
        account = SignalAccount(
            number, client, contacts, Chats(contacts), Transcripts(Directory()), files, AttachmentReader(files)
        )
        listener = SignalListener(account, Handler())
        task = asyncio.create_task(listener.run())
        try:
            await server.connected(number)
            yield Scene(server, account, listener)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
