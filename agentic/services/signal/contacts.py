"""People on Signal, the chats our accounts have with them, and what an account's listener, views, and sinks share."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from agentic.chat.attachments import AttachmentReader
from agentic.chat.directory import NOBODY, clean_name
from agentic.chat.transcript import Transcript, Transcripts
from agentic.services.signal.client import SignalClient, SignalFetcher
from agentic.services.signal.envelopes import (
    Address,
    direct_chat_id,
    group_chat_id,
    mask_address,
    message_id,
    person_id,
    timestamp_of,
)

EVERYBODY = "all"
MOST = 10_000  # people known at a time, in addition to people in the settings
GROUP = "group."  # before a group's id, in requests

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Contact:
    """A person, or an account of ours (`agent` says whose).

    `base` never changes: it is made from the first address that was known, preferably the account id. `person` is the
    id the program knows them by. A person linked to a Discord account has that account's id, so that budgets, profiles,
    memory, and deletion apply to both services.
    """

    base: int
    number: str | None
    account: str | None
    name: str
    agent: str | None = None
    linked: int | None = None
    former: frozenset[str] = frozenset()  # phone numbers they had, and were the first to have

    @property
    def person(self) -> int:
        return self.base if self.linked is None else self.linked

    @property
    def address(self) -> str:
        found = self.number or self.account
        assert found is not None, "a contact has one address at least"
        return found


class Contacts:
    """All known people: phone number ↔ account id ↔ id in the program ↔ shown name.

    Signal names a person by phone number, by account id, or by both; all of them lead to one contact. If a message has
    two addresses that belonged to different contacts, the contacts are joined. The account id decides: a person may
    change their phone number, and somebody with a different account may get the old one. What the settings say about a
    phone number stays with the first person who had it (`former`). A later owner may write if the number is allowed,
    but gets nothing else of the first owner's.

    `accounts` are our own: phone number → (agent, shown name). `linked` and `allowed` name people by phone number or
    account id; `allowed` may be EVERYBODY alone. Of people who aren't in the settings, the most recent are kept.
    """

    def __init__(
        self,
        accounts: Mapping[str, tuple[str, str]],
        *,
        allowed: Collection[str] = (),
        linked: Mapping[str, int] | None = None,
    ) -> None:
        self._allowed, self._linked = frozenset(allowed), dict(linked or {})
        self._by_number: dict[str, Contact] = {}
        self._by_account: dict[str, Contact] = {}
        self._by_id: dict[int, Contact] = {}
        self._strangers: dict[Contact, None] = {}  # people who aren't in the settings, the most recent last
        self._listeners: list[Callable[[Contact], None]] = []
        self._forgotten: set[int] = set()
        for number, (agent, name) in accounts.items():
            ours = self.learn(Address(number), name)
            ours.agent = agent
            self._note_stranger(ours)

    def find(self, address: Address) -> Contact | None:
        if address.account and (found := self._by_account.get(address.account)) is not None:
            return found
        by_number = self._by_number.get(address.number) if address.number else None
        if by_number is None or by_number.agent is not None or not (address.account and by_number.account):
            return by_number
        return None  # somebody else has the phone number now

    def of(self, person: int) -> Contact | None:
        """Return the contact with this id, which may be their Discord account's."""
        return self._by_id.get(person)

    def ours(self, number: str) -> Contact:
        """Return the contact of one of our accounts. Raises KeyError for any other number."""
        return self._by_number[number]

    def agents(self) -> list[Contact]:
        return [one for one in self._by_number.values() if one.agent is not None]

    def is_allowed(self, who: Contact) -> bool:
        return who.agent is not None or EVERYBODY in self._allowed or self._is_named(who)

    def _is_named(self, who: Contact) -> bool:
        return not self._allowed.isdisjoint({who.number, who.account, *who.former})

    def allows(self, address: Address) -> bool:
        """Return whether an address is an allowed person's, without creating a contact for it."""
        if EVERYBODY in self._allowed or not self._allowed.isdisjoint((address.number, address.account)):
            return True
        known = self.find(address)
        return known is not None and self.is_allowed(known)

    def base_of(self, address: Address) -> int:
        """Return a person's `base`, even for an unknown person, or 0 for an empty address."""
        if (known := self.find(address)) is not None:
            return known.base
        text = address.account or address.number
        return person_id(text) if text else 0

    def author_of(self, message: int) -> Contact | None:
        """Return the author of a message, found by the message's id."""
        timestamp = timestamp_of(message)
        return next((one for one in {*self._by_id.values()} if message_id(one.base, timestamp) == message), None)

    def learn(self, address: Address, name: str | None = None) -> Contact:
        """Return the contact with this address, and add what is new. Raises ValueError for an empty address."""
        if not address:
            raise ValueError("an address without number and account")
        if (who := self._find_or_join(address)) is None:
            text = address.account or address.number or ""
            base, tries = person_id(text), 0
            while base in self._by_id:  # an earlier owner of the phone number may have this id
                tries += 1
                base = person_id(f"{text} {tries}")
            who = Contact(base, None, None, "")
        before = (who.number, who.account, who.name, who.linked, who.former)
        if address.number and who.number and address.number != who.number and who.agent is None:
            self._take_number_from(who)
        who.number, who.account = who.number or address.number, address.account or who.account
        if who.agent is None and name and (cleaned := clean_name(name)) != NOBODY:
            who.name = cleaned  # an agent keeps its own name, whatever others call it
        if self._linked:  # only by this person's own addresses: not by a phone number that was somebody else's before
            number = {who.number} if who.number and self._is_first_owner(who, who.number) else set()
            own = {*number, *who.former, *({who.account} if who.account else ())}
            who.linked = next((self._linked[one] for one in own if one in self._linked), None)
        self._index(who)
        self._note_stranger(who)
        forgotten = who.base in self._forgotten
        self._forgotten.discard(who.base)
        if forgotten or before != (who.number, who.account, who.name, who.linked, who.former):
            self._report(who)
        return who

    def _report(self, who: Contact) -> None:
        for listener in self._listeners:
            listener(who)

    def _take_number_from(self, who: Contact) -> None:
        """Take a contact's phone number away. The number's first owner keeps what the settings say about it."""
        if who.number is None:
            return
        if self._by_number.get(who.number) is who:
            del self._by_number[who.number]
        if self._is_first_owner(who, who.number):
            who.former |= {who.number}
        who.number = None

    def _is_first_owner(self, who: Contact, number: str) -> bool:
        return not any(number in one.former for one in self._by_id.values() if one is not who)

    def _find_or_join(self, address: Address) -> Contact | None:
        """Return the known contact with this address. If two contacts turn out to be one person, join them."""
        by_account = self._by_account.get(address.account) if address.account else None
        by_number = self._by_number.get(address.number) if address.number else None
        if by_number is None or by_number is by_account:
            return by_account
        if address.account is None or (by_account is None and by_number.account is None):
            return by_number
        if by_number.agent is not None and by_number.account is not None:  # our account was registered again
            return by_number
        if by_number.account is not None:  # the phone number has passed to somebody else
            self._take_number_from(by_number)
            self._report(by_number)
            return by_account
        assert by_account is not None
        # an agent keeps its id: prompts and permissions depend on it
        kept, gone = (by_number, by_account) if by_number.agent is not None else (by_account, by_number)
        kept.name, kept.former = kept.name or gone.name, kept.former | gone.former
        self._by_id[gone.base] = kept
        self._strangers.pop(gone, None)
        number = mask_address(by_number.number or "")
        log.debug("Signal: joined two contacts of one person with the phone number %s", number)
        return kept

    def _index(self, who: Contact) -> None:
        if who.number:
            self._by_number[who.number] = who
        if who.account:
            self._by_account[who.account] = who
        self._by_id[who.base] = who
        self._by_id[who.person] = who

    def _note_stranger(self, who: Contact) -> None:
        self._strangers.pop(who, None)
        if who.agent is not None or who.linked is not None or self._is_named(who):
            return
        self._strangers[who] = None
        if len(self._strangers) > MOST:
            gone = set(islice(self._strangers, MOST // 10))  # many at once, because removing rebuilds all the maps
            self._strangers = {one: None for one in self._strangers if one not in gone}
            self._by_number = {name: one for name, one in self._by_number.items() if one not in gone}
            self._by_account = {name: one for name, one in self._by_account.items() if one not in gone}
            self._by_id = {number: one for number, one in self._by_id.items() if one not in gone}

    def other_ids(self, person: int) -> Collection[int]:
        """Return the person's other ids: of their addresses, linked or not."""
        named = {person_id(name) for name, account in self._linked.items() if account == person}
        return (named | self._numbers_of(person)) - {person}

    def forget(self, person: int) -> Collection[int]:
        """Return the ids under which this person is stored. The bots still answer them; if they write again, they are
        reported as new."""
        found = self._numbers_of(person)
        self._forgotten |= found
        return found

    def _numbers_of(self, person: int) -> set[int]:
        """Return all ids of the person, including joined contacts and linked addresses."""
        here = {who for who in self._by_id.values() if person in (who.base, who.person)} | {self._by_id.get(person)}
        return {number for number, who in self._by_id.items() if who in here and who.agent is None}

    def on_change(self, listener: Callable[[Contact], None]) -> None:
        """Call `listener` with each contact that is new or has changed. It must not raise."""
        self._listeners.append(listener)

    def restore(self, kept: Iterable[tuple[int, str]]) -> None:
        """Restore contacts of an earlier run, as (base, text) of `to_text`, so that people keep their ids even if
        another of their addresses comes first this time. Unreadable contacts are skipped."""
        found: list[tuple[Contact, str]] = []
        for base, text in kept:
            try:
                number, account, name, *more = json.loads(text)
                address = Address.of(number, account)
                former = frozenset(one for text in more[0] if (one := Address.of(text).number)) if more else frozenset()
            except (ValueError, TypeError, AttributeError):
                log.warning("Signal: a saved contact is unreadable; it is skipped")
                continue
            known = self.find(address) if address else None
            if known is not None:
                self._by_id.setdefault(base, known)  # they had this id before two contacts were joined
            elif address and base not in self._by_id:
                if address.number in self._by_number:  # somebody else has the phone number now
                    address = Address(None, address.account)
                self._index(who := Contact(base, address.number, address.account, "", former=former))
                found.append((who, name))
        for who, name in found:  # after the loop, when it is known who had which phone number first
            self.learn(Address(who.number, who.account), name)


def to_text(who: Contact) -> str:
    return json.dumps([who.number, who.account, who.name, sorted(who.former)])


def shown_name(who: Contact) -> str:
    """Return the name for transcripts: the person's own, or "person 123" if it is unknown."""
    return who.name or f"person {who.base % 900 + 100}"


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat. `person` is the other person's `base` in a direct chat; `accounts` are our accounts in the chat."""

    channel_id: int
    name: str
    accounts: frozenset[str]
    person: int | None = None
    group: str | None = None  # the internal id

    @property
    def is_group(self) -> bool:
        return self.group is not None


class Chats:
    """The MOST chats that were used last."""

    def __init__(self, contacts: Contacts) -> None:
        self._contacts = contacts
        self._chats: dict[int, Chat] = {}
        self._listeners: list[Callable[[Chat], None]] = []
        self._forgotten: set[int] = set()

    def get(self, channel_id: int) -> Chat | None:
        return self._chats.get(channel_id)

    def of_account(self, account: str) -> list[Chat]:
        return [chat for chat in self._chats.values() if account in chat.accounts]

    def direct(self, account: str, who: Contact) -> Chat:
        channel_id = direct_chat_id(account, who.base)
        return self._note(Chat(channel_id, shown_name(who), frozenset({account}), person=who.base))

    def group(self, account: str, internal_id: str, name: str | None = None) -> Chat:
        """Return a group. Without `name` it keeps its known name."""
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
        """Return the direct chats of these people (`base` ids). If such a chat is used again, it is reported as new."""
        found = {chat.channel_id for chat in self._chats.values() if chat.person in people}
        self._forgotten |= found
        return found

    def recipient(self, chat: Chat) -> str | None:
        """Return the chat as requests name it, or None if its person is no longer known."""
        if chat.group is not None:
            return group_recipient(chat.group)
        who = self.person(chat)
        return who.address if who is not None else None

    def person(self, chat: Chat) -> Contact | None:
        return self._contacts.of(chat.person) if chat.person is not None else None

    def on_change(self, listener: Callable[[Chat], None]) -> None:
        """Call `listener` with each chat that is new or has changed. It must not raise."""
        self._listeners.append(listener)

    def restore(self, kept: Iterable[Chat]) -> None:
        """Restore chats of an earlier run. Chats that are known already keep their data."""
        for chat in kept:
            known = self._chats.get(chat.channel_id)
            both = chat if known is None else replace(known, accounts=known.accounts | chat.accounts)
            self._chats[chat.channel_id] = both

    def _note(self, chat: Chat) -> Chat:
        known = self._chats.pop(chat.channel_id, None)
        self._chats[chat.channel_id] = chat  # the most recent chat is last
        if len(self._chats) > MOST:
            del self._chats[next(iter(self._chats))]
        if known != chat or chat.channel_id in self._forgotten:
            self._forgotten.discard(chat.channel_id)
            for listener in self._listeners:
                listener(chat)
        return chat


def group_recipient(internal_id: str) -> str:
    """Return a group as requests name it: with its internal id, which is base64 already, in base64 again."""
    return GROUP + base64.b64encode(internal_id.encode()).decode()


@dataclass(frozen=True, slots=True)
class SignalAccount:
    """An agent's account. A process's accounts share everything but the phone number; `attachments` reads through
    `files`."""

    number: str
    client: SignalClient
    contacts: Contacts
    chats: Chats
    transcripts: Transcripts
    files: SignalFetcher
    attachments: AttachmentReader

    @property
    def me(self) -> Contact:
        return self.contacts.ours(self.number)

    def transcript(self, chat: Chat) -> Transcript:
        """Return a chat's transcript. Signal has no history to read, so a transcript has the messages since the start
        and is always complete."""
        transcript = self.transcripts.of(chat.channel_id)
        transcript.is_complete = True
        return transcript
