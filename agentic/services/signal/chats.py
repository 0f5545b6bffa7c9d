"""The chats of our accounts: a person's with one of them, or a group's, by the channel's number in the program."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from agentic.chat.directory import NOBODY, clean_name
from agentic.services.signal.contacts import Contact, Contacts, shown_name
from agentic.services.signal.ids import direct_chat_id, group_chat_id

MOST = 10_000  # chats that are known at a time
GROUP = "group."  # before a group's id, in requests


def group_recipient(internal_id: str) -> str:
    """A group as requests name it: the base64 of its internal id, which is base64 itself."""
    return GROUP + base64.b64encode(internal_id.encode()).decode()


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat. `person` is the base number of the person in a direct one; `accounts` are those of ours in it."""

    channel_id: int
    name: str
    accounts: frozenset[str]
    person: int | None = None
    group: str | None = None  # the internal id

    @property
    def is_group(self) -> bool:
        return self.group is not None


class Chats:
    """The chats that were heard of, or written to, the last MOST of them."""

    def __init__(self, contacts: Contacts) -> None:
        self._contacts = contacts
        self._chats: dict[int, Chat] = {}
        self._listeners: list[Callable[[Chat], None]] = []
        self._forgotten: set[int] = set()

    def get(self, channel_id: int) -> Chat | None:
        return self._chats.get(channel_id)

    def of_account(self, account: str) -> list[Chat]:
        """The chats in which this account of ours is."""
        return [chat for chat in self._chats.values() if account in chat.accounts]

    def direct(self, account: str, who: Contact) -> Chat:
        """The chat that a person has with this account."""
        channel_id = direct_chat_id(account, who.base)
        return self._note(Chat(channel_id, shown_name(who), frozenset({account}), person=who.base))

    def group(self, account: str, internal_id: str, name: str | None = None) -> Chat:
        """A group; without a name it keeps the known one."""
        channel_id = group_chat_id(internal_id)
        known = self._chats.get(channel_id)
        shown = clean_name(name) if name else NOBODY
        if shown == NOBODY:
            shown = known.name if known is not None else "a group"
        accounts = known.accounts | {account} if known is not None else frozenset({account})
        return self._note(Chat(channel_id, shown, accounts, group=internal_id))

    def all(self) -> list[Chat]:
        return [*self._chats.values()]

    def forget(self, people: Collection[int]) -> Collection[int]:
        """The direct chats of these people, by base number. One that is used again is noted as new."""
        found = {chat.channel_id for chat in self._chats.values() if chat.person in people}
        self._forgotten |= found
        return found

    def recipient(self, chat: Chat) -> str | None:
        """The chat as requests name it; None where its person is no longer known."""
        if chat.group is not None:
            return group_recipient(chat.group)
        who = self._contacts.of(chat.person) if chat.person is not None else None
        return who.address if who is not None else None

    def person(self, chat: Chat) -> Contact | None:
        """The person of a direct chat."""
        return self._contacts.of(chat.person) if chat.person is not None else None

    def on_change(self, listener: Callable[[Chat], None]) -> None:
        """`listener` is called with each chat that is new or has changed; it must not raise."""
        self._listeners.append(listener)

    def restore(self, kept: Iterable[Chat]) -> None:
        """Takes back chats of an earlier run; what is known already stays."""
        for chat in kept:
            known = self._chats.get(chat.channel_id)
            self._chats[chat.channel_id] = (
                chat if known is None else replace(known, accounts=known.accounts | chat.accounts)
            )

    def _note(self, chat: Chat) -> Chat:
        known = self._chats.pop(chat.channel_id, None)
        self._chats[chat.channel_id] = chat  # who was heard of last stands last
        if len(self._chats) > MOST:
            del self._chats[next(iter(self._chats))]
        if known != chat or chat.channel_id in self._forgotten:
            self._forgotten.discard(chat.channel_id)
            for listener in self._listeners:
                listener(chat)
        return chat
