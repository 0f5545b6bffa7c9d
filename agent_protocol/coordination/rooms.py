"""Rooms: conversations in threads, with agents of their own, which people open, pause, resume and close.

A Room is everything that is known of one, its present standing included; only the coordinator that leads writes it
(ConversationStore.keep), together with the conversation that runs in it. What a person wants of a room reaches the
coordinator as a RoomOrder.
"""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from agent_protocol.coordination.endings import PAUSES, EndReason

RoomPolicy = Literal["rounds", "round-robin", "moderated", "pull"]
RoomStatus = Literal["active", "paused", "closed"]
ARCHIVE_MINUTES = (60, 1440, 4320, 10080)  # Discord takes no others
DEFAULT_ARCHIVE_MINUTES = 1440
DEFAULT_POLICY: RoomPolicy = "round-robin"
POLICIES: tuple[str, ...] = get_args(RoomPolicy)
DEFAULT_TURNS = 20
MOST_TURNS = 200
MOST_MEMBERS = 8
MOST_RULES = 1_000  # characters
FEWEST_MEMBERS = 2
MOST_FAILURES = 3  # of a member's turns in a row; then it leaves


class RoomValue(BaseModel):
    """Base of a room's values: frozen, forward-compatible."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class RoomMember(RoomValue):
    """An agent in a room: a bot with an account of its own, or a persona that speaks through a webhook.
    `failures`: of its turns, in a row. `interests` and `talkativeness` (0 to 1) are its persona's."""

    name: str  # the agent's key
    shown: str
    talkativeness: float | None = None
    interests: tuple[str, ...] = ()
    failures: int = 0


class Room(RoomValue):
    """A room. Times in unix seconds, ids are Discord's.

    `turn_number` counts the posts of its members from 1; a turn that posts nothing has no number. `why` is the cause of
    its present status (endings.py). `slot_until` is set while the thread is open to its audience; `slot_turn` is the
    turn after which it was last. `rounds`, `skips` and `cost_usd` (US dollars) are those of its whole life.
    """

    thread_id: int
    channel_id: int  # of the text channel above the thread
    guild_id: int | None = None
    conversation_id: str
    topic: str
    members: tuple[RoomMember, ...]  # in speaking order
    left: tuple[RoomMember, ...] = ()
    policy: RoomPolicy = DEFAULT_POLICY
    rules: str = Field("", max_length=MOST_RULES)
    archive_minutes: int = DEFAULT_ARCHIVE_MINUTES
    turns: int = DEFAULT_TURNS  # the limit
    audience_seconds: float = 0.0  # 0: the thread is open all the time
    goodbye_ends: bool = False  # a post that is a mere goodbye ends the room
    moderator: str | None = None  # of the policy `moderated`: the member that names the next; None: people do
    status: RoomStatus = "active"
    why: str | None = None
    turn_number: int = 0  # of the last turn that posted
    starter: str | None = None  # whose post is the first
    last_speaker: str | None = None
    rounds: int = 0
    skips: int = 0
    cost_usd: float = 0.0
    slot_until: float | None = None
    slot_turn: int = 0
    opened_by: int | None = None  # a person
    opened_at: float = 0.0
    changed_at: float = 0.0

    @property
    def has_slots(self) -> bool:
        """Whether its thread is open to the audience only in slots: between them we lock it."""
        return self.audience_seconds > 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    def member(self, name: str) -> RoomMember | None:
        return next((member for member in self.members if member.name == name), None)

    def ended(self, because: EndReason) -> Room:
        """The room once its conversation has ended: paused or closed, by the reason."""
        status = "paused" if because in PAUSES else "closed"
        return self.model_copy(update={"status": status, "why": because, "slot_until": None})
