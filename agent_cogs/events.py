"""The events that turns begin with, and the reasons for which a turn posts nothing.

message      a person or another agent calls the agent       MentionEvent
instruction  the coordinator gives a turn                    InstructionEvent
heartbeat    a check of heartbeat.md is due                  HeartbeatEvent   ─┐
cron         a job of agents.md is due                       CronEvent         │ automation: nobody waits for it,
hook         the agent starts or stops, an event begins      HookEvent         │ silence is a good answer
webhook      a signed request from outside                   WebhookEvent      │
reflection   the coordinator gives an idle task              ReflectionEvent  ─┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeGuard

from agent_chat.outlet import NO_CHANNEL
from agent_context.build import Trigger
from agent_context.entries import Entry
from agent_context.layout.automation_task import AutomationTask
from agent_context.layout.unasked_task import unasked_task
from agent_context.steering.options import Options
from agent_protocol.coordination.idle import UNASKED, WRITTEN
from agent_protocol.wire.messages import DEFAULT_DEADLINE_SECONDS, Instruction, Reflection

MENTION_SECONDS = 120.0  # for a mention's turn, where TURN_TIMEOUT_SECONDS is not set

LONGEST_TURN = 600.0  # seconds; a deadline comes over the wire, and clocks may be set


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvent:
    """An event in a lane. Nothing is posted after `deadline`, in unix seconds; with `seconds` the deadline is that long
    after the turn begins.

    The inbox sets `seq`, a number that only grows, and `at`, the time of its arrival in unix seconds.
    """

    kind: ClassVar[str] = ""  # one of the types above

    id: str
    channel_id: int
    theme: str
    deadline: float
    seconds: float = 0.0
    seq: int = 0
    at: float = 0.0

    @property
    def lane(self) -> int | str:
        """Its lane in the inbox: its channel, or one of its own where it has none."""
        return self.id if self.channel_id == NO_CHANNEL else self.channel_id

    def begun(self, now: float) -> Self:
        """The event as its turn begins."""
        return replace(self, deadline=now + self.seconds, seconds=0.0) if self.seconds else self

    @property
    def source(self) -> str:
        """Its origin, for people to read."""
        return self.kind

    def stamped(self, seq: int, at: float) -> Self:
        """The event with its place in the inbox."""
        return replace(self, seq=seq, at=at)

    @property
    def person_id(self) -> int | None:
        """The person who brought it about, where that is known before the turn has read the channel."""
        return None

    @property
    def for_people(self) -> bool:
        """Whether a person brought it about: it may use the daily turns that are reserved for people."""
        return self.person_id is not None

    @property
    def forced(self) -> bool:
        """Whether somebody waits, so that silence is no answer."""
        return False

    @property
    def cools_down(self) -> bool:
        """Whether the channel's cooldown holds for it."""
        return False

    @property
    def answers_person(self) -> bool:
        """Whether it is the answer to a person who called the agent: with the option always_search it searches."""
        return False

    @property
    def reports(self) -> bool:
        """Whether the coordinator waits for its result, and asks for it again until there is one."""
        return False

    @property
    def reply_to(self) -> int | None:
        """The message that its post is a reply to, as Discord shows one."""
        return None


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
            deadline=_deadline(instruction, now),
            instruction=instruction,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionEvent(TurnEvent):
    """A person calls the agent, or another agent does (inbox/bot_mentions.py). `to_all`: by the bots' role, so that
    every bot answers.

    `late`: the agent was away when it was asked. `pieces` are the person's other messages that belong to the question;
    the newest of all came at `heard_at`, in unix seconds. `continues`: the person wants no answer, only that the agent
    continues the conversation. `on_behalf` is the person who set off the chain in which another agent asks. `signs_at`
    is the message for signs where the asked one is a command that is being deleted.
    """

    kind: ClassVar[str] = "message"

    asked: Entry
    to_all: bool = False
    late: bool = False
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
        return self.asked.speaker.id if self.by_person and not self.continues else None

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
        after it has spoken."""
        return self.by_person and not self.late and not self.continues

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
            id=f"m{asked.id}",
            channel_id=channel_id,
            theme=theme,
            deadline=now + min(seconds, LONGEST_TURN),
            asked=asked,
            to_all=to_all,
            heard_at=now,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationEvent(TurnEvent):
    """A task that nobody in a channel asked for: not forced, no cooldown, and its time begins with its turn, since
    nobody waits for it. Where `channel_id` is NO_CHANNEL, nobody reads what it says."""

    @property
    def task(self) -> AutomationTask:
        """The task, as the prompt gives it."""
        raise TypeError(f"{type(self).__name__} has no task")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatEvent(AutomationEvent):
    """A check of heartbeat.md is due."""

    kind: ClassVar[str] = "heartbeat"

    check: str
    instruction: str

    @property
    def source(self) -> str:
        return f"heartbeat.md: {self.check}"

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"your regular check “{self.check}”", text=self.instruction)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronEvent(AutomationEvent):
    """A job of agents.md is due."""

    kind: ClassVar[str] = "cron"

    job: str
    instruction: str

    @property
    def source(self) -> str:
        return f"agents.md: {self.job}"

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"your scheduled job “{self.job}”", text=self.instruction)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent(AutomationEvent):
    """A hook of agents.md. `around` is the kind of the event before or after which it runs, "" for none; `on_behalf` is
    the person who brought that event about. `aside`: it reads the event's channel and says nothing there."""

    kind: ClassVar[str] = "hook"

    hook: str
    instruction: str
    around: str = ""
    aside: bool = False
    on_behalf: int | None = None

    @property
    def person_id(self) -> int | None:
        return self.on_behalf

    @property
    def source(self) -> str:
        return f"agents.md: {self.hook}"

    @property
    def task(self) -> AutomationTask:
        when = _MOMENTS.get(self.hook, self.hook).format(kind=self.around)
        return AutomationTask(occasion=when, text=self.instruction, unheard=self.aside)


