"""What a turn begins with."""

from __future__ import annotations

from dataclasses import dataclass

from agent_context.entries import Entry
from agent_protocol.messages import DEFAULT_DEADLINE_SECONDS, Instruction

MENTION_SECONDS = 120.0  # how long a person waits at most, while TURN_TIMEOUT_SECONDS says nothing else
LONGEST_TURN = 600.0  # seconds; a deadline comes over the wire, and clocks may be set


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvent:
    """An event in a channel's lane. `deadline` in unix seconds: nothing is posted after it."""

    id: str
    channel_id: int
    theme: str
    deadline: float

    @property
    def forced(self) -> bool:
        """Somebody waits: silence is no answer."""
        return False

    @property
    def cools_down(self) -> bool:
        """Held back while the agent has just spoken in the channel."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionEvent(TurnEvent):
    """The coordinator gives a turn: in a conversation, or (with a trigger message) in reaction to a person."""

    instruction: Instruction

    @property
    def cools_down(self) -> bool:
        return self.instruction.trigger_message_id is not None

    @classmethod
    def of(cls, instruction: Instruction, now: float) -> InstructionEvent:
        """An instruction without a deadline has the 90 seconds of the protocol, one with a far one ten minutes."""
        return cls(
            id=instruction.instruction_id,
            channel_id=instruction.channel_id,
            theme=instruction.channel_theme,
            deadline=min(instruction.deadline or now + DEFAULT_DEADLINE_SECONDS, now + LONGEST_TURN),
            instruction=instruction,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionEvent(TurnEvent):
    """A person speaks to the agent, or another agent does (calling.py). `to_all` when the bots' role was mentioned and
    every bot answers.

    `late` when the agent was away when it was asked. `pieces` are the person's other messages that belong to it, the
    newest of all was heard at `heard_at`, in unix seconds. `continues`: the person wants no answer, only that the agent
    goes on with the channel. `on_behalf` is the person who set off the chain in which another agent asks.
    """

    asked: Entry
    to_all: bool = False
    late: bool = False
    pieces: tuple[Entry, ...] = ()
    heard_at: float = 0.0
    continues: bool = False
    on_behalf: int | None = None

    @property
    def by_person(self) -> bool:
        """Another agent is neither pinged nor told why there is no answer."""
        return self.asked.speaker.kind == "person"

    @property
    def person_id(self) -> int | None:
        """Who brought it about."""
        return self.asked.speaker.id if self.by_person else self.on_behalf

    @property
    def ping(self) -> int | None:
        """Who is pinged by the answer."""
        return self.asked.speaker.id if self.by_person and not self.continues else None

    @property
    def forced(self) -> bool:
        return self.by_person

    @property
    def cools_down(self) -> bool:
        """What agents ask of each other ends with its chain, which a cooldown would break at its first link."""
        return self.by_person and not self.late

    @classmethod
    def of(
        cls,
        asked: Entry,
        *,
        channel_id: int,
        theme: str,
        to_all: bool,
        now: float,
        late: bool = False,
        seconds: float | None = None,
    ) -> MentionEvent:
        """`seconds` is how long the turn may take, MENTION_SECONDS where nothing is said."""
        return cls(
            id=f"m{asked.id}",
            channel_id=channel_id,
            theme=theme,
            deadline=now + min(MENTION_SECONDS if seconds is None else seconds, LONGEST_TURN),
            asked=asked,
            to_all=to_all,
            late=late,
            heard_at=now,
        )
