"""The state of one conversation and its transitions: frozen values, no I/O, to and from JSON.

Its parts are the queue of speakers, the talk, and the counts. A round takes agents from the front of the queue.
`take_turn` records an answer, `miss_turn` an absence or a timeout. Posts are stored raw and put into the wire's format
only when they are sent, since reactions are added to earlier posts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from typing import Any, Literal

from pydantic import TypeAdapter

from agentic.state.former_conversations import divide
from agentic.state.rooms import Room
from agentic.state.talk import AgentReaction, PersonMessage, Talk, history_entry
from agentic.wire.messages import HistoryEntry, Result
from agentic.wire.reasons import EndReason

Missed = Literal["absent", "timed_out"]
# Reasons of turns that were dropped for a person's newer message, because their question was deleted meanwhile, or
# because their model served other turns all the time.
GAVE_WAY = ("overtaken", "withdrawn", "busy")
ON_REQUEST = "a person asked for it"
END_REQUESTS_NEEDED = 2  # in a row, not counting skips
MAX_TO_ANSWER = 5  # messages of people in one turn
MAX_EMOJI_CHARACTERS = 100  # Discord's custom emoji stay below 60
MAX_ROOM_HISTORY = 40  # messages; a room may be long, and its thread has the others
MAX_HISTORY_CHARACTERS = 150_000  # far below the wire's limit of a megabyte
NO_TURN: Mapping[str, Any] = {"asking": None, "answering": (), "granted": False, "is_extra": False, "hurried": False}


@dataclass(frozen=True, slots=True)
class AgentCounts:
    """An agent's counts in a conversation. Money in US dollars."""

    messages: int = 0
    skips: int = 0
    timeouts: int = 0
    absences: int = 0
    reactions: int = 0
    pictures: int = 0
    calls: int = 0
    searches: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: AgentCounts) -> AgentCounts:
        return AgentCounts(**{name: getattr(self, name) + getattr(other, name) for name in AgentCounts.__slots__})


@dataclass(frozen=True, slots=True)
class SpeakerQueue:
    """Who speaks next, and who asked for it."""

    pending: tuple[str, ...] = ()  # agents still to speak in this round
    asking: str | None = None  # instruction id of the open turn, the first pending agent's
    answering: tuple[int, ...] = ()  # ids of people's messages that the open turn must answer, oldest first
    joining: int | None = None  # of a reactive round: id of the person's message that it joins
    single: bool = False  # one turn that an owner asked for, not a conversation
    requested: str | None = None  # agent that an owner wants to speak next
    granted: bool = False  # an owner asked for the turn of the first in `pending`
    is_extra: bool = False  # in a room: that turn comes on top of the member's own turns
    hurried: bool = False  # a person wants the next turn now
    called: tuple[str, ...] = ()  # in a room: members that people called; they speak next, one by one
    last_in_order: str | None = None  # the last agent whose turn no person had asked for
    named: str | None = None  # agent that the last turn named as the next
    named_by: str | None = None
    waits_until: float | None = None  # unix seconds; for a person to name a speaker

    @property
    def speaker(self) -> str | None:
        """Return whose turn it is; None between two rounds."""
        return self.pending[0] if self.pending else None

    @property
    def coming(self) -> tuple[str, ...]:
        """Return the agents after the speaker in this round, beginning with the one that an owner asked for."""
        if self.requested is None:
            return self.pending[1:]
        return (self.requested, *_without(self.requested, self.pending[1:]))

    @property
    def is_brief(self) -> bool:
        """Whether this is a reactive round or a single turn rather than a conversation."""
        return self.single or self.joining is not None

    def after_turn(self, agent: str) -> SpeakerQueue:
        """Return the queue after the agent's turn."""
        last, left = self.last_in_order if self.granted else agent, _without(agent, self.pending)
        return replace(self, **NO_TURN, pending=left, last_in_order=last, named=None, named_by=None)

    def emptied(self) -> SpeakerQueue:
        """Return the queue of a conversation that ended."""
        return replace(self, **NO_TURN, pending=(), requested=None, called=())


