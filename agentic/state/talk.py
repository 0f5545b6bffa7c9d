"""What was said in a conversation: agents' posts, people's messages, and hints for the next speaker."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

from agentic.wire.messages import HistoryEntry, Result

MAX_HEARD = 5
MAX_HEARD_IN_ROOM = 40
MAX_TOPIC_CHARACTERS = 200
MAX_ENTRY_CHARACTERS = 8_000
MAX_LINE_CHARACTERS = 2_000  # of a URL, or a picture's prompt


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
def history_entry(post: AgentPost) -> HistoryEntry:
    marks = " ".join(f"{reaction.emoji} ({reaction.agent})" for reaction in post.reactions)
    text = f"{post.text}  [reactions: {marks}]" if marks else post.text
    return HistoryEntry(agent=post.agent, text=text, message_id=post.message_id, answers_message_id=post.answers)


@dataclass(frozen=True, slots=True)
class PersonMessage:
    """A person's message during the conversation. `after`: how many posts the conversation had by then. `names`: agents
    that it names. `calls`: it calls an agent, which answers outside the conversation.

    In a room: `called` are the members that it calls, and each answers with its next turn; `asks`: it asks something,
    or people reacted to it; `answered_by`: members whose turns have answered it.
    """

    message_id: int
    text: str = ""
    names: tuple[str, ...] = ()
    replied_to: str | None = None
    calls: bool = False
    after: int = 0
    called: tuple[str, ...] = ()
    asks: bool = False
    answered_by: tuple[str, ...] = ()

    @property
    def binds(self) -> bool:
        """Whether a room's member must answer it: it asks something, or names or calls a member."""
        return not self.calls and (self.asks or bool(self.names))

    def waits_for(self, members: Collection[str]) -> tuple[str, ...] | None:
        """Return the members that still have to answer: () if any member may, None if nobody has to."""
        if not self.binds:
            return None
        asked = [agent for agent in self.called or self.names[:1] if agent in members]
        if not asked:
            return None if self.answered_by else ()
        return tuple(agent for agent in asked if agent not in self.answered_by) or None

    def merge(self, again: PersonMessage) -> PersonMessage:
        """Add what another report of the same message knows: another process, or the agent that it calls."""
        called = tuple(dict.fromkeys((*self.called, *again.called)))
        # A room's report never has both: a call of its members overrules another process's `calls`.
        is_call = any(each.calls and each.called for each in (self, again))
        return replace(
            self,
            text=self.text or again.text,
            names=tuple(dict.fromkeys((*self.names, *again.names))),
            calls=is_call or ((self.calls or again.calls) and not called),
            called=called,
            asks=self.asks or again.asks,
            answered_by=tuple(dict.fromkeys((*self.answered_by, *again.answered_by))),
        )


@dataclass(frozen=True, slots=True)
class Talk:
    """What was said, and hints for the next speaker."""

    history: tuple[AgentPost, ...] = ()
    heard: tuple[PersonMessage, ...] = ()  # people's newest messages, if the policy hears them
    answered: int = 0  # people's messages up to this id have been answered; in a room: are no longer known
    topic: str | None = None
    last_speaker: str | None = None
    chosen_because: str | None = None  # why the first pending agent was chosen
    suggested_topic: str | None = None  # for that agent, since nothing calls for anyone
    perspective: str | None = None  # for the next speaker, since the conversation repeats itself
    perspectives: int = 0  # turns with a perspective since the last new thought

    @property
    def must_answer(self) -> int | None:
        """Outside of rooms: return the id of the person's message that the next turn must answer."""
        newest = self.heard[-1] if self.heard else None
        return newest.message_id if newest and not newest.calls and newest.message_id > self.answered else None

    def hear(self, message: PersonMessage) -> Talk:
        """Add a person's message; a new one ends any repetition, an older one is ignored."""
        if self.known(message.message_id) is not None:
            return self._hear_again(message)
        if self.heard and message.message_id <= self.heard[-1].message_id:
            return self
        return replace(self, heard=(*self.heard, message)[-MAX_HEARD:], perspective=None, perspectives=0)

    def hear_in_room(self, message: PersonMessage, members: Collection[str]) -> Talk:
        """Add a person's message at its place, since several may arrive at once. Only one that binds ends a repetition.
        If there are too many, the oldest that wait for nobody are dropped first."""
        if self.known(message.message_id) is not None:
            return self._hear_again(message)
        if message.message_id <= self.answered:
            return self
        heard, answered = sorted((*self.heard, message), key=lambda each: each.message_id), self.answered
        if len(heard) > MAX_HEARD_IN_ROOM:
            dropped = next((each for each in heard if each.waits_for(members) is None), heard[0])
            heard.remove(dropped)
            answered = max(answered, dropped.message_id)
        talk = replace(self, heard=tuple(heard), answered=answered)
        return replace(talk, perspective=None, perspectives=0) if message.binds else talk

    def known(self, message_id: int) -> PersonMessage | None:
        return next((each for each in self.heard if each.message_id == message_id), None)

    def _hear_again(self, message: PersonMessage) -> Talk:
        merged = [each.merge(message) if each.message_id == message.message_id else each for each in self.heard]
        return self if merged == list(self.heard) else replace(self, heard=tuple(merged))

    def add_answer(self, agent: str, message_ids: Collection[int]) -> Talk:
        """Note that the agent's turn in a room has answered these messages."""
        heard = list(self.heard)
        for at, each in enumerate(heard):
            if each.message_id in message_ids and agent not in each.answered_by:
                heard[at] = replace(each, answered_by=(*each.answered_by, agent))
        return replace(self, heard=tuple(heard))

    def add_post(self, agent: str, result: Result, limit: int) -> Talk:
        """Add the agent's post, and keep the newest `limit` posts (0: all)."""
        post = AgentPost(agent, entry_text(result), result.message_id, answers=result.answers_message_id)
        topic = self.topic or (result.topic or "")[:MAX_TOPIC_CHARACTERS] or None
        return replace(self, history=(*self.history, post)[-limit:], last_speaker=agent, topic=topic)

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
