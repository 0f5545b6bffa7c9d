"""The events that begin turns, and how another process reads an event back to continue its turn.

TurnEvent
├─ MentionEvent       a person or another agent calls the agent
├─ InstructionEvent   the coordinator tells the agent to take a turn
└─ AutomationEvent    a task that nobody in a channel asked for
   ├─ HeartbeatEvent, CronEvent, HookEvent   from the persona's files
   ├─ WebhookEvent                           a request from outside
   └─ ReflectionEvent                        the coordinator's background tasks
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

MENTION_SECONDS = 120.0  # for a mention's turn
LONGEST_TURN = 600.0  # seconds; a deadline from another process may be wrong, and clocks may change
POST_SECONDS = 10.0  # before the deadline, reserved for posting

MOMENTS = {
    "startup": "you have just started",
    "shutdown": "you are about to stop",
    "agent_begin": "you are about to handle an event: {kind}",
    "agent_stop": "you have just handled an event: {kind}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvent:
    """An event in a lane. Nothing is posted after `deadline`, in unix seconds. If `seconds` is set, the turn has that
    long from its start instead. `on_behalf` is the person whose budget pays for it, if known. The inbox sets `seq`, a
    number that only grows, and `at`, the time of the event's arrival in unix seconds."""

    kind: ClassVar[str] = ""
    origin: ClassVar[str] = ""  # the source as people read it, a format string for the event; "" for its kind

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
        """The event's lane in the inbox: its channel, or a lane of its own without a channel."""
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
        """The person who caused the event, if that is known before the turn reads the channel."""
        return self.on_behalf

    @property
    def for_people(self) -> bool:
        """Whether a person caused it: it may use the daily turns that are reserved for people."""
        return self.person_id is not None

    @property
    def forced(self) -> bool:
        """Whether somebody waits for an answer, so the agent may not stay silent."""
        return False

    @property
    def cools_down(self) -> bool:
        """Whether the channel's cooldown applies."""
        return False

    @property
    def answers_person(self) -> bool:
        """Whether it answers a person who called the agent: with the option always_search, the turn searches first."""
        return False

    @property
    def reports(self) -> bool:
        """Whether the coordinator waits for the result, and repeats its request until there is one."""
        return self.kind in ("instruction", "reflection")

    @property
    def reply_to(self) -> int | None:
        """The message that the post is a Discord reply to."""
        return None


