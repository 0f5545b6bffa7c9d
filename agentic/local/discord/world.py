"""The records of the world (guilds, channels, people, bots), their permissions and ids, and Discord's errors.

The records are plain and mutable. World publishes their changes to its listeners, payloads.py converts them into
Discord's JSON. Ids are ints here and strings on the wire. Times are unix seconds.

https://discord.com/developers/docs/topics/permissions#permission-hierarchy
https://discord.com/developers/docs/topics/opcodes-and-status-codes#json-json-error-codes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar

from cachetools import TTLCache

from agentic.ids import id_at
from agentic.local.discord.dialogs import TOKEN_SECONDS, Interaction

T = TypeVar("T")

TEXT, DM, PUBLIC_THREAD, PRIVATE_THREAD = 0, 1, 11, 12
THREADS = frozenset({10, PUBLIC_THREAD, PRIVATE_THREAD})

DEFAULT, PINS_ADD, THREAD_CREATED, REPLY, COMMAND_REPLY, THREAD_STARTER = 0, 6, 18, 19, 20, 21
POLL_RESULT = 46

ADMINISTRATOR, ADD_REACTIONS, VIEW_CHANNEL = 1 << 3, 1 << 6, 1 << 10
SEND_MESSAGES, MANAGE_MESSAGES, EMBED_LINKS, ATTACH_FILES = 1 << 11, 1 << 13, 1 << 14, 1 << 15
READ_MESSAGE_HISTORY, MENTION_EVERYONE, MANAGE_WEBHOOKS = 1 << 16, 1 << 17, 1 << 29
USE_APPLICATION_COMMANDS, MANAGE_THREADS, CREATE_PUBLIC_THREADS = 1 << 31, 1 << 34, 1 << 35
CREATE_PRIVATE_THREADS, SEND_MESSAGES_IN_THREADS, PIN_MESSAGES = 1 << 36, 1 << 38, 1 << 51
SEND_POLLS = 1 << 49

ALL = (1 << 53) - 1
PEOPLE = VIEW_CHANNEL | SEND_MESSAGES | SEND_MESSAGES_IN_THREADS | READ_MESSAGE_HISTORY | ADD_REACTIONS
PEOPLE |= ATTACH_FILES | EMBED_LINKS | CREATE_PUBLIC_THREADS | USE_APPLICATION_COMMANDS | SEND_POLLS
"""The permissions of @everyone in a usual server."""
BOTS = PEOPLE | MANAGE_MESSAGES | MANAGE_WEBHOOKS | MANAGE_THREADS | PIN_MESSAGES
"""The permissions of an invited bot's own role."""

NONCE_SECONDS = 300.0
MAX_NONCES = 10_000

UNKNOWN_CODES = {
    "Channel": 10003,
    "Guild": 10004,
    "Member": 10007,
    "Message": 10008,
    "Webhook": 10015,
    "interaction": 10062,
}


@dataclass(slots=True)
class User:
    """A person, a bot, or (only as a message's author) a webhook."""

    id: int
    username: str
    global_name: str | None = None
    bot: bool = False
    avatar: str | None = None

    @property
    def display_name(self) -> str:
        return self.global_name or self.username


@dataclass(slots=True)
class Role:
    id: int
    name: str
    permissions: int = 0
    position: int = 0
    mentionable: bool = False
    bot_id: int | None = None  # set for the managed role of an invited bot


@dataclass(slots=True)
class Overwrite:
    """A channel's exception for a role (kind 0) or a member (kind 1)."""

    id: int
    kind: int
    allow: int = 0
    deny: int = 0


@dataclass(slots=True)
class Member:
    user: User
    roles: list[int] = field(default_factory=list)
    joined_at: float = 0.0


@dataclass(slots=True)
class Attachment:
    id: int
    filename: str
    content: bytes
    media_type: str
    channel_id: int
    description: str | None = None
    width: int | None = None
    height: int | None = None


@dataclass(slots=True)
class Poll:
    """A poll that a bot made: `votes` are each answer's voters. `ends`: in unix seconds."""

    question: dict[str, Any]
    answers: list[dict[str, Any]]
    ends: float
    allow_multiselect: bool = False
    votes: dict[int, list[int]] = field(default_factory=dict)  # answer id → user ids
    ended: bool = False


@dataclass(slots=True)
class MessageBody:
    """The fields that a message has before it is posted."""

    content: str = ""
    _: KW_ONLY
    type: int = DEFAULT
    embeds: list[dict[str, Any]] = field(default_factory=list)
    components: list[dict[str, Any]] = field(default_factory=list)
    reference: dict[str, Any] | None = None
    nonce: str | int | None = None
    tts: bool = False
    flags: int = 0
    webhook_id: int | None = None
    application_id: int | None = None
    interaction: dict[str, Any] | None = None
    poll: Poll | None = None
    more: dict[str, Any] = field(default_factory=dict)  # sticker_items, poll, message_snapshots: kept as they come


