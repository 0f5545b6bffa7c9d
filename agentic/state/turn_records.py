"""A record of each turn that ended, for /why and the recorder.

A record says what called the agent, what it read, what it did, and what that cost, but never what anybody said. The
script that ends the turn (`Turns.settle`) adds it to the stream `agent:{name}:turns`. An entry has the fields `record`,
JSON from TurnRecord.to_json, and `n`. `v` stays 1 as long as fields are only added. Entries are ordered by Redis's
clock; `at` is the clock of the agent's process. A stream has about 20,000 entries of the last 7 days, and is gone 7
days after its last entry.

An entry's `n` is one more than that of the entry before it, plus one for each entry that was dropped in between, by its
maker or by the stream's bound. So a reader that remembers the last `n` knows how many it missed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any, Literal

from pydantic import ValidationError

from agentic.ids import sent_at
from agentic.wire import keys
from agentic.wire.connection import Store
from agentic.wire.entries import CallRecord, Phases, StoredValue, ToolCallRecord

KEEP_SECONDS = 7 * 86400
MAX_RECORDS = 20_000  # per agent
MAX_ID_CHARACTERS = 200  # an instruction's id comes from the wire
PAGE = 500
UNKNOWN = "unknown"  # the kind and trigger of a turn that nobody ended
BEFORE_MS = 60_000  # the clocks of Discord and of Redis may differ by this
AFTER_MS = 20 * 60_000  # a turn that crashed after its post has ended by then
COUNT_SECONDS = 30 * 86400  # longer than any stream: an empty stream must not restart the count

# append(stream, count, dropped, most, seconds, entries): adds entries, lists of fields and values, with their `n`;
# `dropped` entries before them were lost. The stream keeps about `most` entries of the last `seconds`, and expires
# `seconds` after the last. Replaces another program's values under the two keys.
APPEND = f"""
local function append(stream, count, dropped, most, seconds, entries)
  if not ({{stream = 1, none = 1}})[redis.call('TYPE', stream).ok] then redis.call('DEL', stream) end
  local n = redis.pcall('INCRBY', count, dropped + #entries)
  if type(n) ~= 'number' then
    redis.call('DEL', count)
    n = redis.call('INCRBY', count, dropped + #entries)
  end
  redis.call('EXPIRE', count, {COUNT_SECONDS})
  local id
  for i, fields in ipairs(entries) do
    id = redis.call('XADD', stream, 'MAXLEN', '~', most, '*', 'n', n - #entries + i, unpack(fields))
  end
  local oldest = tonumber(string.match(id, '^%d+')) - seconds * 1000
  redis.call('XTRIM', stream, 'MINID', string.format('%.0f', oldest))
  redis.call('EXPIRE', stream, seconds)
end
"""

# record(stream, text): adds an entry.
RECORD = f"""{APPEND}
local function record(stream, text)
  append(stream, stream .. ':count', 0, {MAX_RECORDS}, {KEEP_SECONDS}, {{{{'record', text}}}})
end
"""

log = logging.getLogger(__name__)


class Reacted(StoredValue):
    """A reaction of the agent to a message."""

    emoji: str
    message_id: int


class TurnRecord(StoredValue):
    """A turn that ended. Ids are Discord snowflakes unless stated otherwise, money is in US dollars."""

    v: Literal[1] = 1
    id: str  # of the turn: an instruction's id, or `m` and the message's id
    agent: str
    at: float = 0.0  # unix seconds of its end; set by `Turns.settle`
    day: str = ""  # YYYY-MM-DD that its costs belong to; set by `Turns.settle`
    kind: str  # instruction, mention; an open set
    trigger: str  # round, starter, reactive, mention, call, continue; an open set
    conversation_id: str | None = None  # opaque
    round_number: int | None = None
    channel_id: int
    guild_id: int | None = None
    asked_by: int | None = None  # the person who caused it
    asked_message_id: int | None = None
    model: str = ""  # provider/model
    entries: int = 0  # messages read
    seconds: float = 0.0  # duration
    input_tokens: int = 0  # including cached tokens
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    reason: str | None = None  # why nothing, or less than wanted, was posted; see docs/dev/protocol.md
    posted: tuple[int, ...] = ()  # ids of messages, in order, including a line that says why there is no answer
    reacted: Reacted | None = None
    image: bool = False  # a picture was posted
    chosen_because: str | None = None  # why the coordinator's policy chose the agent
    room_turn: int | None = None  # number of the turn in its room
    outcome: str = ""  # posted, reacted, skipped, refused, timed_out, failed; an open set
    phases: Phases = Phases()
    calls: tuple[CallRecord, ...] = ()  # of models, in order
    tool_calls: tuple[ToolCallRecord, ...] = ()

    def to_json(self) -> str:
        """Return JSON without defaults, but with `v`."""
        return f'{{"v":{self.v},{self.model_dump_json(exclude_defaults=True)[1:]}'


class Records(Store):
    """The turns of all agents. All methods raise StateUnavailable."""

    async def of_message(self, message_id: int, agents: Iterable[str]) -> TurnRecord | None:
        """Return the turn in which one of `agents` posted this message, or answered it, such as the question that /ask
        posts. None if there is none, or it is too old."""
        made = round(sent_at(message_id) * 1000)
        start, end = made - BEFORE_MS, made + AFTER_MS
        pages = await self._link.batch(lambda pipe: [pipe.xrange(keys.turns(name), start, end) for name in agents])
        records = [record for found in pages for record in _records(found) if self._young(record)]
        posted = (record for record in records if message_id in record.posted)
        answered = (record for record in records if record.asked_message_id == message_id)
        return next(posted, next(answered, None))

    async def last(self, agent: str, channel_id: int | None = None, count: int = 1) -> list[TurnRecord]:
        """Return the agent's last turns (in the channel, if given), the newest first; `count` at most."""
        found: list[TurnRecord] = []
        end = "+"
        while len(found) < count:
            page: Any = await self._link.redis.xrevrange(keys.turns(agent), max=end, count=PAGE)
            here = [record for record in _records(page) if channel_id in (None, record.channel_id)]
            found += filter(self._young, here)
            if len(page) < PAGE:
                break
            end = f"({page[-1][0]}"
        return found[:count]

    async def of_person(self, user_id: int, agents: Iterable[str]) -> list[TurnRecord]:
        """Return the turns that a person asked for, oldest first for each agent."""
        return [record for agent in agents async for _, record in self._asked_by(keys.turns(agent), user_id)]

    async def forget_person(self, user_id: int, agents: Iterable[str]) -> int:
        """Remove the records of turns that a person asked for. Returns how many there were."""
        forgotten = 0
        for stream in map(keys.turns, agents):
            theirs = [entry async for entry, _ in self._asked_by(stream, user_id)]
            for start in range(0, len(theirs), PAGE):
                forgotten += await self._link.redis.xdel(stream, *theirs[start : start + PAGE])
        return forgotten

    async def _asked_by(self, stream: str, user_id: int) -> AsyncIterator[tuple[str, TurnRecord]]:
        """Yield (id in the stream, record) for each turn that a person asked for, oldest first."""
        start = "-"
        while True:
            page: Any = await self._link.redis.xrange(stream, min=start, count=PAGE)
            for entry, fields in page:
                record = _read(fields)
                if record is not None and record.asked_by == user_id:
                    yield entry, record
            if len(page) < PAGE:
                return
            start = f"({page[-1][0]}"

    def _young(self, record: TurnRecord) -> bool:
        """Whether the record is new enough: if an agent has no new turns, its stream isn't cut."""
        return record.at > self._clock() - KEEP_SECONDS


def _records(page: Iterable[Any]) -> list[TurnRecord]:
    return [record for _, fields in page if (record := _read(fields)) is not None]


def _read(fields: dict[str, str]) -> TurnRecord | None:
    """Read a record; None if another version or program wrote it."""
    try:
        return TurnRecord.model_validate_json(fields.get("record", ""))
    except ValidationError as error:
        log.debug("a turn's record can't be read: %d errors", error.error_count())
        return None