_MOMENTS = {
    "startup": "you have just started",
    "shutdown": "you are about to stop",
    "agent_begin": "right before you turn to an event ({kind})",
    "agent_stop": "right after you have turned to an event ({kind})",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEvent(AutomationEvent):
    """A signed request from outside. Its signature lets it begin a turn; what it says is data, not an order."""

    kind: ClassVar[str] = "webhook"

    name: str
    payload_text: str

    @property
    def source(self) -> str:
        return f"webhook: {self.name}"

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"news from outside, “{self.name}”", text=self.payload_text, data=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionEvent(AutomationEvent):
    """The coordinator gives a task for while nobody writes. Either it writes a text for the coordinator (WRITTEN) by
    one call of a model, or it may post what nobody asked for (UNASKED).

    A post is on the account of the person that it is for, but no turn for people: these do not wait for it. What is
    written is on nobody's account.
    """

    kind: ClassVar[str] = "reflection"

    reflection: Reflection

    @property
    def writes(self) -> bool:
        """Whether it writes a text for the coordinator, and posts nothing."""
        return self.reflection.task in WRITTEN

    @property
    def lane(self) -> int | str:
        """A lane of its own for what is written: it waits for no turn in its channel, and none waits for it."""
        return self.id if self.writes else self.channel_id

    @property
    def source(self) -> str:
        return f"coordinator: {self.reflection.task}"

    @property
    def person_id(self) -> int | None:
        return None if self.writes else self.reflection.person_id

    @property
    def for_people(self) -> bool:
        return False

    @property
    def reports(self) -> bool:
        return True

    @property
    def about(self) -> frozenset[int]:
        """The people whose words or topics are in its prompt."""
        person = self.reflection.person_id
        return frozenset(self.reflection.people) | (frozenset() if person is None else {person})

    @property
    def reply_to(self) -> int | None:
        return self.reflection.message_id if self.reflection.task == "follow_up" else None

    @property
    def task(self) -> AutomationTask:
        given = self.reflection
        return unasked_task(
            given.task, given.person_name, material=given.material, topics=given.topics, avoid=given.avoid
        )

    @classmethod
    def of(cls, instruction: Instruction, now: float) -> ReflectionEvent | None:
        """None for a task that is not known, and for a post that would be for nobody."""
        given = instruction.reflection
        if given is None or given.task not in WRITTEN | UNASKED:
            return None
        if given.task in UNASKED and given.person_id is None:
            return None
        return cls(
            id=instruction.instruction_id,
            channel_id=instruction.channel_id,
            theme=instruction.channel_theme,
            deadline=_deadline(instruction, now),
            reflection=given,
        )


def _deadline(instruction: Instruction, now: float) -> float:
    return min(instruction.deadline or now + DEFAULT_DEADLINE_SECONDS, now + LONGEST_TURN)


def looks_things_up(event: TurnEvent) -> bool:
    """Whether the turn may search the web in any theme: scheduled tasks are often about news."""
    return isinstance(event, HeartbeatEvent | CronEvent) or is_unasked(event)


def is_unasked(event: TurnEvent) -> TypeGuard[ReflectionEvent]:
    """Whether it may post what nobody asked for."""
    return isinstance(event, ReflectionEvent) and not event.writes


def searches_first(event: TurnEvent, options: Options) -> bool:
    """Whether the turn searches the web before it answers, once. Without a search nobody knows whether there is
    something new to write unasked."""
    return is_unasked(event) or (options.always_search and event.answers_person)


class TurnOver(Exception):
    """The turn ends here, for one of REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


REASONS: Mapping[str, str] = {
    "skipped": "the model chose to stay silent",
    "cooldown": "the agent has just spoken in the channel",
    "daily_limit": "the agent's turns of the day are used up, or those that are not for people",
    "budget": "the day's money for all agents or for the channel is used up, or nearly so",
    "agent_budget": "the agent's money of the day is used up",
    "person_budget": "what the person may bring about in a day is used up",
    "idle_budget": "the share of the day's money for what agents do while nobody writes is used up",
    "too_often": "the person has called too often in the last minute",
    "benched": "the provider refused the agent three times in a row, it rests",
    "muted": "a person with the right to do so muted the agent",
    "withdrawn": "the message to answer was deleted or hidden",
    "busy": "too many events wait already",
    "deadline": "the time was up",
    "invalid": "the instruction could not be read",
    "unknown_action": "an action that this agent does not know",
    "unknown_channel": "a channel that the bot does not see",
    "not_permitted": "the bot may not write there",
    "not_ours": "another process has taken the agent over",
    "discord_failed": "Discord did not take the post",
    "signal_failed": "Signal did not take the post",
    "model_failed": "the model or its provider failed",
    "session_lost": "a coding agent's session could not be continued",
    "refused": "the model declined to answer",
    "unreadable": "the model's answer held no decision",
    "picture_failed": "only a picture was wanted, and it could not be drawn",
    "reaction_failed": "only a reaction was wanted, and Discord did not take it",
    "stopped": "a person stopped the bots in the channel, or everywhere",
    "overtaken": "a person spoke while the agent was thinking",
    "not_new": "what it would have said unasked was said before",
    "unwanted": "the person that it is for wants no messages that nobody asked for",
    "person_wrote": "a person wrote, so what the agent does while nobody writes ended",
    "out_of_turn": "in a room: its turn was not the next one, or no longer, or the room is not active",
    "interrupted": "an earlier run of the program ended in the middle of this turn",
    "internal_error": "a fault of the program, see its log",
}


def asked_id(event: TurnEvent) -> int | None:
    """The message of a person that the turn answers."""
    if isinstance(event, MentionEvent):
        return event.asked.id
    if not isinstance(event, InstructionEvent):
        return None
    given = event.instruction
    return given.take_up if given.trigger_message_id is None else given.trigger_message_id


def trigger_of(event: TurnEvent) -> Trigger:
    if isinstance(event, MentionEvent):
        return "continue" if event.continues else "mention" if event.by_person else "call"
    if isinstance(event, AutomationEvent):
        return "errand"
    if not isinstance(event, InstructionEvent):
        raise TypeError(f"no trigger is known for {type(event).__name__}")
    given = event.instruction
    if given.is_conversation_starter:
        return "starter"
    if given.requested:
        return "continue"
    return "round" if given.trigger_message_id is None else "reactive"


POST_SECONDS = 10.0  # of the deadline, kept for posting