@dataclass(slots=True, kw_only=True)
class Message(MessageBody):
    id: int
    channel_id: int
    author: User
    timestamp: float
    attachments: list[Attachment] = field(default_factory=list)
    mentions: list[int] = field(default_factory=list)
    mention_roles: list[int] = field(default_factory=list)
    mention_everyone: bool = False
    reactions: dict[tuple[int | None, str], list[int]] = field(default_factory=dict)  # (custom id, name) -> user ids
    super_reactions: set[tuple[tuple[int | None, str], int]] = field(default_factory=set)  # which of them: emoji, user
    edited: float | None = None
    pinned_at: float | None = None
    thread_id: int | None = None


@dataclass(slots=True)
class Channel:
    """A text channel, a thread, or a DM (guild_id None). parent_id: a thread's channel, or a channel's category."""

    id: int
    guild_id: int | None
    name: str
    type: int = TEXT
    topic: str | None = None
    position: int = 0
    parent_id: int | None = None
    overwrites: dict[int, Overwrite] = field(default_factory=dict)
    recipients: list[int] = field(default_factory=list)
    owner_id: int | None = None
    archived: bool = False
    locked: bool = False
    archive_minutes: int = 1440  # without a message until Discord archives a thread
    created_at: float = 0.0
    archive_changed_at: float = 0.0
    thread_members: list[int] = field(default_factory=list)
    messages: dict[int, Message] = field(default_factory=dict)  # oldest first
    last_message_id: int | None = None

    @property
    def is_thread(self) -> bool:
        return self.type in THREADS


@dataclass(slots=True)
class Guild:
    """`roles` always has @everyone under the guild's own id. `channels` has text channels and threads."""

    id: int
    name: str
    owner_id: int
    roles: dict[int, Role] = field(default_factory=dict)
    channels: dict[int, Channel] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    emojis: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class BotApplication:
    """An application of the developer portal. key is its name in tests and in the table of agents ("claude").

    `message_content` is the portal's switch for that intent. `commands` is by guild id; None has the global commands.
    `without_commands`: guilds whose invitation lacks the scope applications.commands.
    """

    id: int
    key: str
    token: str
    user: User
    message_content: bool = True
    commands: dict[int | None, list[dict[str, Any]]] = field(default_factory=dict)
    without_commands: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Webhook:
    id: int
    channel_id: int
    guild_id: int
    name: str
    token: str
    creator_id: int | None = None
    application_id: int | None = None


@dataclass(slots=True)
class Event:
    """A gateway event, for DMs without a guild_id. If `only` is set, only this bot gets it."""

    name: str
    data: dict[str, Any]
    guild_id: int | None = None
    channel: Channel | None = None
    only: int | None = None


