"""The state of one conversation and its transitions: frozen values, no I/O, to and from JSON.

Its parts are the queue of speakers, the talk, and the counts. A round takes agents from the front of the queue.
`take_turn` records an answer, `miss_turn` an absence or a timeout. Posts are stored raw and put into the wire's format
only when they are sent, since reactions are added to earlier posts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Literal

from pydantic import TypeAdapter

from agentic.state.former_conversations import divide
from agentic.state.rooms import Room
from agentic.wire.messages import HistoryEntry, Result
from agentic.wire.reasons import EndReason

Missed = Literal["absent", "timed_out"]
# Reasons of turns that were dropped for a person's newer message, or whose model served other turns all the time.
GAVE_WAY = ("overtaken", "busy")
ON_REQUEST = "a person asked for it"
END_REQUESTS_NEEDED = 2  # in a row, not counting skips
MAX_HEARD = 5
MAX_TOPIC_CHARACTERS = 200
MAX_EMOJI_CHARACTERS = 100  # Discord's custom emoji stay below 60
MAX_ENTRY_CHARACTERS = 8_000
MAX_LINE_CHARACTERS = 2_000  # of a URL, or a picture's prompt
MAX_ROOM_HISTORY = 40  # messages; a room may be long, and its thread has the others
MAX_HISTORY_CHARACTERS = 150_000  # far below the wire's limit of a megabyte


@dataclass(frozen=True, slots=True)
class AgentReaction:
    emoji: str
    agent: str


@dataclass(frozen=True, slots=True)
class AgentPost:
    """An agent's message, with the agents' reactions to it. `answers`: id of the person's message that it answers."""

    agent: str
    text: str
    message_id: int | None = None
    reactions: tuple[AgentReaction, ...] = ()
    answers: int | None = None


@lru_cache(maxsize=256)  # each turn sends all earlier posts
def _history_entry(post: AgentPost) -> HistoryEntry:
    marks = " ".join(f"{reaction.emoji} ({reaction.agent})" for reaction in post.reactions)
    text = f"{post.text}  [reactions: {marks}]" if marks else post.text
    return HistoryEntry(agent=post.agent, text=text, message_id=post.message_id, answers_message_id=post.answers)


@dataclass(frozen=True, slots=True)
class PersonMessage:
    """A person's message during the conversation. `after`: how many posts the conversation had by then. `names`: agents
    that it names. `calls`: it calls an agent, which answers outside the conversation. `called`: room members that it
    calls; each answers with its next turn."""

    message_id: int
    text: str = ""
    names: tuple[str, ...] = ()
    replied_to: str | None = None
    calls: bool = False
    after: int = 0
    called: tuple[str, ...] = ()


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
    joining: int | None = None  # of a reactive round: id of the person's message that it joins
    single: bool = False  # one turn that an owner asked for, not a conversation
    requested: str | None = None  # agent that an owner wants to speak next
    granted: bool = False  # an owner asked for the turn of the first in `pending`
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
        return replace(
            self,
            pending=_without(agent, self.pending),
            asking=None,
            granted=False,
            last_in_order=self.last_in_order if self.granted else agent,
            named=None,
            named_by=None,
        )

    def emptied(self) -> SpeakerQueue:
        """Return the queue of a conversation that ended."""
        return replace(self, pending=(), asking=None, requested=None, granted=False, called=())


