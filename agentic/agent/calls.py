"""The events in which somebody calls the agent: the coordinator, a person, another agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agentic.agent.event import MENTION_SECONDS, TurnEvent, deadline_in, deadline_of
from agentic.context.entries import Entry
from agentic.wire.messages import Instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionEvent(TurnEvent):
    """The coordinator gives a turn: in a conversation or room, with a trigger message in reaction to a person, or
    because an owner asked for it. `on_behalf` is the person on whose account it is, where that is known."""

    kind: ClassVar[str] = "instruction"

    instruction: Instruction
    on_behalf: int | None = None

    @property
    def person_id(self) -> int | None:
        return self.on_behalf

    @property
    def source(self) -> str:
        return "coordinator"

    @property
    def forced(self) -> bool:
        return self.instruction.requested or self.instruction.take_up is not None

    @property
    def cools_down(self) -> bool:
        return self.instruction.trigger_message_id is not None

    @property
    def for_people(self) -> bool:
        """Whether the turn is one of those that a day keeps for people: an answer to one, or a person's wish. A room's
        turns are none by themselves, though they are on its opener's account."""
        given = self.instruction
        return given.requested or given.trigger_message_id is not None or given.take_up is not None

    @property
    def reports(self) -> bool:
        return True

    @property
    def room_number(self) -> int | None:
        """The number of the turn in its room; None outside of one."""
        return None if self.instruction.room is None else self.instruction.room.turn_number

    @classmethod
    def of(cls, instruction: Instruction, now: float) -> InstructionEvent:
        """Without a deadline an instruction has the 90 seconds of the protocol; it has ten minutes at most."""
        return cls(
            id=instruction.instruction_id,
            channel_id=instruction.channel_id,
            theme=instruction.channel_theme,
            deadline=deadline_of(instruction, now),
            instruction=instruction,
        )


def mention_id(message_id: int) -> str:
    """Return the id of the turn that answers a message."""
    return f"m{message_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionEvent(TurnEvent):
    """A person calls the agent, or another agent does (inbox/bot_mentions.py). `to_all`: by the bots' role, so that
    every bot answers.

    `late`: the agent was away when it was asked. `pieces` are the person's other messages that belong to the question;
    the newest of all came at `heard_at`, in unix seconds. `unaddressed`: the message names nobody, but the
    agent answers everything there. `continues`: the person wants no answer, only that the agent
    continues the conversation. `on_behalf` is the person who set off the chain in which another agent asks. `signs_at`
    is the message for signs where the asked one is a command that is being deleted.
    """

    kind: ClassVar[str] = "message"

    asked: Entry
    to_all: bool = False
    late: bool = False
    unaddressed: bool = False
    pieces: tuple[Entry, ...] = ()
    heard_at: float = 0.0
    continues: bool = False
    on_behalf: int | None = None
    signs_at: int | None = None

    @property
    def by_person(self) -> bool:
        """Another agent is neither pinged nor given a reason for silence."""
        return self.asked.speaker.kind == "person"

    @property
    def person_id(self) -> int | None:
        return self.asked.speaker.id if self.by_person else self.on_behalf

    @property
    def ping(self) -> int | None:
        """The user id that the answer pings."""
        return self.asked.speaker.id if self.by_person and not (self.continues or self.unaddressed) else None

    @property
    def joined_ids(self) -> tuple[str, ...]:
        """The turns that the pieces would have had, had they been answered alone."""
        return tuple(mention_id(piece.id) for piece in self.pieces)

    @property
    def sign_id(self) -> int:
        """The message at which signs are put, such as the reason for silence."""
        return self.asked.id if self.signs_at is None else self.signs_at

    @property
    def source(self) -> str:
        return "discord"

    @property
    def forced(self) -> bool:
        return self.by_person

    @property
    def answers_person(self) -> bool:
        return self.by_person and not self.continues

    @property
    def cools_down(self) -> bool:
        """A cooldown would break a chain of agents at its first link, and a person asks an agent to continue right
        after it has spoken. Where an agent answers everything, people write as they do to each other."""
        return self.by_person and not (self.late or self.continues or self.unaddressed)

    @classmethod
    def of(
        cls,
        asked: Entry,
        *,
        channel_id: int,
        theme: str,
        to_all: bool,
        now: float,
        seconds: float = MENTION_SECONDS,
        **more: Any,
    ) -> MentionEvent:
        """`seconds` is how long the turn may take; `more` are further fields. See AgentServices.mention."""
        return cls(
            id=mention_id(asked.id),
            channel_id=channel_id,
            theme=theme,
            deadline=deadline_in(seconds, now),
            asked=asked,
            to_all=to_all,
            heard_at=now,
            **more,
        )