class World:
    """All records by id, many by name, and their changes."""

    def __init__(self, clock: Callable[[], float], ids: Mapping[str, int] = MappingProxyType({})) -> None:
        """`ids` by kind and name ("channel:debate"); other records get new ones."""
        self.clock = clock
        self._ids = dict(ids)
        self._last_id = max(ids.values(), default=0)
        self.cdn = ""  # where attachments are served; set when the server knows its port
        self.addresses_expire: float | None = None  # when the attachments' next addresses expire, in unix seconds
        self.guilds: dict[int, Guild] = {}
        self.users: dict[int, User] = {}
        self.direct: dict[int, Channel] = {}
        self.apps: dict[str, BotApplication] = {}  # by key
        self.webhooks: dict[int, Webhook] = {}
        self.history_limit = 2000  # messages that a channel keeps; the oldest are removed first
        self.attachments: dict[int, Attachment] = {}
        self.interactions: dict[str, Interaction] = {}  # by token
        self.listeners: list[Callable[[Event], None]] = []  # each gets every event immediately, in order
        self.nonces: TTLCache[tuple[int, str], Message] = TTLCache(MAX_NONCES, NONCE_SECONDS, timer=clock)  # by author

    def new_id(self) -> int:
        """Make an id. It's larger than all before, even if the clock steps back: histories are ordered by id."""
        self._last_id = max(id_at(self.clock()), self._last_id + 1)
        return self._last_id

    def id_for(self, kind: str, name: str) -> int:
        """Return the id for a kind and name; the second record of a name gets a new id."""
        return self._ids.pop(f"{kind}:{name}", None) or self.new_id()

    @property
    def guild(self) -> Guild:
        return next(iter(self.guilds.values()))

    def channels(self) -> Iterator[Channel]:
        for guild in self.guilds.values():
            yield from guild.channels.values()
        yield from self.direct.values()

    def find_channel(self, channel_id: int) -> Channel | None:
        for guild in self.guilds.values():
            if channel_id in guild.channels:
                return guild.channels[channel_id]
        return self.direct.get(channel_id)

    def channel(self, which: int | str) -> Channel:
        """Return a channel by id or name. Raises KeyError with the known names."""
        if isinstance(which, int):
            found = self.find_channel(which)
        else:
            found = next((c for c in self.channels() if c.name == which.lstrip("#")), None)
        return _found(found, "channel", which, (c.name for c in self.channels()))

    def user(self, which: int | str) -> User:
        """Return a user by id, bot key, user name, or display name. Raises KeyError with the known names."""
        if isinstance(which, int):
            return _found(self.users.get(which), "user", which, (u.username for u in self.users.values()))
        if which in self.apps:
            return self.apps[which].user
        found = next((u for u in self.users.values() if which in (u.username, u.global_name)), None)
        return _found(found, "user", which, [*self.apps, *(u.username for u in self.users.values() if not u.bot)])

    def role(self, which: int | str) -> Role:
        """Return a role of any guild by id or name. Raises KeyError with the known names."""
        roles = [role for guild in self.guilds.values() for role in guild.roles.values()]
        return _found(next((r for r in roles if which in (r.id, r.name)), None), "role", which, (r.name for r in roles))

    def app(self, which: int | str) -> BotApplication:
        found = next((a for a in self.apps.values() if which in (a.key, a.id)), None)
        return _found(found, "bot", which, self.apps)

    def app_by_token(self, token: str) -> BotApplication | None:
        return next((a for a in self.apps.values() if a.token == token), None)

    def permissions_of(self, user_id: int, channel: Channel) -> int:
        """Return a user's permission bits in a channel, 0 without membership. In a DM, recipients have all."""
        if channel.guild_id is None:
            return ALL if user_id in channel.recipients else 0
        guild = self.guilds[channel.guild_id]
        base = guild_permissions(guild, user_id)
        if base & ADMINISTRATOR or not base:
            return base
        overwrites = channel.overwrites
        if channel.is_thread:
            overwrites = guild.channels.get(channel.parent_id or 0, channel).overwrites
        roles = Overwrite(0, 0)  # together
        for role_id in guild.members[user_id].roles:
            if (overwrite := overwrites.get(role_id)) is not None:
                roles.allow |= overwrite.allow
                roles.deny |= overwrite.deny
        for step in (overwrites.get(guild.id), roles, overwrites.get(user_id)):
            if step is not None:
                base = base & ~step.deny | step.allow
        return base

    def emit(
        self,
        name: str,
        data: dict[str, Any],
        channel: Channel | None = None,
        *,
        guild_id: int | None = None,
        only: int | None = None,
    ) -> None:
        """Publish an event. `guild_id` is only needed without a channel; `only` is the only bot that gets it."""
        event = Event(name, data, channel.guild_id if channel is not None else guild_id, channel, only)
        for listener in self.listeners:
            listener(event)

    def remember(self, channel: Channel, message: Message) -> None:
        """Add a new message to its channel; beyond history_limit, drop the oldest with its files."""
        channel.messages[message.id] = message
        channel.last_message_id = message.id
        for attachment in message.attachments:
            self.attachments[attachment.id] = attachment
        while len(channel.messages) > self.history_limit:
            self.forget(channel, next(iter(channel.messages)))

    def forget(self, channel: Channel, message_id: int) -> None:
        for attachment in channel.messages.pop(message_id).attachments:
            self.attachments.pop(attachment.id, None)

    def remember_interaction(self, interaction: Interaction) -> None:
        """Keep an interaction by its token; drop expired ones, with the files of their hidden answers."""
        oldest = self.clock() - TOKEN_SECONDS
        for expired in [one for one in self.interactions.values() if one.created < oldest]:
            del self.interactions[expired.token]
            for answer in expired.hidden.values():
                for file in answer.get("attachments") or ():
                    self.attachments.pop(int(file["id"]), None)
        self.interactions[interaction.token] = interaction


def _found(found: T | None, kind: str, which: int | str, known: Iterable[str]) -> T:
    if found is None:
        raise KeyError(f"no {kind} {which!r}; there are: {', '.join(sorted(known))}")
    return found


def guild_permissions(guild: Guild, user_id: int) -> int:
    """Return the bits of a member's roles, before a channel's overwrites."""
    member = guild.members.get(user_id)
    if member is None:
        return 0
    if guild.owner_id == user_id:
        return ALL
    bits = guild.roles[guild.id].permissions
    for role_id in member.roles:
        bits |= guild.roles[role_id].permissions
    return ALL if bits & ADMINISTRATOR else bits


def iso(unix_seconds: float) -> str:
    """Return a timestamp as Discord writes it: 2026-11-20T11:32:53.123000+00:00."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="microseconds")


class ApiError(Exception):
    """A request that Discord would refuse, with the HTTP status and the JSON object of the answer."""

    def __init__(self, status: int, code: int, message: str, **extra: Any) -> None:
        super().__init__(f"{status} ({code}): {message}")
        self.status = status
        self.body: dict[str, Any] = {"message": message, "code": code, **extra}


def unknown(what: str) -> ApiError:
    """Make the 404 for a key of UNKNOWN_CODES, such as "Channel"."""
    return ApiError(404, UNKNOWN_CODES[what], f"Unknown {what}")
