"""Conversations of the agents, with what their turns came to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import aiosqlite

from agentic.record.queries.pages import BEFORE_ALL, MOST_A_PAGE, Cursor, Page, first, page_of, rows


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation; `ended_at` None: it runs, or its end is not known. `agents` are those that had a turn."""

    id: str
    channel_id: int
    theme: str
    starter: str
    topic: str | None
    policy: str
    started_at: float
    ended_at: float | None
    ended_because: str | None
    rounds: int
    messages: int
    skips: int
    cost_usd: float
    turns: int = 0
    agents: tuple[str, ...] = ()

    @property
    def cursor(self) -> Cursor:
        return self.started_at, self.id


STORED = ", ".join(each.name for each in fields(Conversation) if each.name not in ("turns", "agents"))
NEWEST_FIRST = "ORDER BY started_at DESC, id DESC"


async def conversations_page(
    db: aiosqlite.Connection,
    *,
    channel_id: int | None = None,
    theme: str | None = None,
    after: Cursor | None = None,
    count: int = 50,
) -> Page[Conversation]:
    count = min(count, MOST_A_PAGE)
    tests = {"channel_id = ?": channel_id, "theme = ?": theme}
    asked = {condition: value for condition, value in tests.items() if value is not None}
    where = " AND ".join(["(started_at, id) < (?, ?)", *asked])
    at, last_id = after or BEFORE_ALL
    found = await rows(
        db,
        f"SELECT {STORED} FROM conversations WHERE {where} {NEWEST_FIRST} LIMIT ?",
        at,
        str(last_id),
        *asked.values(),
        count + 1,
    )
    page = page_of((Conversation(*row) for row in found), count, lambda each: each.cursor)
    sums = await _sums(db, (each.id for each in page.items))
    return replace(page, items=tuple(_summed(each, sums) for each in page.items))


async def conversation_of(db: aiosqlite.Connection, conversation_id: str) -> Conversation | None:
    """None where the record does not have it."""
    row = await first(db, f"SELECT {STORED} FROM conversations WHERE id = ?", conversation_id)
    return _summed(Conversation(*row), await _sums(db, [conversation_id])) if row else None


async def last_conversation(db: aiosqlite.Connection) -> Conversation | None:
    """The newest conversation in which something was posted; None for none."""
    row = await first(
        db,
        f"""SELECT {STORED} FROM conversations WHERE EXISTS (
            SELECT 1 FROM turns WHERE turns.conversation_id = conversations.id AND turns.outcome = 'posted')
        {NEWEST_FIRST} LIMIT 1""",
    )
    return _summed(Conversation(*row), await _sums(db, [row[0]])) if row else None


async def _sums(db: aiosqlite.Connection, ids: Iterable[str]) -> Mapping[str, tuple[Any, ...]]:
    """Conversation id → its last round, posts, other turns, cost, turns and agents, by its turns so far."""
    found = await rows(
        db,
        """SELECT conversation_id, COALESCE(MAX(round), 0), SUM(outcome = 'posted'), SUM(outcome <> 'posted'),
            SUM(cost_usd), COUNT(*), GROUP_CONCAT(DISTINCT agent)
        FROM turns WHERE conversation_id IN (SELECT value FROM json_each(?)) GROUP BY conversation_id""",
        json.dumps(list(ids)),
    )
    return {conversation_id: tuple(sums) for conversation_id, *sums in found}


def _summed(conversation: Conversation, sums: Mapping[str, tuple[Any, ...]]) -> Conversation:
    """The numbers of its end are noted when it ends; until then those of its turns count."""
    rounds, messages, skips, cost, turns, agents = sums.get(conversation.id, (0, 0, 0, 0.0, 0, ""))
    return replace(
        conversation,
        rounds=max(conversation.rounds, rounds),
        messages=max(conversation.messages, messages),
        skips=max(conversation.skips, skips),
        cost_usd=max(conversation.cost_usd, cost),
        turns=turns,
        agents=tuple(sorted(filter(None, agents.split(",")))),
    )
