"""SharedState: all live state in Redis but messages, leases, and silence, in six groups of stores.

Every key expires or is bounded. While Redis is unavailable, everything that a turn must not wait for (turns, limits,
costs) continues in this process's memory; the rest raises StateUnavailable or has a default.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from agentic.state.budgets import Budgets, Caps
from agentic.state.context import ContextWindows, Resets, Sessions, Summaries
from agentic.state.conversations import ConversationStore, SpeakerChoices
from agentic.state.forget_requests import ForgetRequests
from agentic.state.idle import IdleStates, ProactiveMessages
from agentic.state.limits import Limits
from agentic.state.posts import InstructedPosts, Notices, PostClaims, ReplayGuard, UploadedAvatars
from agentic.state.presence import BackoffStore, CommandOwner, Presence
from agentic.state.proposals import Proposals
from agentic.state.record_stream import RecordedAgents
from agentic.state.rooms import Arenas, RoomMarks, RoomOpenings, RoomShares, RoomStore
from agentic.state.schedule import ScheduleStore
from agentic.state.silence import Silence
from agentic.state.turns import Turns
from agentic.wire.connection import RedisConnection


class Coordination:
    """Who is online, and the state of the coordinator, rooms, and background tasks."""

    def __init__(self, link: RedisConnection, clock: Callable[[], float]) -> None:
        self.presence = Presence(link, clock)
        self.backoffs = BackoffStore(link, clock)
        self.command_owner = CommandOwner(link)
        self.recorded_agents = RecordedAgents(link)
        self.schedule = ScheduleStore(link)
        self.conversations = ConversationStore(link)
        self.scores = SpeakerChoices(link)
        self.rooms = RoomStore(link)
        self.room_marks = RoomMarks(link)
        self.room_openings = RoomOpenings(link)
        self.room_shares = RoomShares(link)
        self.arenas = Arenas(link)
        self.proposals = Proposals(link)
        self.idle = IdleStates(link)


class ContextState:
    """Where agents' contexts begin: windows, sessions, summaries of rooms, resets."""

    def __init__(self, link: RedisConnection) -> None:
        self.windows = ContextWindows(link)
        self.sessions = Sessions(link)
        self.summaries = Summaries(link)
        self.resets = Resets(link)


class Posts:
    """Facts about posts that the chat service doesn't tell, and claims for things that are done once."""

    def __init__(self, link: RedisConnection, clock: Callable[[], float]) -> None:
        self.instructed = InstructedPosts(link)
        self.proactive = ProactiveMessages(link)
        self.claims = PostClaims(link)
        self.avatars = UploadedAvatars(link)
        self.notices = Notices(link)
        self.replay_guard = ReplayGuard(link, clock)


class SharedState:
    """`clock` gives unix seconds. `holder` names this process in turns that it claims. `silence` knows who is muted
    while Redis is unavailable."""

    def __init__(
        self,
        link: RedisConnection,
        clock: Callable[[], float] = time.time,
        *,
        holder: str = "",
        caps: Caps | None = None,
        silence: Silence | None = None,
    ) -> None:
        self.link = link
        self.posts = Posts(link, clock)
        self.limits = Limits(link, clock, Budgets(link, caps or Caps()), silence)
        self.turns = Turns(link, clock, self.limits, self.posts.instructed, holder)
        self.coordination = Coordination(link, clock)
        self.context = ContextState(link)
        self.requests = ForgetRequests(link)

    @property
    def is_unavailable(self) -> bool:
        """Whether Redis doesn't answer now, or accepts no writes."""
        return self.link.away or self.link.is_read_only
