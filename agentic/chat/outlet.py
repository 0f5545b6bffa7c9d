"""The outlet that a turn speaks through: a channel of any service, as a view to read it and a sink to write into it.

Plain values go in and out. Each member's promises are described at its implementation: agentic.services.discord.view
and agentic.services.discord.sink. A silent outlet is for automation tasks without output.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from agentic.chat.attachments import DEFAULT_LIMITS, NOTHING_ATTACHED, Attached, AttachmentLimits
from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry
from agentic.context.history import Interval
from agentic.llm.types import Picture, Source, Usage
from agentic.process.tasks import BackgroundTasks, wait_at_most
from agentic.text import counted

log = logging.getLogger(__name__)

NO_CHANNEL = 0  # the channel id of an automation task whose output nobody reads
SPLIT_AT = 1800  # UTF-16 units; a longer text becomes several messages
UNFINISHED = " ▌"  # the end of a streaming post, until it is complete
TYPING_DELAY = 0.25  # seconds; an earlier answer needs no typing sign
MAX_SOURCES = 3
MAX_TITLE = 60  # characters
_LINK = re.compile(r"https?://[^\s<>/?#]+[^\s<>]{0,1000}")
_PLAIN = str.maketrans("[]", "()", "`")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInfo:
    """A chat service. The words for prompts complete a sentence, quoted in the comment beside each."""

    key: str  # in the record
    name: str
    membership: str  # "You are Claude, …"
    members: str  # "Claude is one of several …"
    heading: str  # above a channel's theme; {} is its name
    markup: str  # "your post in …"


class CannotPost(Exception):
    """Nothing was posted. `reason` is for the result: not_permitted, gone, unknown_channel, discord_failed,
    signal_failed, or not_ours."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    @property
    def is_final(self) -> bool:
        return self.reason in ("not_permitted", "gone")


@dataclass(frozen=True, slots=True)
class TurnCost:
    """The cost line below a post: a turn's usage and the agent's total for the day. `color` is the agent's."""

    usage: Usage
    day_total_usd: float
    color: int

    def __str__(self) -> str:
        """Return one line: model, cost, tokens in (with cached ones) and out, the agent's total for the day."""
        usage = self.usage
        cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
        parts = [usage.model, f"${usage.cost_usd:.4f}"]
        parts.append(f"{usage.input_tokens:,} in{cached} / {usage.output_tokens:,} out")
        parts += [f"{usage.searches} search{'es' if usage.searches > 1 else ''}"] if usage.searches else []
        parts += [counted(usage.pictures, "picture")] if usage.pictures else []
        return " · ".join(part for part in (*parts, f"today ${self.day_total_usd:.2f}") if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A text, a picture, or both. `ping` is the user id of the person who is answered, `asked` their message.

    `after` is set if an earlier run of the program may have posted it, or some of it, behind that message. `reply_to`
    is the message it replies to; `sources` are shown below the text. `split_at` is a message's length, in UTF-16 units,
    at which the next one begins; 2,000 at most.
    """

    text: str | None
    picture: Picture | None = None
    cost: TurnCost | None = None
    ping: int | None = None
    after: int | None = None
    split_at: int = SPLIT_AT
    reply_to: int | None = None
    asked: int | None = None
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Posted:
    """The ids of a post's messages, the first one apart, and the address of its picture, if it has one."""

    message_id: int
    picture_url: str | None = None
    message_ids: tuple[int, ...] = ()


def ignore_post(_: Posted) -> None:
    """Do nothing: for callers that wait for the end."""


def is_unfinished(text: str) -> bool:
    """Return whether a message of ours isn't complete, or never will be."""
    return text.rstrip().endswith(UNFINISHED.strip())


def without_mark(text: str) -> str:
    """Return a complete text, which must not end as an unfinished one does."""
    return text.rstrip(f"{UNFINISHED}\n") if is_unfinished(text) else text


class StreamingPost(Protocol):
    def update(self, text: str) -> None: ...
    def note(self, line: str) -> None: ...


class CommandReplies(Protocol):
    """Deletes a command that a person wrote in the channel, and answers it."""

    def discard(self, message_id: int) -> bool: ...
    async def reply(self, message_id: int, text: str, occasion: str, *, in_parent: bool = ...) -> bool: ...
    async def send_file(self, filename: str, content: str, note: str, occasion: str) -> bool: ...


class ChannelView(Protocol):
    """A channel or thread as one agent reads it."""

    @property
    def service(self) -> ServiceInfo: ...
    @property
    def channel_id(self) -> int: ...
    @property
    def guild_id(self) -> int | None: ...
    @property
    def is_private(self) -> bool: ...  # a chat of one person with the agent
    @property
    def name(self) -> str: ...
    @property
    def own_name(self) -> str: ...
    @property
    def own_ids(self) -> frozenset[int]: ...
    @property
    def transcript(self) -> Transcript: ...
    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]: ...
    @property
    def parent(self) -> ChannelView | None: ...
    async def ensure_history(self) -> None: ...
    async def fetch_history(self, interval: Interval, messages: int) -> Sequence[Entry] | None: ...
    async def attached(self, entries: Sequence[Entry], limits: AttachmentLimits = ...) -> Attached: ...