def deadline_of(instruction: Instruction, now: float) -> float:
    """Return unix seconds: by default 90 seconds from now, at most ten minutes."""
    return min(instruction.deadline or now + DEFAULT_DEADLINE_SECONDS, now + LONGEST_TURN)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationEvent(TurnEvent):
    """A task that nobody in a channel asked for: not forced, and without a cooldown. Its time starts with its turn,
    since nobody waits for it. If `channel_id` is NO_CHANNEL, nobody sees the answer."""

    @property
    def task(self) -> AutomationTask:
        raise TypeError(f"{type(self).__name__} has no task")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatEvent(AutomationEvent):
    """A check in heartbeat.md is due."""

    kind: ClassVar[str] = "heartbeat"
    origin: ClassVar[str] = "heartbeat.md: {0.check}"

    check: str
    instruction: str

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"your regular check “{self.check}”", text=self.instruction)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronEvent(AutomationEvent):
    """A job in agents.md is due."""

    kind: ClassVar[str] = "cron"
    origin: ClassVar[str] = "agents.md: {0.job}"

    job: str
    instruction: str

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"your scheduled job “{self.job}”", text=self.instruction)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent(AutomationEvent):
    """A hook in agents.md. `around` is the kind of event that the hook runs before or after, or ""; `on_behalf` is the
    person who caused that event. An `aside` hook reads the event's channel without posting there."""

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
    """A signed request from outside. The signature lets it begin a turn; its text is data, not an order."""

    kind: ClassVar[str] = "webhook"
    origin: ClassVar[str] = "webhook: {0.name}"

    name: str
    payload_text: str

    @property
    def task(self) -> AutomationTask:
        return AutomationTask(occasion=f"webhook “{self.name}”", text=self.payload_text, data=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionEvent(TurnEvent):
    """The coordinator tells the agent to take a turn: in a conversation or room, in reaction to a person's message (the
    trigger message), or because an owner asked for it."""

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
        """Whether it answers a person, or a person asked for it. A room's other turns are not for people, although they
        count against its opener's budget."""
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
    """A person calls the agent, or another agent does (inbox/triggers.py).

    `to_all`: the message mentions the bots' role, so every bot answers. `late`: the agent was offline when it was
    called. `unaddressed`: the message names nobody, but the agent answers everything there. `continues`: the person
    wants no answer, only that the conversation continues.

    `pieces` are the person's other messages that belong to the question; the newest of all came at `heard_at`, in unix
    seconds. `on_behalf` is the person who started the chain in which another agent asks. `signs_at` is the message to
    react to if the asked message is a command that is being deleted.
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
        """Whether a person calls. Another agent is neither pinged nor told why there is no answer."""
        return self.asked.speaker.kind == "person"

    @property
    def person_id(self) -> int | None:
        return self.asked.speaker.id if self.by_person else self.on_behalf

    @property
    def ping(self) -> int | None:
        return self.asked.speaker.id if self.by_person and not (self.continues or self.unaddressed) else None

    @property
    def joined_ids(self) -> tuple[str, ...]:
        """The ids of the turns that would have answered each piece alone."""
        return tuple(mention_id(piece.id) for piece in self.pieces)

    @property
    def reaction_target(self) -> int:
        """The message to react to, for example with the reason for silence."""
        return self.asked.id if self.signs_at is None else self.signs_at

    @property
    def forced(self) -> bool:
        return self.by_person

    @property
    def answers_person(self) -> bool:
        return self.by_person and not self.continues

    @property
    def cools_down(self) -> bool:
        """Whether the channel's cooldown applies. It would break a chain of agents at its first link, stop a person who
        asks an agent to continue right after it spoke, and cut off people if the agent answers everything."""
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
        """Build the event. The turn may take `seconds`; `more` are further fields. See Services.mention."""
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
    """A background task from the coordinator for times when nobody writes. It either writes a text for the coordinator
    with one model call (WRITTEN), or may post an unprompted message (PROACTIVE).

    A post is charged to the budget of the person it's for, but it isn't a turn for people, since nobody waits for it. A
    text for the coordinator is charged to nobody.
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
        """The event's lane: a text for the coordinator has its own, so it and the channel's turns don't wait for each
        other."""
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
        """Build the event; None if the task is unknown, or if it would post for nobody."""
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
    """Whether the turn may search the web in any theme; scheduled tasks are often about news."""
    return isinstance(event, HeartbeatEvent | CronEvent) or is_proactive(event)


def is_writing(event: TurnEvent) -> TypeGuard[ReflectionEvent]:
    """Whether the turn only writes a text for the coordinator: no hook runs around it."""
    return isinstance(event, ReflectionEvent) and event.writes


def is_proactive(event: TurnEvent) -> TypeGuard[ReflectionEvent]:
    """Whether the turn may post an unprompted message."""
    return isinstance(event, ReflectionEvent) and not event.writes


def searches_first(event: TurnEvent, options: Options) -> bool:
    """Whether the turn searches the web once before it answers. An unprompted message needs news to write about."""
    return is_proactive(event) or (options.always_search and event.answers_person)


def asked_id(event: TurnEvent) -> int | None:
    """Return the person's message that the turn answers, if any."""
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
    """The event that began a turn. `after` is the id of the channel's newest message at that time, or 0."""

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
    """Parse a part of a turn from Redis. Return None if it's empty, or if it can't be read, which is logged."""
    try:
        return kind.validate_json(text) if text else None
    except ValidationError as error:
        log.warning("cannot read %s of an unfinished turn, which is ignored: %d errors", what, error.error_count())
        return None


def save_event(event: TurnEvent, after: int) -> str:
    """Return JSON, or "" for an event whose turn is never continued. Hooks run again around a continued event, and a
    process's own hooks end with it. The coordinator asks again for texts that it waits for."""
    field = "mention" if isinstance(event, MentionEvent) else event.kind
    if field not in SavedEvent.__slots__ or (isinstance(event, ReflectionEvent) and event.writes):
        return ""
    begun: dict[str, Any] = {"after": after, field: event}
    return _SAVED.dump_json(SavedEvent(**begun), exclude_defaults=True).decode()


def read_saved_event(text: str | None) -> SavedEvent:
    """Parse the output of `save_event`; without an event if it can't be read."""
    return read_kept(_SAVED, text, "the event") or SavedEvent()
