"""Read a conversation from the record for an export, with the names that people know."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

import aiosqlite

from agentic.record.queries.posts import Conversation, Picture, Post, conversation_of, picture_of, posts_of_conversation
from agentic.record.queries.turns import Turn, turns_of_conversation
from agentic.state.rooms import Marks, Room, has_card
from agentic.text import counted
from agentic.wire.entries import RoomConclusion

PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")
GREY = 0x8E8E93

_CUSTOM_EMOJI = re.compile(r"<?a?:?(\w+):\d+>?")


@dataclass(frozen=True, slots=True)
class Look:
    """The names and colors (0xRRGGBB) of agents, and known names of people and channels by their Discord ids. Times
    are shown in `zone`. `costs`: whether to show them. `bots`: ids of agents' accounts, whose reactions don't vote."""

    names: Mapping[str, str] = field(default_factory=dict)
    colors: Mapping[str, int] = field(default_factory=dict)
    people: Mapping[int, str] = field(default_factory=dict)
    channels: Mapping[int, str] = field(default_factory=dict)
    zone: tzinfo = UTC
    costs: bool = False
    bots: Collection[int] = ()

    def name(self, agent: str) -> str:
        return self.names.get(agent, agent)


@dataclass(frozen=True, slots=True)
class Given:
    """An emoji, how many reacted with it, and the names of the agents among them. Custom emoji are `:name:`."""

    emoji: str
    count: int
    agents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """An agent's post, or a person's message in a room. `agent`: the agent's key, or the person's key in the story.
    `cost_usd`: the cost of the turn, at its first post."""

    message_id: int
    agent: str
    at: datetime
    text: str
    picture: Picture | None
    reactions: tuple[Given, ...]
    cost_usd: float
    person: bool = False


@dataclass(frozen=True, slots=True)
class RoomFacts:
    """What a room's page shows besides its messages. `details`: the topic in full, if it's longer. `votes` and `sides`
    are by agent, and so are `models` (provider/model). `conclusion`: None until the room has closed."""

    details: str = ""
    rules: str = ""
    sides: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    votes: Mapping[str, int] = field(default_factory=dict)
    conclusion: RoomConclusion | None = None

    def about(self, agent: str) -> str:
        """Return an agent's side, models, and votes, such as "for, openai/gpt-6-luna, 2 votes"."""
        votes = counted(self.votes[agent], "vote") if self.votes.get(agent) else ""
        return ", ".join(filter(None, (self.sides.get(agent, ""), *self.models.get(agent, ()), votes)))

    @property
    def card(self) -> str:
        """The closing card; "" without one."""
        return self.conclusion.card if self.conclusion is not None else ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a room is: the number of its last turn, and when it closed, if its card was posted."""

    turn: int
    closed_at: float | None = None

    @classmethod
    def of(cls, room: Room, marks: Marks) -> Progress:
        return cls(room.turn_number, room.changed_at if has_card(room, marks) else None)


@dataclass(frozen=True, slots=True)
class Story:
    """A conversation with its messages, in order. `agents`: who took part, in the order of their first message. In a
    room that includes people, by their keys. `room`: None outside of rooms."""

    conversation: Conversation
    look: Look
    began: datetime
    messages: tuple[Message, ...]
    agents: tuple[str, ...]
    room: RoomFacts | None = None

    @property
    def title(self) -> str:
        title = self.conversation.topic or f"A conversation, theme {self.conversation.theme}"
        return title[:1].upper() + title[1:]

    @property
    def minutes(self) -> int:
        """The minutes from its start to its last message, rounded up."""
        if not self.messages:
            return 0
        return max(1, -int(-(self.messages[-1].at - self.began).total_seconds() // 60))


async def read_story(db: aiosqlite.Connection, conversation_id: str, look: Look) -> Story | None:
    """Read a conversation without its deleted posts; None if the record doesn't have it."""
    conversation = await conversation_of(db, conversation_id)
    if conversation is None:
        return None
    posts, turns = await posts_of_conversation(db, conversation_id), await turns_of_conversation(db, conversation_id)
    messages = await messages_of(db, posts, turns, look)
    agents = tuple(dict.fromkeys(message.agent for message in messages))
    began = datetime.fromtimestamp(conversation.started_at, look.zone)
    return Story(conversation, look, began, messages, agents)


async def messages_of(
    db: aiosqlite.Connection, posts: Iterable[Post], turns: Sequence[Turn], look: Look
) -> tuple[Message, ...]:
    """Return the posts that aren't deleted as messages. `turns`: turns that made them or reacted to them."""
    costs = {(turn.agent, turn.id): turn.cost_usd for turn in turns}
    return tuple(
        [
            Message(
                post.message_id,
                post.agent,
                datetime.fromtimestamp(post.at, look.zone),
                post.text,
                await picture_of(db, post.message_id) if post.picture in PICTURES else None,
                _merge_reactions(post, turns),
                costs.pop((post.agent, post.turn_id), 0.0),
            )
            for post in posts
            if post.deleted_at is None
        ]
    )


def _merge_reactions(post: Post, turns: Iterable[Turn]) -> tuple[Given, ...]:
    """Merge the reactions that Discord reported with the agents' own, which are usually in both."""
    counts: dict[str, int] = defaultdict(int)
    for reaction in post.reactions:
        counts[emoji_name(reaction.emoji)] += 1
    agents: dict[str, list[str]] = defaultdict(list)
    for turn in turns:
        if turn.reacted is not None and turn.reacted.message_id == post.message_id:
            agents[emoji_name(turn.reacted.emoji)].append(turn.agent)
    return tuple(
        Given(emoji, max(counts[emoji], len(agents[emoji])), tuple(agents[emoji]))
        for emoji in dict.fromkeys((*counts, *agents))
    )


def emoji_name(emoji: str) -> str:
    """Return Discord's `<:name:id>`, `<a:name:id>`, and `name:id` as `:name:`, and anything else unchanged."""
    custom = _CUSTOM_EMOJI.fullmatch(emoji)
    return f":{custom[1]}:" if custom else emoji