@dataclass(frozen=True, slots=True)
class Talk:
    """What was said, and hints for the next speaker."""

    history: tuple[AgentPost, ...] = ()
    heard: tuple[PersonMessage, ...] = ()  # people's newest messages, if the policy hears them
    answered: int = 0  # id of a person's newest message that a turn has answered
    topic: str | None = None
    last_speaker: str | None = None
    chosen_because: str | None = None  # why the first pending agent was chosen
    suggested_topic: str | None = None  # for that agent, since nothing calls for anyone
    perspective: str | None = None  # for the next speaker, since the conversation repeats itself
    perspectives: int = 0  # turns with a perspective since the last new thought

    @property
    def must_answer(self) -> int | None:
        """Return the id of the person's message that the next turn must answer."""
        newest = self.heard[-1] if self.heard else None
        return newest.message_id if newest and not newest.calls and newest.message_id > self.answered else None

    def hear(self, message: PersonMessage) -> Talk:
        """Add a person's message; a new one ends any repetition, an older one is ignored. If another process, or the
        agent that it calls, reports a known message again, names and calls are added to it."""
        if not self.heard or message.message_id > self.heard[-1].message_id:
            return replace(self, heard=(*self.heard, message)[-MAX_HEARD:], perspective=None, perspectives=0)
        known = next((each for each in self.heard if each.message_id == message.message_id), None)
        if known is None:
            return self
        called = tuple(dict.fromkeys((*known.called, *message.called)))
        calls = (known.calls or message.calls) and not called
        if (calls, called) == (known.calls, known.called):
            return self
        names = tuple(dict.fromkeys((*known.names, *message.names)))
        better = replace(known, text=known.text or message.text, names=names, calls=calls, called=called)
        return replace(self, heard=tuple(better if each is known else each for each in self.heard))

    def add_post(self, agent: str, result: Result, limit: int) -> Talk:
        """Add the agent's post, and keep the newest `limit` posts (0: all)."""
        post = AgentPost(agent, entry_text(result), result.message_id, answers=result.answers_message_id)
        return replace(
            self,
            history=(*self.history, post)[-limit:],
            answered=max(self.answered, self.must_answer or 0, result.answers_message_id or 0),
            last_speaker=agent,
            topic=self.topic or (result.topic or "")[:MAX_TOPIC_CHARACTERS] or None,
        )

    def add_reaction(self, reaction: AgentReaction, message_id: int | None) -> Talk:
        """Add a reaction to its post; without an id, which older agents don't send, to another agent's newest post.

        Reactions to other messages, such as people's, are only in the agents' own transcripts.
        """
        for index in range(len(self.history) - 1, -1, -1):
            post = self.history[index]
            if post.message_id == message_id if message_id is not None else post.agent != reaction.agent:
                changed = replace(post, reactions=(*post.reactions, reaction))
                return replace(self, history=(*self.history[:index], changed, *self.history[index + 1 :]))
        return self


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
        return replace(
            self,
            spoke=_without(agent, self.spoke),
            skipped=_without(agent, self.skipped),
            unheard=_without(agent, self.unheard),
            missing=_without(agent, self.missing),
        )

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
    talk: Talk = Talk()
    counts: Counts = Counts()

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

    # transitions

    def begin_round(self, order: tuple[str, ...]) -> ConversationState:
        return replace(self, queue=replace(self.queue, pending=order, asking=None), counts=self.counts.begin_round())

    def choose(
        self, speakers: tuple[str, ...], because: str | None, suggested_topic: str | None = None, *, new_round: bool
    ) -> ConversationState:
        """Set the next speakers, in a new round or in this one."""
        state = self.begin_round(speakers) if new_round else self
        return replace(
            state,
            queue=replace(state.queue, pending=speakers, waits_until=None),
            talk=replace(state.talk, chosen_because=because, suggested_topic=suggested_topic),
        )

    def hear(self, message: PersonMessage) -> ConversationState:
        """Take in a person's message: agents that were silent may speak again. An older message is ignored."""
        talk = self.talk.hear(message)
        if talk is self.talk:
            return self
        is_known = any(each.message_id == message.message_id for each in self.talk.heard)
        counts = self.counts if is_known else replace(self.counts, silent=(), end_streak=0)
        return replace(self, talk=talk, counts=counts)

    def request(self, agent: str | None) -> ConversationState:
        """Let the agent speak next, instead of an earlier request; None withdraws it."""
        return replace(self, queue=replace(self.queue, requested=agent))

    def grant_request(self) -> ConversationState:
        """Put the requested agent first in the round. If it has had its turn already, it gets another; if not, it gets
        its turn earlier."""
        queue, agent = self.queue, self.queue.requested
        if agent is None:
            return self
        pending = (agent, *_without(agent, queue.pending))
        return replace(
            self,
            queue=replace(queue, pending=pending, requested=None, granted=True, waits_until=None),
            talk=replace(self.talk, chosen_because=ON_REQUEST, suggested_topic=None),
            counts=self.counts.without(agent),
        )

    def begin_turn(self, instruction_id: str) -> ConversationState:
        """Begin the next turn. An open turn keeps its id after a restart: the agent may have its result already."""
        return self if self.queue.asking else replace(self, queue=replace(self.queue, asking=instruction_id))

    def take_turn(self, agent: str, result: Result) -> ConversationState:
        """Record an answer: a post, a reaction, both, or a skip. An empty answer is a skip, too."""
        state = self._after_turn(agent, counts_of(result))
        counts, talk = state.counts, state.talk
        if result.skipped and result.reason in GAVE_WAY:  # not a skip: it wanted to speak
            return replace(state, counts=replace(counts, unheard=(*counts.unheard, agent)))
        if result.next_agent:
            state = replace(state, queue=replace(state.queue, named=result.next_agent, named_by=agent))
        if is_skip(result):
            return replace(state, counts=replace(counts, skipped=(*counts.skipped, agent)))
        streak = counts.end_streak + 1 if result.end_conversation else 0
        counts = replace(counts, end_streak=streak, last_turn_showed=True)
        if result.emoji_reacted:
            emoji = result.emoji_reacted[:MAX_EMOJI_CHARACTERS]
            talk = talk.add_reaction(AgentReaction(emoji, agent), result.react_to_message_id)
        if is_post(result):
            talk = talk.add_post(agent, result, MAX_ROOM_HISTORY if state.room else 0)
            counts = replace(counts, spoke=(*counts.spoke, agent), silent=())
        return replace(state, talk=talk, counts=counts)

    def miss_turn(self, agent: str, why: Missed) -> ConversationState:
        is_absent = why == "absent"
        state = self._after_turn(agent, AgentCounts(absences=1) if is_absent else AgentCounts(timeouts=1))
        counts = state.counts
        if is_absent:
            return replace(state, counts=replace(counts, missing=(*counts.missing, agent)))
        return replace(state, counts=replace(counts, unheard=(*counts.unheard, agent)))

    def _after_turn(self, agent: str, did: AgentCounts) -> ConversationState:
        counts = replace(self.counts.add(agent, did), last_turn_showed=False, silent=(*self.counts.silent, agent))
        return replace(
            self,
            queue=self.queue.after_turn(agent),
            talk=replace(self.talk, chosen_because=None, suggested_topic=None),
            counts=counts,
        )

    def ended(self, because: EndReason) -> ConversationState:
        room = self.room and self.room.ended(because)
        return replace(self, ended_because=because, queue=self.queue.emptied(), room=room)

    # to the wire, to and from storage

    def wire_history(self) -> tuple[HistoryEntry, ...]:
        """Return the newest entries that fit as a whole, in order."""
        entries: list[HistoryEntry] = []
        room = MAX_HISTORY_CHARACTERS
        for post in reversed(self.talk.history):
            entry = _history_entry(post)
            room -= len(entry.text)
            if room < 0:
                break
            entries.append(entry)
        return tuple(reversed(entries))

    def to_json(self) -> str:
        return _stored().dump_json(self).decode()

    @classmethod
    def from_json(cls, raw: str) -> ConversationState:
        """Read what `to_json` of this or an earlier version wrote. Raises ValueError for anything else."""
        data = json.loads(raw)
        if isinstance(data, dict) and "queue" not in data:
            data = divide(data)
        state = _stored().validate_python(data)
        if state.room is None:
            return state
        return replace(state, theme=state.room.theme)  # an older version stored the channel's


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


def entry_text(result: Result) -> str:
    text = result.text or ""
    if len(text) > MAX_ENTRY_CHARACTERS:
        text = text[:MAX_ENTRY_CHARACTERS] + " […]"
    if not result.image_url:
        return text
    prompt = " ".join((result.image_prompt or "").replace('"', "'").split())
    url = result.image_url[:MAX_LINE_CHARACTERS]
    picture = f'[posted image: "{prompt[:MAX_LINE_CHARACTERS]}" → {url}]'
    return f"{text}\n{picture}" if text else picture


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
