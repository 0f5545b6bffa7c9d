"""The agents' posts, with the reactions and pictures that they have."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import aiosqlite

from agentic.record.queries.pages import first, rows


@dataclass(frozen=True, slots=True)
class Reaction:
    """A reaction to a post. `emoji` as Discord writes it, `user_id` may be an agent's."""

    emoji: str
    user_id: int
    at: float


@dataclass(frozen=True, slots=True)
class Post:
    """A message that an agent posted. `text` is "" once it was deleted. `picture` is its media type, None for none."""

    message_id: int
    agent: str
    turn_id: str
    channel_id: int
    at: float
    text: str
    answers_message_id: int | None
    deleted_at: float | None
    picture: str | None
    reactions: tuple[Reaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that was posted, scaled down."""

    media_type: str
    data: bytes


STORED = ", ".join(f"posts.{each.name}" for each in fields(Post) if each.name not in ("picture", "reactions"))
POST = f"SELECT {STORED}, pictures.media_type FROM {{}} LEFT JOIN pictures USING (message_id)"


async def posts_of_turn(db: aiosqlite.Connection, agent: str, turn_id: str) -> tuple[Post, ...]:
    """In their order."""
    where = "WHERE posts.agent = ? AND posts.turn_id = ? ORDER BY posts.message_id"
    return await _with_reactions(db, await rows(db, f"{POST.format('posts')} {where}", agent, turn_id))


async def posts_of_conversation(db: aiosqlite.Connection, conversation_id: str) -> tuple[Post, ...]:
    """In their order."""
    joined = POST.format("turns JOIN posts ON posts.agent = turns.agent AND posts.turn_id = turns.id")
    where = "WHERE turns.conversation_id = ? ORDER BY posts.message_id"
    return await _with_reactions(db, await rows(db, f"{joined} {where}", conversation_id))


async def posts_of_channel(db: aiosqlite.Connection, channel_id: int) -> tuple[Post, ...]:
    """Those in a channel or thread, in their order."""
    where = "WHERE posts.channel_id = ? ORDER BY posts.message_id"
    return await _with_reactions(db, await rows(db, f"{POST.format('posts')} {where}", channel_id))


async def picture_of(db: aiosqlite.Connection, message_id: int) -> Picture | None:
    row = await first(db, "SELECT media_type, data FROM pictures WHERE message_id = ?", message_id)
    return Picture(*row) if row else None


async def turn_of_post(db: aiosqlite.Connection, message_id: int) -> tuple[str, str] | None:
    """The agent and the turn that posted a message; None for one that is not recorded."""
    row = await first(db, "SELECT agent, turn_id FROM posts WHERE message_id = ?", message_id)
    return (row[0], row[1]) if row else None


async def _with_reactions(db: aiosqlite.Connection, found: Sequence[sqlite3.Row]) -> tuple[Post, ...]:
    posts = [Post(*row) for row in found]
    given = await reactions_to(db, (post.message_id for post in posts))
    return tuple(replace(post, reactions=given.get(post.message_id, ())) for post in posts)


async def reactions_to(db: aiosqlite.Connection, message_ids: Iterable[int]) -> Mapping[int, tuple[Reaction, ...]]:
    """Message id → its reactions, the first given first."""
    found = await rows(
        db,
        """SELECT message_id, emoji, user_id, at FROM reactions
        WHERE message_id IN (SELECT value FROM json_each(?)) ORDER BY message_id, at""",
        json.dumps(list(message_ids)),
    )
    given: dict[int, list[Reaction]] = defaultdict(list)
    for message_id, *reaction in found:
        given[message_id].append(Reaction(*reaction))
    return {message_id: tuple(reactions) for message_id, reactions in given.items()}