@dataclass(frozen=True, slots=True)
class Counts:
    """The round and who did what in it, turns in a row, and sums of the conversation."""

    round: int = 0
    spoke: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()  # timed out, or dropped for a person's message
    missing: tuple[str, ...] = ()  # absent
    silent: tuple[str, ...] = ()  # had a turn since the newest message and posted nothing, in order
    last_turn_showed: bool = False  # the last turn left a post or a reaction in the channel
    end_streak: int = 0  # turns in a row that asked for the end, without skips
    idle_turns: int = 0  # in a room: turns in a row without a post, without failures
    away: tuple[str, ...] = ()  # in a room: absent since any agent answered
    unseen: int = 0  # in a room: turns in a row whose agents didn't see the thread
    agents: Mapping[str, AgentCounts] = field(default_factory=dict)

    @property
    def turns(self) -> int:
        """Return the turns of this round, without absent agents."""
        return len(self.spoke) + len(self.skipped) + len(self.unheard)

    @property
    def messages(self) -> int:
        """Return the number of posts in the conversation; the history has the last ones."""
        return sum(counts.messages for counts in self.agents.values())

    @property
    def total(self) -> AgentCounts:
        return sum(self.agents.values(), AgentCounts())

    @property
    def agreed_to_end(self) -> bool:
        return self.end_streak >= END_REQUESTS_NEEDED

    def begin_round(self) -> Counts:
        return replace(self, round=self.round + 1, spoke=(), skipped=(), unheard=(), missing=(), silent=())

    def without(self, agent: str) -> Counts:
        """Return the counts as if the agent had not had its turn in this round."""
        spoke, skipped = _without(agent, self.spoke), _without(agent, self.skipped)
        unheard, missing = _without(agent, self.unheard), _without(agent, self.missing)
        return replace(self, spoke=spoke, skipped=skipped, unheard=unheard, missing=missing)

    def add(self, agent: str, counts: AgentCounts) -> Counts:
        return replace(self, agents={**self.agents, agent: self.agents.get(agent, AgentCounts()) + counts})


