"""A chat service as the program sees it: messages and reactions as plain values, and the channels of an agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from agentic.chat.attachments import AttachmentReader
from agentic.chat.directory import Directory
from agentic.chat.outlet import ChannelView, Outlet, ServiceInfo
from agentic.chat.transcript import Transcripts
from agentic.process.redaction import Redactor
from agentic.state.silence import ChannelRef


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """A message without its text; ids of messages, users, roles, channels, and servers. Without a server it is a direct
    message, unless it is in a `group`: a chat of several people on a service without servers."""

    message_id: int = 0
    author_id: int
    by_person: bool
    author_roles: frozenset[int] = frozenset()
    guild_id: int | None
    group: bool = False
    channel_id: int
    parent_id: int | None = None  # of a thread
    mentioned_users: frozenset[int] = frozenset()
    mentioned_roles: frozenset[int] = frozenset()
    replied_to: int | None = None  # the author of the message that it replies to

    @property
    def is_private(self) -> bool:
        return self.guild_id is None and not self.group


@dataclass(frozen=True, slots=True)
class Person:
    user_id: int
    roles: frozenset[int] = frozenset()
    manages_messages: bool = False
    manages_guild: bool = False
    name: str = ""  # as the server shows it; "" if unknown
    has_left: bool = False  # the server; bots only learn it when they look


@dataclass(frozen=True, slots=True)
class PersonReaction:
    who: Person
    channel_id: int
    message_id: int
    author: int
    emoji: str


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    channel_id: int
    name: str
    theme: str
    guild_id: int | None = None
    parent_id: int | None = None
    group: bool = False


class ReactionView(ChannelView, Protocol):
    """A view of a channel in which reactions can be looked up. `readers_id` is the server or group whose members read
    it; None for a chat with one person."""

    @property
    def readers_id(self) -> int | None: ...
    async def newest_with(self, emojis: Collection[str], count: int) -> Sequence[tuple[int, int, float, str]]: ...
    async def givers(self, message_id: int, emoji: str) -> Sequence[Person]: ...


class AgentChannels(Protocol):
    """The channels in which an agent listens and speaks."""

    @property
    def arriving(self) -> bool: ...  # channels of some guild are not known yet
    def own_id(self, channel_id: int) -> int | None: ...  # the agent's user id there; None if nobody can mention it
    def known(self) -> Sequence[ChannelInfo]: ...
    def place(self, channel_id: int) -> ChannelRef: ...  # with a thread's channel and the server, if known
    def view_of(self, channel_id: int) -> ReactionView | None: ...
    def outlet_of(self, channel_id: int) -> Outlet | None: ...
    async def outlet_in_scope(self, channel_id: int) -> Outlet | None: ...
    async def wait_for(self, channel_id: int) -> None: ...


class ChatService(ABC):
    """A chat service, as the rest of the program asks it. A service overrides what it supports.
    agentic.services.context adds how the runtime opens it."""

    info: ClassVar[ServiceInfo]

    @abstractmethod
    def owns(self, channel_id: int) -> bool:
        """Return whether this is a channel of the service."""

    @abstractmethod
    def channels_for(self, agent: str) -> AgentChannels | None:
        """Return the channels of an agent; None if it isn't on this service."""

    def health(self) -> Mapping[str, bool]:
        """Return whether each account that this process listens to is connected, by agent."""
        return {}

    def chat_names(self) -> Mapping[int, str]:
        """Return the names of chats that no bot in Discord sees, by channel id."""
        return {}

    def other_ids(self, person: int) -> Collection[int]:
        """Return the ids by which the program knew a person before, or on another service."""
        return ()

    def private_chats(self, person: int) -> Collection[int]:
        """Return the chats that a person has, or had, with one agent alone."""
        return ()

    async def forget(self, person: int) -> None:  # noqa: B027 - most services keep nothing of people
        """Delete what the service stores about a person. Raises StateUnavailable."""

    def export(self, person: int) -> Sequence[Mapping[str, str | None]]:
        """Return what the service stores about a person by this id, for their own eyes."""
        del person
        return ()

    async def knows_history(self, channel_id: int) -> bool:
        """Wait for a running read of the channel's history; return whether the transcript is complete then."""
        del channel_id
        return True

    def on_history(self, listener: HistoryListener) -> Callable[[], None]:
        """Call `listener` with each channel whose history was read, before turns that wait for it continue. Return the
        function that ends this."""
        del listener
        return lambda: None


