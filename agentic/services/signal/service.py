"""Opens Signal: the client, the accounts of all agents, and a listener for each agent of this process.

settings ─ accounts ─┬─ AgentServices.signal   views and sinks, for turns
address book ────────┘
listener ─ handler ─ the agent's host in this process, if there is one
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial

from agent_config import Settings
from agentic.agent.services import AgentServices
from agentic.chat.attachments import AttachmentReader
from agentic.chat.transcript import Transcripts
from agentic.ids import is_snowflake
from agentic.process.tasks import BackgroundTasks
from agentic.runtime.process import Runtime
from agentic.runtime.services import stay_known
from agentic.services.signal.client import SignalClient, SignalFetcher
from agentic.services.signal.contacts import Chat, Chats, Contact, Contacts, SignalAccount, to_text
from agentic.services.signal.envelopes import direct_chat_id
from agentic.services.signal.listener import SignalHandler, SignalListener
from agentic.services.signal.stores import AddressBook, VanishingMessages

AGAIN_SECONDS = 5.0  # until a listener that failed begins again

log = logging.getLogger(__name__)


async def open_accounts(
    settings: Settings, services: AgentServices, stack: AsyncExitStack
) -> Mapping[str, SignalAccount]:
    """Open the accounts by agent; the stack closes what they share. The addresses of earlier runs are read first."""
    if not settings.numbers:
        return {}
    client = await stack.enter_async_context(SignalClient(settings.signal_api_url))
    names, files = services.roster.names, SignalFetcher(client)
    accounts = {number: (agent, names.get(agent, agent)) for agent, number in settings.numbers.items()}
    contacts = Contacts(accounts, allowed=settings.signal_allowed, linked=settings.linked_people)
    chats, attachments = Chats(contacts), AttachmentReader(files)
    book = AddressKeeper(AddressBook(services.state.link), contacts, chats, services.transcripts)
    await book.restore()
    stack.push_async_callback(book.aclose)
    services.forgetting.also.append(book.forget)
    services.forgetting.other_ids.append(contacts.other_ids)

    def direct_chats(person: int) -> set[int]:
        """The chats that a person has, or had, with our accounts, also those not heard of since the start."""
        people = {person, *contacts.other_ids(person)}
        made = {direct_chat_id(account, each) for account in accounts for each in people if not is_snowflake(each)}
        return made | {chat.channel_id for chat in chats.all() if chat.person in people}

    services.forgetting.private_chats.append(direct_chats)
    for agent, number in settings.numbers.items():
        services.directory.learn_also(agent, contacts.ours(number).person)
    return {
        agent: SignalAccount(number, client, contacts, chats, services.transcripts, files, attachments)
        for agent, number in settings.numbers.items()
    }


class SignalLines:
    """The listeners of this process, by agent."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, services = runtime, runtime.services
        self._handlers: dict[str, SignalHandler] = {}
        self._listeners: dict[str, SignalListener] = {}
        for agent in runtime.setup.on_signal:
            account = services.signal[agent]
            self._handlers[agent] = handler = SignalHandler(agent, account, services, partial(runtime.host_of, agent))
            self._listeners[agent] = SignalListener(account, handler, vanishing=VanishingMessages(services.state.link))
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        presence = self._runtime.services.state.coordination.presence
        for agent in self._listeners:
            self._runtime.watch(partial(stay_known, agent, presence), f"{agent}: since when")
        self._tasks = [
            self._runtime.start(self._listen(agent, one), f"{agent}: Signal", essential=False)
            for agent, one in self._listeners.items()
        ]

    async def stop(self) -> None:
        """Listen no more. What comes while no process listens is probably lost: in json-rpc mode the server hands it to
        the connections that are open, and keeps it for nobody."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def connected(self) -> Mapping[str, bool]:
        """Agent → whether its account's connection stands."""
        return {agent: one.receiver.is_connected for agent, one in self._listeners.items()}

    async def _listen(self, agent: str, listener: SignalListener) -> None:
        try:
            while True:
                try:
                    await listener.run()
                except Exception:  # the outermost edge of the task: one account must not end the others
                    log.exception("%s: listening on Signal failed, it begins again in %.0f s", agent, AGAIN_SECONDS)
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            await self._handlers[agent].aclose()


class AddressKeeper:
    """Keeps the addresses of people and chats for later runs: the server lists neither by the program's numbers."""

    def __init__(self, book: AddressBook, contacts: Contacts, chats: Chats, transcripts: Transcripts) -> None:
        self._book, self._contacts, self._chats, self._transcripts = book, contacts, chats, transcripts
        self._writing = BackgroundTasks()

    async def restore(self) -> None:
        """Take back what was known, and note what is new from now on."""
        people, kept = await asyncio.gather(self._book.people(), self._book.chats())
        contacts: list[tuple[int, str]] = []
        for text in people.values():
            with suppress(ValueError, TypeError):
                base, contact = json.loads(text)
                if isinstance(base, int) and isinstance(contact, str):
                    contacts.append((base, contact))
        chats: list[Chat] = []
        for number, text in kept.items():
            with suppress(ValueError, TypeError):
                name, accounts, person, group = json.loads(text)
                if (person is None) != (group is None):
                    chats.append(Chat(number, str(name), frozenset(map(str, accounts)), person=person, group=group))
        self._contacts.restore(contacts)
        self._chats.restore(chats)
        self._contacts.on_change(self._note_person)
        self._chats.on_change(self._note_chat)

    async def forget(self, user_id: int) -> None:
        """Remove a person's addresses and chats, and their words from the transcripts. Raises StateUnavailable."""
        people = self._contacts.forget(user_id)
        own = self._chats.forget(people)
        for chat in self._chats.all():
            transcript = self._transcripts.known(chat.channel_id)  # `of` would create it, and evict another one
            if transcript is None:
                continue
            for entry in transcript.entries():
                if chat.channel_id in own or entry.speaker.id == user_id:
                    transcript.delete(entry.id)
        await self._book.forget({*people, user_id}, own)  # a linked person is kept under the other number

    async def aclose(self) -> None:
        await self._writing.cancel()

    def _note_person(self, who: Contact) -> None:
        if who.agent is None:
            text = json.dumps([who.base, to_text(who)])
            self._writing.start(self._book.note_person(who.person, text), "Signal: a person's address")

    def _note_chat(self, chat: Chat) -> None:
        text = json.dumps([chat.name, sorted(chat.accounts), chat.person, chat.group])
        self._writing.start(self._book.note_chat(chat.channel_id, text), "Signal: a chat's address")