@dataclass(frozen=True, slots=True)
class ConversationState:
    id: str
    channel_id: int
    theme: str
    started_at: float
    policy: str = "rounds"  # by name, agent_coordinator/policies/by_name.py
    room: Room | None = None  # if this is a room's conversation
    ended_because: EndReason | None = None
    touched_at: float = 0.0  # unix seconds of the last step
    queue: SpeakerQueue = SpeakerQueue()
    talk: Talk = field(default_factory=Talk)
    counts: Counts = Counts()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing runs: only what people asked in a paused or closed room is kept."""
        return self.room is not None and self.room.status != "active" and self.queue.asking is None

    @property
    def is_opened(self) -> bool:
        """Whether there is a first post; until then each agent is asked to start."""
        return bool(self.talk.history) or (self.room is not None and self.room.turn_number > 0)

    @property
    def messages(self) -> int:
        """Return the number of posts; in a room, since it was opened."""
        return self.room.turn_number if self.room else self.counts.messages

    @property
    def skips(self) -> int:
        return self.room.skips if self.room else self.counts.total.skips

    @property
    def cost_usd(self) -> float:
        return self.room.cost_usd if self.room else self.counts.total.cost_usd

    @property
    def present(self) -> int:
        """Return how many agents of this round are not absent."""
        return len({*self.counts.spoke, *self.counts.skipped, *self.counts.unheard, *self.queue.pending})

    @property
    def heard(self) -> tuple[PersonMessage, ...]:
        """Return people's messages that matter, oldest first: in a room, only messages that need an answer."""
        return tuple(each for each in self.talk.heard if self.room is None or each.binds)

    def to_answer(self, agent: str) -> tuple[int, ...]:
        """Return the ids of people's messages that the agent's next turn must answer, oldest first. In a room, those
        that are for the agent come before those for any member, and those beyond MAX_TO_ANSWER are left to others."""
        if self.room is None:
            return () if self.talk.must_answer is None else (self.talk.must_answer,)
        own, anyones = list[int](), list[int]()
        for message in self.talk.heard:
            waits_for = message.waits_for(self.room.names)
            if waits_for is not None and agent in (waits_for or (agent,)):
                (own if waits_for else anyones).append(message.message_id)
        return tuple(sorted([*own, *anyones][:MAX_TO_ANSWER]))

    @property
    def person_waits(self) -> bool:
        """Whether the next turn must answer a person."""
        if self.room is None:
            return self.talk.must_answer is not None
        if self.queue.speaker is not None:
            return bool(self.to_answer(self.queue.speaker))
        return any(each.waits_for(self.room.names) == () for each in self.talk.heard)

    @property
    def speaking(self) -> str | None:
        """Return whose turn is under way."""
        return self.queue.speaker if self.queue.asking is not None else None

    @property
    def next_speaker(self) -> str | None:
        """Return who speaks next in a room, or after the turn under way; None if that isn't known yet, or if nobody
        does."""
        room, queue = self.room, self.queue
        if room is None or room.closing_because is not None:
            return None
        if self.speaking is not None and room.turn_number + 1 >= room.turns and not queue.is_extra:
            return None
        waiting = queue.pending[1:] if queue.asking is not None else queue.pending
        for agent in (queue.requested, *queue.called, *waiting):
            if agent is not None and room.member(agent) is not None:
                return agent
        had = room.phase_turns
        if self.speaking is not None and had is not None and not queue.is_extra:
            room = room.model_copy(update={"phase_turns": (*had, self.speaking)})
        due = room.due or room.names
        if len(due) == 1 and room.due:
            return due[0]
        if room.guest is not None and self.policy in ("round-robin", "rounds"):
            return next((agent for agent in due if agent != room.guest.name), None)
        if self.policy != "round-robin":
            return None
        last = queue.last_in_order if self.speaking is None or queue.granted else self.speaking
        place = room.names.index(last) + 1 if last in room.names else 0
        order = (*room.names[place:], *room.names[:place])
        return next((agent for agent in order if agent in due), None)

    # transitions

    def with_room(self, **changes: Any) -> ConversationState:
        """Change fields of the room. Without a room, nothing changes."""
        return self if self.room is None else replace(self, room=self.room.model_copy(update=changes))

    def with_queue(self, **changes: Any) -> ConversationState:
        return replace(self, queue=replace(self.queue, **changes))

    def with_talk(self, **changes: Any) -> ConversationState:
        return replace(self, talk=replace(self.talk, **changes))

    def with_counts(self, **changes: Any) -> ConversationState:
        return replace(self, counts=replace(self.counts, **changes))

    def begin_round(self, order: tuple[str, ...]) -> ConversationState:
        return replace(self, queue=replace(self.queue, pending=order, asking=None), counts=self.counts.begin_round())

    def choose(
        self, speakers: tuple[str, ...], because: str | None, suggested_topic: str | None = None, *, new_round: bool
    ) -> ConversationState:
        """Set the next speakers, in a new round or in this one."""
        state = self.begin_round(speakers) if new_round else self
        state = state.with_queue(pending=speakers, waits_until=None)
        return state.with_talk(chosen_because=because, suggested_topic=suggested_topic)

    def hear(self, message: PersonMessage) -> ConversationState:
        """Take in a person's message: agents that were silent may speak again. In a room, a message that binds nobody
        changes nothing else."""
        is_known = self.talk.known(message.message_id) is not None
        talk = self.talk.hear(message) if self.room is None else self.talk.hear_in_room(message, self.room.names)
        if talk is self.talk:
            return self
        is_idle = is_known or (self.room is not None and not message.binds)
        counts = self.counts if is_idle else replace(self.counts, silent=(), end_streak=0)
        return replace(self, talk=talk, counts=counts)

    def request(self, agent: str | None) -> ConversationState:
        """Let the agent speak next, instead of an earlier request; None withdraws it."""
        return self.with_queue(requested=agent)

    def grant_request(self, *, is_extra: bool = False) -> ConversationState:
        """Put the requested agent first in the round. If it has had its turn already, it gets another; if not, it gets
        its turn earlier."""
        queue, agent = self.queue, self.queue.requested
        if agent is None:
            return self
        pending = (agent, *_without(agent, queue.pending))
        state = replace(self, counts=self.counts.without(agent))
        state = state.with_queue(pending=pending, requested=None, granted=True, is_extra=is_extra, waits_until=None)
        return state.with_talk(chosen_because=ON_REQUEST, suggested_topic=None)

    def begin_turn(self, instruction_id: str) -> ConversationState:
        """Begin the next turn. An open turn keeps its id after a restart: the agent may have its result already."""
        if self.queue.asking:
            return self
        return self.with_queue(asking=instruction_id, answering=self.to_answer(self.queue.pending[0]))

    def take_turn(self, agent: str, result: Result) -> ConversationState:
        """Record an answer: a post, a reaction, both, or a skip. An empty answer is a skip, too."""
        state = self._after_turn(agent, counts_of(result))
        counts, talk = state.counts, state.talk
        if result.skipped and result.reason in GAVE_WAY:  # not a skip: it wanted to speak
            return state.with_counts(unheard=(*counts.unheard, agent))
        if result.next_agent:
            state = state.with_queue(named=result.next_agent, named_by=agent)
        if is_skip(result):
            return state.with_counts(skipped=(*counts.skipped, agent))
        streak = counts.end_streak + 1 if result.end_conversation else 0
        counts = replace(counts, end_streak=streak, last_turn_showed=True)
        if result.emoji_reacted:
            emoji = result.emoji_reacted[:MAX_EMOJI_CHARACTERS]
            talk = talk.add_reaction(AgentReaction(emoji, agent), result.react_to_message_id)
        if is_post(result):
            answered = result.answers_message_id or 0
            if state.room is None:
                talk = replace(talk, answered=max(talk.answered, talk.must_answer or 0, answered))
            else:
                talk = talk.add_answer(agent, {*self.queue.answering, answered})
            talk = talk.add_post(agent, result, MAX_ROOM_HISTORY if state.room else 0)
            counts = replace(counts, spoke=(*counts.spoke, agent), silent=())
        return replace(state, talk=talk, counts=counts)

    def miss_turn(self, agent: str, why: Missed) -> ConversationState:
        if why == "absent":
            state = self._after_turn(agent, AgentCounts(absences=1))
            return state.with_counts(missing=(*state.counts.missing, agent))
        state = self._after_turn(agent, AgentCounts(timeouts=1))
        return state.with_counts(unheard=(*state.counts.unheard, agent))

    def _after_turn(self, agent: str, did: AgentCounts) -> ConversationState:
        counts = replace(self.counts.add(agent, did), last_turn_showed=False, silent=(*self.counts.silent, agent))
        state = replace(self, queue=self.queue.after_turn(agent), counts=counts)
        return state.with_talk(chosen_because=None, suggested_topic=None)

    def ended(self, because: EndReason) -> ConversationState:
        room = self.room and self.room.ended(because)
        return replace(self, ended_because=because, queue=self.queue.emptied(), room=room)

    # to the wire, to and from storage

    def wire_history(self) -> tuple[HistoryEntry, ...]:
        """Return the newest entries that fit as a whole, in order."""
        newest = [history_entry(post) for post in reversed(self.talk.history)]
        sizes = accumulate(len(entry.text) for entry in newest)
        return tuple(newest[: sum(size <= MAX_HISTORY_CHARACTERS for size in sizes)][::-1])

    def to_json(self) -> str:
        return _stored().dump_json(self).decode()

    @classmethod
    def from_json(cls, raw: str) -> ConversationState:
        """Read what `to_json` of this or an earlier version wrote. Raises ValueError for anything else."""
        data = json.loads(raw)
        if isinstance(data, dict) and "queue" not in data:
            data = divide(data)
        state = _stored().validate_python(data)
        return state if state.room is None else replace(state, theme=state.room.theme)  # older: the channel's


@cache
def _stored() -> TypeAdapter[ConversationState]:
    """Return the (de)serializer of states, which is built on first use, for a quicker start."""
    return TypeAdapter(ConversationState)


def _without(agent: str, agents: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(other for other in agents if other != agent)


def is_post(result: Result) -> bool:
    """Whether the turn posted a message."""
    return not result.skipped and bool(result.text or result.image_url)


def is_skip(result: Result) -> bool:
    return result.skipped or not (result.text or result.image_url or result.emoji_reacted)


def counts_of(result: Result) -> AgentCounts:
    """Return the counts of a result. A skip has usage, too: the model was asked."""
    skip = is_skip(result)
    counts = AgentCounts(
        messages=int(is_post(result)),
        skips=int(skip),
        reactions=int(bool(result.emoji_reacted) and not skip),
        pictures=int(bool(result.image_url) and not skip),
    )
    if result.usage is None:
        return counts
    of_usage = ("calls", "searches", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost_usd")
    return replace(counts, **{name: getattr(result.usage, name) for name in of_usage})
