"""The state of one conversation and its transitions: frozen values, no I/O, to and from JSON.

A round takes agents from the front of `pending`; `take_turn` records an answer, `miss_turn` an absence or a timeout.
History is stored raw and written in the wire's format only when it is sent, since a later reaction belongs to an
earlier entry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from agentic.state.rooms import Room
from agentic.wire.messages import HistoryEntry, Result
from agentic.wire.reasons import EndReason

Missed = Literal["absent", "timed_out"]
OVERTAKEN = "overtaken"  # the reason of a turn that was dropped for a person's newer message
ON_REQUEST = "a person asked for it"
END_REQUESTS_NEEDED = 2  # in a row, not counting skips
MAX_HEARD = 5
MAX_TOPIC_CHARACTERS = 200
MAX_EMOJI_CHARACTERS = 100  # Discord's own custom ones stay below 60
MAX_ENTRY_CHARACTERS = 8_000
MAX_LINE_CHARACTERS = 2_000  # of an address, a picture's prompt
MAX_ROOM_HISTORY = 40  # messages; a room has no end, and its thread has the others
MAX_HISTORY_CHARACTERS = 150_000  # what is sent stays far below the wire's limit of a megabyte


@dataclass(frozen=True, slots=True)
class AgentReaction:
    emoji: str
    agent: str


@dataclass(frozen=True, slots=True)
class AgentPost:
    """A message of the conversation, with the agents' reactions to it. `answers`: a person's newest message that it
    answers."""

    agent: str
    text: str
    message_id: int | None = None
    reactions: tuple[AgentReaction, ...] = ()
    answers: int | None = None

    def to_history(self) -> HistoryEntry:
        marks = " ".join(f"{reaction.emoji} ({reaction.agent})" for reaction in self.reactions)
        text = f"{self.text}  [reactions: {marks}]" if marks else self.text
        return HistoryEntry(agent=self.agent, text=text, message_id=self.message_id, answers_message_id=self.answers)


@dataclass(frozen=True, slots=True)
class PersonMessage:
    """A person's message during the conversation. `after`: how many messages the conversation had by then. `names`: the
    agents named in it; `calls`: it calls an agent, which answers it outside the conversation; `called`: the members of
    a room that it calls, each of which has its next turn for it."""

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
class ConversationState:
    """`pending`: the round's agents to come. The others are in `spoke`, `skipped`, `missing` (absent) or `unheard`
    (timed out, or dropped for a person's message)."""

    conversation_id: str
    channel_id: int
    theme: str
    started_at: float
    round_number: int = 0
    pending: tuple[str, ...] = ()
    asking: str | None = None  # the instruction's id of the turn under way, the first pending agent's
    touched_at: float = 0.0  # unix seconds of the last step
    spoke: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    history: tuple[AgentPost, ...] = ()
    topic: str | None = None
    last_speaker: str | None = None
    last_turn_showed: bool = False  # the last turn left something to see in the channel
    end_streak: int = 0
    tallies: Mapping[str, AgentCounts] = field(default_factory=dict)
    ended_because: EndReason | None = None
    joining: int | None = None  # of a reactive round, a single one: the person's message that it joins
    single: bool = False  # no conversation: one turn, which an owner asked for
    requested: str | None = None  # the agent that an owner wants to speak next
    called: tuple[str, ...] = ()  # in a room: members that people called, who speak next, one after the other
    granted: bool = False  # the first of `pending` has its turn because an owner asked for it
    policy: str = "rounds"  # by name, agent_coordinator/policies/by_name.py
    room: Room | None = None  # the room that this is the conversation of
    idle_turns: int = 0  # in a room: in a row, in which an agent had nothing to post; failures left out
    away: tuple[str, ...] = ()  # in a room: were absent, since any agent answered
    unseen: int = 0  # in a room: turns in a row whose agents did not see the thread
    last_in_order: str | None = None  # the last one that had its turn without being asked for by a person
    silent: tuple[str, ...] = ()  # had a turn since the newest message and left none, in order
    heard: tuple[PersonMessage, ...] = ()  # people's newest messages, if the policy hears them
    taken_up: int = 0  # the newest message of a person that a turn has taken up
    named: str | None = None  # by the last turn, to speak next
    named_by: str | None = None
    chosen_because: str | None = None  # the first of `pending`
    lead: str | None = None  # what that one is to bring in, since nothing calls for anybody
    angle: str | None = None  # what the next speaker is to bring in, since the talk repeats itself
    angles: int = 0  # turns that had one, since the last message that was new
    waits_until: float | None = None  # unix seconds: for a person to name somebody

    @property
    def opened(self) -> bool:
        """Whether there is a first message; until then each agent is asked to start."""
        return bool(self.history) or (self.room is not None and self.room.turn_number > 0)

    @property
    def brief(self) -> bool:
        """Whether it is no conversation, but a reactive round or a single turn."""
        return self.single or self.joining is not None

    @property
    def present(self) -> int:
        """How many agents of this round are not absent."""
        return len({*self.spoke, *self.skipped, *self.unheard, *self.pending})

    @property
    def turns_had(self) -> int:
        """In this round, by agents that are not absent."""
        return len(self.spoke) + len(self.skipped) + len(self.unheard)

    @property
    def messages(self) -> int:
        """All of the conversation; `history` has the last ones."""
        return sum(counts.messages for counts in self.tallies.values())

    @property
    def agreed_to_end(self) -> bool:
        return self.end_streak >= END_REQUESTS_NEEDED

    @property
    def take_up(self) -> int | None:
        """The person's message that the next turn takes up."""
        newest = self.heard[-1] if self.heard else None
        return newest.message_id if newest and not newest.calls and newest.message_id > self.taken_up else None

    @property
    def total(self) -> AgentCounts:
        return sum(self.tallies.values(), AgentCounts())

    # transitions

    def begin_round(self, order: tuple[str, ...]) -> ConversationState:
        return replace(
            self,
            round_number=self.round_number + 1,
            pending=order,
            asking=None,
            spoke=(),
            skipped=(),
            unheard=(),
            missing=(),
            silent=(),
        )

    def choose(
        self, speakers: tuple[str, ...], because: str | None, lead: str | None = None, *, new_round: bool
    ) -> ConversationState:
        """The state with the next speakers, in a round of their own or in this one."""
        state = self.begin_round(speakers) if new_round else replace(self, pending=speakers)
        return replace(state, chosen_because=because, lead=lead, waits_until=None)

    def hear(self, message: PersonMessage) -> ConversationState:
        """A person wrote: agents that were silent may speak again, nothing is stale. An older message is ignored."""
        if not self.heard or message.message_id > self.heard[-1].message_id:
            heard = (*self.heard, message)[-MAX_HEARD:]
            return replace(self, heard=heard, silent=(), end_streak=0, angle=None, angles=0)
        # Another process, or the agent that it calls, reports a message again.
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

    def grant_request(self) -> ConversationState:
        """The state with the requested agent first in the round. One that has had its turn in this round has another
        one, in its place; one that has not has no second one by that."""
        if self.requested is None:
            return self

        return replace(
            self,
            pending=(self.requested, *_without(self.requested, self.pending)),
            spoke=_without(self.requested, self.spoke),
            skipped=_without(self.requested, self.skipped),
            unheard=_without(self.requested, self.unheard),
            missing=_without(self.requested, self.missing),
            requested=None,
            granted=True,
            chosen_because=ON_REQUEST,
            lead=None,
            waits_until=None,
        )

    def begin_turn(self, instruction_id: str) -> ConversationState:
        """A turn that was under way when the process ended keeps its id: the agent may have the result already."""
        return self if self.asking else replace(self, asking=instruction_id)

    def take_turn(self, agent: str, result: Result) -> ConversationState:
        """Records an answer: a message, a reaction, both, or a skip (an answer with nothing in it is one too)."""
        state = self._no_longer_pending(agent)
        if result.skipped and result.reason == OVERTAKEN:  # not a skip: it wanted to speak
            return replace(state, unheard=(*state.unheard, agent))._count(agent, counts_of(result))
        if result.next_agent:
            state = replace(state, named=result.next_agent, named_by=agent)
        if is_skip(result):
            return replace(state, skipped=(*state.skipped, agent))._count(agent, counts_of(result))
        streak = state.end_streak + 1 if result.end_conversation else 0
        state = replace(state, end_streak=streak, last_turn_showed=True)
        if result.emoji_reacted:
            emoji = result.emoji_reacted[:MAX_EMOJI_CHARACTERS]
            state = state._with_reaction(AgentReaction(emoji, agent), result.react_to_message_id)
        if is_post(result):
            post = AgentPost(agent, entry_text(result), result.message_id, answers=result.answers_message_id)
            state = replace(
                state,
                history=(*state.history, post)[-MAX_ROOM_HISTORY if state.room else 0 :],
                spoke=(*state.spoke, agent),
                silent=(),
                taken_up=max(state.taken_up, self.take_up or 0, result.answers_message_id or 0),
                last_speaker=agent,
                topic=state.topic or (result.topic or "")[:MAX_TOPIC_CHARACTERS] or None,
            )
        return state._count(agent, counts_of(result))

    def miss_turn(self, agent: str, why: Missed) -> ConversationState:
        state = self._no_longer_pending(agent)
        if why == "absent":
            return replace(state, missing=(*state.missing, agent))._count(agent, AgentCounts(absences=1))
        return replace(state, unheard=(*state.unheard, agent))._count(agent, AgentCounts(timeouts=1))

    def ended(self, because: EndReason) -> ConversationState:
        room = self.room and self.room.ended(because)
        return replace(
            self,
            ended_because=because,
            pending=(),
            asking=None,
            requested=None,
            called=(),
            granted=False,
            room=room,
        )

    # what is sent, what is kept

    def wire_history(self) -> tuple[HistoryEntry, ...]:
        """The newest entries in order, as many as fit; whole ones only."""
        entries: list[HistoryEntry] = []
        room = MAX_HISTORY_CHARACTERS
        for post in reversed(self.history):
            entry = post.to_history()
            room -= len(entry.text)
            if room < 0:
                break
            entries.append(entry)
        return tuple(reversed(entries))

    def to_json(self) -> str:
        """Without asdict(), which would copy the whole history at each step."""

        def plain(value: Any) -> Any:
            if isinstance(value, Room):
                return value.model_dump(mode="json")
            return {name: getattr(value, name) for name in value.__slots__}

        return json.dumps(self, default=plain, ensure_ascii=False)

    @classmethod
    def from_json(cls, raw: str) -> ConversationState:
        """Raises ValueError for anything that `to_json` did not write."""
        try:
            return cls(**_read_fields(json.loads(raw)))
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a conversation's state: {error}") from error

    # pieces of the transitions

    def _no_longer_pending(self, agent: str) -> ConversationState:
        return replace(
            self,
            pending=_without(agent, self.pending),
            asking=None,
            granted=False,
            last_turn_showed=False,
            last_in_order=self.last_in_order if self.granted else agent,
            silent=(*self.silent, agent),
            named=None,
            named_by=None,
            chosen_because=None,
            lead=None,
        )

    def _count(self, agent: str, counts: AgentCounts) -> ConversationState:
        return replace(self, tallies={**self.tallies, agent: self.tallies.get(agent, AgentCounts()) + counts})

    def _with_reaction(self, reaction: AgentReaction, message_id: int | None) -> ConversationState:
        """Add to the entry reacted to; without an id (older agents send none) to the newest one of another agent.

        A reaction to any other message, a person's for one, is only in the agents' own transcripts.
        """
        for index in range(len(self.history) - 1, -1, -1):
            post = self.history[index]
            if post.message_id == message_id if message_id is not None else post.agent != reaction.agent:
                changed = replace(post, reactions=(*post.reactions, reaction))
                return replace(self, history=(*self.history[:index], changed, *self.history[index + 1 :]))
        return self


def _without(agent: str, agents: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(other for other in agents if other != agent)


def _read_fields(data: dict[str, Any]) -> dict[str, Any]:
    """Turn JSON's lists and objects back into tuples and dataclasses."""
    data = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    data["history"] = tuple(
        AgentPost(**{**post, "reactions": tuple(AgentReaction(**reaction) for reaction in post["reactions"])})
        for post in data["history"]
    )
    data["heard"] = tuple(
        PersonMessage(**{**message, "names": tuple(message["names"]), "called": tuple(message.get("called", ()))})
        for message in data.get("heard", ())
    )
    data["tallies"] = {agent: AgentCounts(**counts) for agent, counts in data["tallies"].items()}
    if data.get("room") is not None:
        data["room"] = Room.model_validate(data["room"])
        data["theme"] = data["room"].theme  # an older version stored the channel's
    if data["ended_because"] is not None and data["ended_because"] not in get_args(EndReason):
        raise ValueError("not a conversation's state: unknown end reason")
    return data


def is_post(result: Result) -> bool:
    """Whether there is a new message in the channel."""
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
    """Usage counts even for a skip: the model was asked."""
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
