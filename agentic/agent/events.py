"""What turns begin with, and how another process reads it back to continue a turn.

TurnEvent
├─ MentionEvent       a person or another agent calls the agent
├─ InstructionEvent   the coordinator gives a turn
└─ AutomationEvent    a task that nobody in a channel asked for
   ├─ HeartbeatEvent, CronEvent, HookEvent   of the persona's files
   ├─ WebhookEvent                           a request from outside
   └─ ReflectionEvent                        the coordinator's idle tasks

Then the rules that follow from an event's type, and the event as JSON.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeGuard, TypeVar

from pydantic import TypeAdapter, ValidationError

from agentic.background_tasks import PROACTIVE, WRITTEN
from agentic.chat.outlet import NO_CHANNEL
from agentic.context.entries import Entry
from agentic.context.options import Options
from agentic.context.prompt import AutomationTask, Trigger, proactive_task
from agentic.wire.messages import DEFAULT_DEADLINE_SECONDS, Instruction, Reflection

log = logging.getLogger(__name__)

T = TypeVar("T")

MENTION_SECONDS = 120.0  # for a mention's turn, where TURN_TIMEOUT_SECONDS is not set
LONGEST_TURN = 600.0  # seconds; a deadline comes over the wire, and clocks may be set
POST_SECONDS = 10.0  # of the deadline, kept for posting

MOMENTS = {
    "startup": "you have just started",
    "shutdown": "you are about to stop",
    "agent_begin": "you are about to handle an event: {kind}",
    "agent_stop": "you have just handled an event: {kind}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvent:
    """An event in a lane. Nothing is posted after `deadline`, in unix seconds; with `seconds` the deadline is that long
    after the turn begins. `on_behalf` is the person whose budget pays for it, if that is known.

    The inbox sets `seq`, a number that only grows, and `at`, the time of its arrival in unix seconds.
    """

    kind: ClassVar[str] = ""
    origin: ClassVar[str] = ""  # how people read where it comes from, a format of the event; "" for its kind

    id: str
    channel_id: int
    theme: str
    deadline: float
    seconds: float = 0.0
    seq: int = 0
    at: float = 0.0
    on_behalf: int | None = None

    @property
    def lane(self) -> int | str:
        """Its lane in the inbox: its channel, or a lane of its own if it has no channel."""
        return self.id if self.channel_id == NO_CHANNEL else self.channel_id

    def begun(self, now: float) -> Self:
        return replace(self, deadline=now + self.seconds, seconds=0.0) if self.seconds else self

    @property
    def source(self) -> str:
        return self.origin.format(self) or self.kind

    def stamped(self, seq: int, at: float) -> Self:
        return replace(self, seq=seq, at=at)

    @property
    def person_id(self) -> int | None:
        """The person who brought it about, if that is known before the turn has read the channel."""
        return self.on_behalf

    @property
    def for_people(self) -> bool:
        """Whether a person brought it about: it may use the daily turns that are reserved for people."""
        return self.person_id is not None

    @property
    def forced(self) -> bool:
        """Whether somebody waits for an answer, so that the agent may not stay silent."""
        return False

    @property
    def cools_down(self) -> bool:
        """Whether the channel's cooldown applies to it."""
        return False

    @property
    def answers_person(self) -> bool:
        """Whether it is the answer to a person who called the agent: with the option always_search it searches."""
        return False

    @property
    def reports(self) -> bool:
        """Whether the coordinator waits for its result, and asks for it again until there is one."""
        return self.kind in ("instruction", "reflection")

    @property
    def reply_to(self) -> int | None:
        """The message that its post is a reply to, as Discord shows one."""
        return None


def deadline_of(instruction: Instruction, now: float) -> float:
    """Without a deadline an instruction has the 90 seconds of the protocol; it has ten minutes at most."""
    return min(instruction.deadline or now + DEFAULT_DEADLINE_SECONDS, now + LONGEST_TURN)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationEvent(TurnEvent):
    """A task that nobody in a channel asked for: not forced, no cooldown, and its time begins with its turn, since
    nobody waits for it. Where `channel_id` is NO_CHANNEL, nobody reads what it says."""

    @property
    def task(self) -> AutomationTask:
        raise TypeError(f"{type(self).__name__} has no task")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatEvent(AutomationEvent):
    """A check of heartbeat.md is due."""

    kind: ClassVar[str] = "heartbeat"
    origin: ClassVar[str] = "heartbeat.md: {0.check}"

    check: str
    instruction: str

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"your regular check “{self.check}”", text=self.instruction)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronEvent(AutomationEvent):
    """A job of agents.md is due."""

    kind: ClassVar[str] = "cron"
    origin: ClassVar[str] = "agents.md: {0.job}"

    job: str
    instruction: str

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"your scheduled job “{self.job}”", text=self.instruction)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent(AutomationEvent):
    """A hook of agents.md. `around` is the kind of the event before or after which it runs, "" for none; `on_behalf` is
    the person who brought that event about. `aside`: it reads the event's channel and says nothing there."""

    kind: ClassVar[str] = "hook"
    origin: ClassVar[str] = "agents.md: {0.hook}"

    hook: str
    instruction: str
    around: str = ""
    aside: bool = False

    @property
    def task(self) -> AutomationTask:
        when = MOMENTS.get(self.hook, self.hook).format(kind=self.around)
        return AutomationTask(occasion=when, text=self.instruction, unheard=self.aside)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEvent(AutomationEvent):
    """A signed request from outside. Its signature lets it begin a turn; what it says is data, not an order."""

    kind: ClassVar[str] = "webhook"
    origin: ClassVar[str] = "webhook: {0.name}"

    name: str
    payload_text: str

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"webhook “{self.name}”", text=self.payload_text, data=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionEvent(TurnEvent):
    """The coordinator gives a turn: in a conversation or room, with a trigger message in reaction to a person, or
    because an owner asked for it."""

    kind: ClassVar[str] = "instruction"
    origin: ClassVar[str] = "coordinator"

    instruction: Instruction

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

    @classmethod
    def of(cls, instruction: Instruction, now: float) -> InstructionEvent:
        return cls(
            id=instruction.instruction_id,
            channel_id=instruction.channel_id,
            theme=instruction.channel_theme,
            deadline=deadline_of(instruction, now),
            instruction=instruction,
        )


