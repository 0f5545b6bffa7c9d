"""Outlets of automation tasks that say nothing in a channel. The log has the length of what they said, and no words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext

from agentic.chat.attachments import DEFAULT_LIMITS, NOTHING_ATTACHED, Attached, AttachmentLimits
from agentic.chat.outlet import NO_CHANNEL, SPLIT_AT, ChannelView, Outlet, Post, Posted, StreamingPost, ignored
from agentic.chat.service import DISCORD, Service
from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry
from agentic.context.history import Interval

log = logging.getLogger(__name__)


def silent_outlet(agent: str, view: ChannelView | None = None, service: Service = DISCORD) -> Outlet:
    """An outlet that posts nothing. It reads the channel of `view`, or none at all: then the agent is one of
    `service`."""
    return Outlet(view or EmptyView(agent, service), SilentSink(agent))


class EmptyView:
    """No channel: nothing is read."""

    channel_id = NO_CHANNEL
    is_private = False
    guild_id = None
    name = "nowhere: nobody reads what you say here"
    own_ids = frozenset[int]()
    pins: tuple[tuple[Entry, ...], ...] = ()
    parent = None

    def __init__(self, agent: str, service: Service = DISCORD) -> None:
        self.own_name, self.service, self.transcript = agent, service, Transcript(NO_CHANNEL)

    async def settle(self) -> None:
        return None

    async def reach(self, interval: Interval, messages: int) -> Sequence[Entry] | None:
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
        """No lock holds for it."""

    async def withdraw(self, turn_id: str, after: int | None = None) -> None:
        """Nothing was shown."""

    async def react(self, message_id: int, emoji: str) -> bool:
        return False

    async def acknowledge(self, message_id: int, emoji: str) -> bool:
        return False

    def typing(self) -> AbstractContextManager[None]:
        return nullcontext()


class UnreadPost:
    """A streaming post that nobody reads."""

    def update(self, text: str) -> None:
        """Shows nothing."""


class SilentSink(SinkWithoutSigns):
    """A sink that shows nothing."""

    may_attach = False
    may_react = True

    def __init__(self, agent: str) -> None:
        self._agent = agent

    def refusal(self) -> str | None:
        return None

    def know_as(self, inner_names: Mapping[str, str]) -> None:
        """Nobody is mentioned here."""

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignored) -> Posted:
        """Returns the message id 0: the post counts as made, and is in no channel."""
        length = len(post.text or "")
        log.info("%s: %s said %d characters without a channel, they are not kept", self._agent, turn_id, length)
        return Posted(message_id=0)
