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
    """A person speaks to the agent. `to_all` when the bots' role was mentioned and every bot answers.

    `late` when the agent was away when it was asked. `pieces` are the person's other messages that belong to it, the
    newest of all was heard at `heard_at`, in unix seconds.
    """

    asked: Entry
    to_all: bool = False
    late: bool = False
    pieces: tuple[Entry, ...] = ()
    heard_at: float = 0.0

    @property
    def forced(self) -> bool:
        return True

    @property
    def cools_down(self) -> bool:
        return not self.late

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