class ChannelSink(Protocol):
    """A channel or thread as one agent writes into it."""

    @property
    def may_attach(self) -> bool: ...
    @property
    def may_react(self) -> bool: ...
    @property
    def command_replies(self) -> CommandReplies | None: ...
    def refusal(self) -> str | None: ...
    def ignore_lock(self) -> None: ...
    def set_channel_names(self, channel_names: Mapping[str, str]) -> None: ...
    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ...) -> Posted: ...
    def streaming(
        self, turn_id: str, *, ping: int | None = ..., after: int | None = ..., split_at: int = ...
    ) -> AbstractAsyncContextManager[StreamingPost]: ...
    async def withdraw(self, turn_id: str, after: int | None = ...) -> None: ...
    async def react(self, message_id: int, emoji: str) -> bool: ...
    async def acknowledge(self, message_id: int, emoji: str) -> bool: ...
    def typing(self) -> AbstractContextManager[object]: ...


@dataclass(frozen=True, slots=True)
class Outlet:
    """A channel as one agent reads it and writes into it."""

    view: ChannelView
    sink: ChannelSink


def silent_outlet(agent: str, where: ChannelView | ServiceInfo) -> Outlet:
    """Return an outlet that posts nothing. It reads a channel; with a service instead of a channel, it reads
    nothing."""
    view = EmptyView(agent, where) if isinstance(where, ServiceInfo) else where
    return Outlet(view, SilentSink(agent))


class EmptyView:
    channel_id = NO_CHANNEL
    is_private = False
    guild_id = None
    name = "nowhere: nobody reads what you say here"
    own_ids = frozenset[int]()
    pins: tuple[tuple[Entry, ...], ...] = ()
    parent = None

    def __init__(self, agent: str, service: ServiceInfo) -> None:
        self.own_name, self.service, self.transcript = agent, service, Transcript(NO_CHANNEL)

    async def ensure_history(self) -> None:
        return None

    async def fetch_history(self, interval: Interval, messages: int) -> Sequence[Entry] | None:
        return None

    async def attached(self, entries: Sequence[Entry], limits: AttachmentLimits = DEFAULT_LIMITS) -> Attached:
        return NOTHING_ATTACHED


class SinkWithoutSigns:
    """The part of a sink that shows nothing before its posts, and nothing beside them."""

    command_replies = None

    def streaming(
        self, turn_id: str, *, ping: int | None = None, after: int | None = None, split_at: int = SPLIT_AT
    ) -> AbstractAsyncContextManager[StreamingPost]:
        return nullcontext(UnreadPost())

    def ignore_lock(self) -> None:
        """Do nothing: no lock applies to it."""

    def set_channel_names(self, channel_names: Mapping[str, str]) -> None:
        """Nobody is mentioned."""

    async def withdraw(self, turn_id: str, after: int | None = None) -> None:
        """Nothing was shown."""

    async def react(self, message_id: int, emoji: str) -> bool:
        return False

    async def acknowledge(self, message_id: int, emoji: str) -> bool:
        return False

    def typing(self) -> AbstractContextManager[object]:
        return nullcontext()


class TypingSign(AbstractContextManager["TypingSign"]):
    """Shows typing in the background, after a moment and then every `refresh` seconds until it is stopped or its `with`
    block ends. `show` sends one request and raises nothing; at the end it is called with False, if typing was shown."""

    def __init__(self, show: Callable[[bool], Awaitable[None]], background: BackgroundTasks, refresh: float) -> None:
        self._show, self._background, self._refresh, self._over = show, background, refresh, asyncio.Event()
        self._begin = asyncio.get_running_loop().call_later(TYPING_DELAY, self._start)  # most answers need no task

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._begin.cancel()
        self._over.set()

    def _start(self) -> None:
        self._background.start(self._run(), "typing")

    async def _run(self) -> None:
        if self._over.is_set():
            return
        while not self._over.is_set():
            await self._show(True)
            await wait_at_most(self._over, self._refresh)
        await self._show(False)


class UnreadPost:
    def update(self, text: str) -> None:
        """Shows nothing."""

    def note(self, line: str) -> None:
        """Shows nothing."""


class SilentSink(SinkWithoutSigns):
    may_attach = False
    may_react = True

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def refusal(self) -> str | None:
        return None

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignore_post) -> Posted:
        """Return the message id 0: the turn is recorded as posted, and nothing is in a channel."""
        length = len(post.text or "")
        log.info(
            "%s: %s wrote %d characters but has no channel to post them in; discarded", self._agent, turn_id, length
        )
        return Posted(message_id=0)


def pick_sources(text: str, sources: Sequence[Source]) -> list[Source]:
    """Return the sources to show below a text: the first of them with a plain link that the text doesn't have."""
    return [source for source in sources if _LINK.fullmatch(source.url) and source.url not in text][:MAX_SOURCES]


def title_of(source: Source) -> str:
    """Return the page's title on one line, without markdown's marks; its host if it has no title."""
    cleaned = " ".join(source.title.translate(_PLAIN).split())
    return cleaned[:MAX_TITLE] or source.url.split("/")[2]
