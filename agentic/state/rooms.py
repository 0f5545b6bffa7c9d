"""Rooms: conversations in threads, with agents of their own, which people open, pause, resume and close.

A Room is everything that is known of one, its present standing included; only the coordinator that leads writes it
(ConversationStore.keep), together with the conversation that runs in it. What a person wants of a room reaches the
coordinator as a RoomOrder.
"""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from agentic.wire.endings import PAUSES, EndReason

RoomPolicy = Literal["rounds", "round-robin", "moderated", "pull"]
RoomStatus = Literal["active", "paused", "closed"]
ARCHIVE_MINUTES = (60, 1440, 4320, 10080)  # Discord takes no others
DEFAULT_ARCHIVE_MINUTES = 1440
DEFAULT_POLICY: RoomPolicy = "round-robin"
POLICIES: tuple[str, ...] = get_args(RoomPolicy)
DEFAULT_THEME = "debate"
DEFAULT_TURNS = 20
MOST_TURNS = 200
MOST_MEMBERS = 8
MOST_RULES = 1_000  # characters
FEWEST_MEMBERS = 2
MOST_FAILURES = 3  # of a member's turns in a row; then it leaves
CHANGES = frozenset({"left", "unclear"})  # kinds of lines that a person's change may add
MAX_LINES = 8  # that are kept for the thread; older lines were posted long before


class RoomValue(BaseModel):
    """Base of a room's values: frozen, forward-compatible."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class RoomMember(RoomValue):
    """An agent in a room: a bot with an account of its own, or a persona that speaks through a webhook.
    `failures`: of its turns, in a row; `failure_noted`: people have read about one since the room was opened or
    resumed, and `turns_taken` counts its turns since then, with or without a post, except failures. `interests` and
    `talkativeness` (0 to 1) are its persona's."""

    name: str  # the agent's key
    shown: str
    talkativeness: float | None = None
    interests: tuple[str, ...] = ()
    failures: int = 0
    failure_noted: bool = False
    turns_taken: int = 0


class RoomLine(RoomValue):
    """Something to tell the people in the thread, in one line. `kind`: failed, left, waits, unclear; an open set.
    `number` counts the room's lines from 1. `why` is a reason of results, or of leaving (conversations/rooms.py)."""

    number: int
    kind: str
    members: tuple[str, ...] = ()  # shown names
    why: str = ""
    turn: int = 0  # the room's last turn by then


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
    theme: str = DEFAULT_THEME
    lines: tuple[RoomLine, ...] = ()  # the newest
    wait_noted: bool = False  # people have read that the room waits for them to name the next speaker
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

    def with_line(self, kind: str, *shown: str, why: str = "") -> Room:
        """The room with one more line for the people in its thread. A line of CHANGES that was just added isn't
        repeated: a change by a person may be made twice, before and after the turn that is under way."""
        just = (line for line in self.lines if kind in CHANGES and line.turn >= self.turn_number - 1)
        if any((line.kind, line.members, line.why) == (kind, shown, why) for line in just):
            return self
        number = self.lines[-1].number + 1 if self.lines else 1
        line = RoomLine(number=number, kind=kind, members=shown, why=why, turn=self.turn_number)
        return self.model_copy(update={"lines": (*self.lines, line)[-MAX_LINES:]})

    def ended(self, because: EndReason) -> Room:
        """The room once its conversation has ended: paused or closed, by the reason."""
        status = "paused" if because in PAUSES else "closed"
        return self.model_copy(update={"status": status, "why": because, "slot_until": None})
