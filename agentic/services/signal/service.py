"""Opens Signal: the client, the accounts of all agents, and a listener for each agent of this process.

settings ─ accounts ─┬─ AgentServices.signal   views and sinks, for turns
address book ────────┘
listener ─ ears ─ the agent's host in this process, if there is one
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial

from agent_config import Settings
from agentic.agent.services import AgentServices
from agentic.chat.attachments import AttachmentReader
from agentic.chat.service import Person, PersonReaction
from agentic.chat.transcript import Transcripts
from agentic.ids import is_snowflake
from agentic.inbox.host import AgentHost
from agentic.process.tasks import BackgroundTasks
from agentic.runtime.process import Runtime
from agentic.runtime.services import stay_known
from agentic.services.signal.channels import SignalChannels
from agentic.services.signal.client import SignalClient, SignalFetcher
from agentic.services.signal.contacts import Chat, Chats, Contact, Contacts, SignalAccount, to_text
from agentic.services.signal.envelopes import direct_chat_id
from agentic.services.signal.listener import SignalListener
from agentic.services.signal.messages import Heard
from agentic.services.signal.stores import AddressBook
from agentic.services.signal.text_commands import TextCommands

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
    book = AddressKeeper(services.ledger.addresses, contacts, chats, services.transcripts)
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
        self._ears: dict[str, SignalEars] = {}
        self._listeners: dict[str, SignalListener] = {}
        for agent in runtime.setup.on_signal:
            account = services.signal[agent]
            self._ears[agent] = ears = SignalEars(agent, account, services, partial(runtime.host_of, agent))
            self._listeners[agent] = SignalListener(account, ears, vanishing=services.ledger.vanishing)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Listen, until `stop`."""
        presence = self._runtime.services.ledger.presence
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
            await self._ears[agent].aclose()


class SignalEars:
    """The SignalHandler of one agent: it hands what its account hears to the agent's host, and decides nothing.

    What people may do there follows from the chat: each person who is heard may stop the agent in it. The owner has
    named those people, and a chat has no moderators of its own. `host` gives the agent's host in this process, None
    while there is none: what is heard then is in the transcript, and answered by the process that acts for the agent.
    """

    def __init__(
        self, agent: str, account: SignalAccount, services: AgentServices, host: Callable[[], AgentHost | None]
    ) -> None:
        self._agent, self._account, self._services, self._host = agent, account, services, host

        def acts() -> bool:
            return (here := host()) is not None and here.holds_lease

        channels = SignalChannels(agent, account, services, may_act=acts)
        self._commands = TextCommands(agent, account, services, channels)

    async def aclose(self) -> None:
        """Nothing is heard any more."""
        await self._commands.aclose()

    async def on_message(self, heard: Heard) -> None:
        """A person wrote in a chat."""
        if (host := self._host()) is None:
            return
        facts, entry = heard.facts, heard.entry
        if entry.order is not None:
            if not facts.mentioned_users and facts.replied_to is None:  # it is for the agents that hear it
                facts = replace(facts, mentioned_users=frozenset((self._account.me.person,)))
            who = Person(facts.author_id, manages_messages=True)
            if await host.on_order(entry.order, facts, lambda: who, entry.created_at):
                return
        if await self._commands.answered(heard):
            return
        await host.on_message(facts, self._services.settings.signal_theme)

    async def on_agent_message(self, heard: Heard) -> None:
        """Another agent of ours wrote in a group."""
        if (host := self._host()) is not None:
            theme = self._services.settings.signal_theme
            await host.on_bot_message(heard.facts.channel_id, heard.facts.message_id, theme)

    async def on_edit(self, heard: Heard) -> None:
        """A person edited a message: a turn that is about it reads it again by itself."""

    async def on_delete(self, chat: Chat, message_ids: Collection[int]) -> None:
        """Messages were deleted."""
        self._services.gateway_notes.deleted(chat.channel_id, message_ids)

    async def on_reaction(self, chat: Chat, reaction: PersonReaction, *, given: bool) -> None:
        """A person gave a reaction, or took one back."""
        self._services.gateway_notes.reacted(
            self._agent, chat.channel_id, reaction.message_id, reaction.who.user_id, reaction.emoji, given=given
        )
        if given and (host := self._host()) is not None:
            await host.on_reaction(replace(reaction, who=Person(reaction.who.user_id, manages_messages=True)))


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
        """Remove a person's addresses and chats, and their words from the transcripts. Raises RedisAway."""
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