def mention_id(message_id: int) -> str:
    return f"m{message_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionEvent(TurnEvent):
    """A person calls the agent, or another agent does (inbox/triggers.py). `to_all`: by the bots' role, so that
    every bot answers.

    `late`: the agent was away when it was asked. `pieces` are the person's other messages that belong to the question;
    the newest of all came at `heard_at`, in unix seconds. `unaddressed`: the message names nobody, but the
    agent answers everything there. `continues`: the person wants no answer, only that the agent
    continues the conversation. `on_behalf` is the person who set off the chain in which another agent asks. `signs_at`
    is the message for signs where the asked one is a command that is being deleted.
    """

    kind: ClassVar[str] = "message"
    origin: ClassVar[str] = "discord"

    asked: Entry
    to_all: bool = False
    late: bool = False
    unaddressed: bool = False
    pieces: tuple[Entry, ...] = ()
    heard_at: float = 0.0
    continues: bool = False
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
        """`seconds` is how long the turn may take; `more` are further fields. See Services.mention."""
        return cls(
            id=mention_id(asked.id),
            channel_id=channel_id,
            theme=theme,
            deadline=now + min(seconds, LONGEST_TURN),
            asked=asked,
            to_all=to_all,
            heard_at=now,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionEvent(AutomationEvent):
    """The coordinator gives a task for while nobody writes. Either it writes a text for the coordinator (WRITTEN) by
    one call of a model, or it may post what nobody asked for (PROACTIVE).

    The person whom a post is for pays for it from their budget, but it is not a turn for people: nobody waits for it.
    Nobody pays for a text for the coordinator.
    """

    kind: ClassVar[str] = "reflection"
    origin: ClassVar[str] = "coordinator: {0.reflection.task}"

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
    def person_id(self) -> int | None:
        return None if self.writes else self.reflection.person_id

    @property
    def for_people(self) -> bool:
        return False

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
        return proactive_task(
            given.task, given.person_name, material=given.material, topics=given.topics, avoid=given.avoid
        )

    @classmethod
    def of(cls, instruction: Instruction, now: float) -> ReflectionEvent | None:
        """None for a task that is not known, and for a post that would be for nobody."""
        given = instruction.reflection
        if given is None or given.task not in WRITTEN | PROACTIVE:
            return None
        if given.task in PROACTIVE and given.person_id is None:
            return None
        return cls(
            id=instruction.instruction_id,
            channel_id=instruction.channel_id,
            theme=instruction.channel_theme,
            deadline=deadline_of(instruction, now),
            reflection=given,
        )


def looks_things_up(event: TurnEvent) -> bool:
    """Whether the turn may search the web in any theme: scheduled tasks are often about news."""
    return isinstance(event, HeartbeatEvent | CronEvent) or is_proactive(event)


def is_writing(event: TurnEvent) -> TypeGuard[ReflectionEvent]:
    """Whether the turn writes a text for the coordinator and nothing else: no hook runs around it."""
    return isinstance(event, ReflectionEvent) and event.writes


def is_proactive(event: TurnEvent) -> TypeGuard[ReflectionEvent]:
    """Whether it may post what nobody asked for."""
    return isinstance(event, ReflectionEvent) and not event.writes


def searches_first(event: TurnEvent, options: Options) -> bool:
    """Whether the turn searches the web before it answers, once. Without a search nobody knows whether there is
    something new to write unasked."""
    return is_proactive(event) or (options.always_search and event.answers_person)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedEvent:
    """The event that a turn began with. `after` is the channel's newest message then, 0 for none."""

    after: int = 0
    mention: MentionEvent | None = None
    instruction: InstructionEvent | None = None
    heartbeat: HeartbeatEvent | None = None
    cron: CronEvent | None = None
    webhook: WebhookEvent | None = None
    reflection: ReflectionEvent | None = None

    @property
    def event(self) -> TurnEvent | None:
        return self.mention or self.instruction or self.reflection or self.heartbeat or self.cron or self.webhook


_SAVED: TypeAdapter[SavedEvent] = TypeAdapter(SavedEvent)


def read_kept(kind: TypeAdapter[T], text: str | None, what: str) -> T | None:
    """Read what Redis has of a turn. Return None if that is empty, or can't be read, which is logged."""
    try:
        return kind.validate_json(text) if text else None
    except ValidationError as error:
        log.warning("%s of an unfinished turn cannot be read and is ignored: %d errors", what, error.error_count())
        return None


def save_event(event: TurnEvent, after: int) -> str:
    """Return JSON; "" for an event that is not continued.

    Hooks are not: they run again around an event that is continued, and those of a process end with it. Neither are
    texts for the coordinator, which asks again while it waits for them.
    """
    field = "mention" if isinstance(event, MentionEvent) else event.kind
    if field not in SavedEvent.__slots__ or (isinstance(event, ReflectionEvent) and event.writes):
        return ""
    begun: dict[str, Any] = {"after": after, field: event}
    return _SAVED.dump_json(SavedEvent(**begun), exclude_defaults=True).decode()


def read_saved_event(text: str | None) -> SavedEvent:
    """Read what `save_event` wrote; without an event if it can't be read."""
    return read_kept(_SAVED, text, "the event") or SavedEvent()