HistoryListener = Callable[[int], Awaitable[None]]
S = TypeVar("S", bound=ChatService)


@dataclass(frozen=True, slots=True)
class ServedChannels:
    """The channels, with their themes, and the guilds (empty: any) in which the program speaks. `direct` is the theme
    of direct messages, None if they are not answered."""

    channels: Mapping[int, str]
    guild_ids: frozenset[int] = frozenset()
    direct: str | None = None

    def theme(self, channel_id: int, parent_id: int | None, guild_id: int | None) -> str | None:
        """Return the theme of a channel or thread; None if the program does not speak there."""
        if guild_id is None:
            return self.direct
        if self.guild_ids and guild_id not in self.guild_ids:
            return None
        own = self.channels.get(channel_id)
        return own if own is not None or parent_id is None else self.channels.get(parent_id)


class ServiceRegistry:
    """The chat services in use, and what they share. Without a channel, prompts use the words of the first service.
    `redact` removes secrets from posts."""

    def __init__(
        self,
        services: Iterable[ChatService],
        *,
        scope: ServedChannels,
        directory: Directory,
        transcripts: Transcripts,
        attachments: AttachmentReader,
        redact: Redactor,
    ) -> None:
        self._services = tuple(services)
        self.scope, self.directory, self.transcripts = scope, directory, transcripts
        self.attachments, self.redact = attachments, redact

    def __iter__(self) -> Iterator[ChatService]:
        return iter(self._services)

    @property
    def first(self) -> ChatService:
        return self._services[0]

    def of(self, channel_id: int) -> ChatService:
        """Return the service of a channel; the first one for a channel that none has heard of."""
        return next((service for service in self._services if service.owns(channel_id)), self._services[0])

    def get(self, kind: type[S]) -> S:
        """Return the service of this class. Raises LookupError if it is not in use."""
        for service in self._services:
            if isinstance(service, kind):
                return service
        raise LookupError(f"{kind.__name__} is not in use")

    def channels_for(self, agent: str) -> AgentChannels | None:
        """Return the channels of an agent on all services as one value; None if it is on none."""
        parts = {service: here for service in self._services if (here := service.channels_for(agent)) is not None}
        return JoinedChannels(self, parts) if len(parts) > 1 else next(iter(parts.values()), None)


class JoinedChannels:
    """The channels of an agent on several services: calls go to the service that owns the channel."""

    def __init__(self, services: ServiceRegistry, parts: Mapping[ChatService, AgentChannels]) -> None:
        self._services, self._parts, self._first = services, parts, next(iter(parts.values()))

    def _of(self, channel_id: int) -> AgentChannels:
        return self._parts.get(self._services.of(channel_id), self._first)

    @property
    def arriving(self) -> bool:
        return any(part.arriving for part in self._parts.values())

    def own_id(self, channel_id: int) -> int | None:
        return self._of(channel_id).own_id(channel_id)

    def known(self) -> Sequence[ChannelInfo]:
        return [info for part in self._parts.values() for info in part.known()]

    def place(self, channel_id: int) -> ChannelRef:
        return self._of(channel_id).place(channel_id)

    def view_of(self, channel_id: int) -> ReactionView | None:
        return self._of(channel_id).view_of(channel_id)

    def outlet_of(self, channel_id: int) -> Outlet | None:
        return self._of(channel_id).outlet_of(channel_id)

    async def outlet_in_scope(self, channel_id: int) -> Outlet | None:
        return await self._of(channel_id).outlet_in_scope(channel_id)

    async def wait_for(self, channel_id: int) -> None:
        await self._of(channel_id).wait_for(channel_id)
