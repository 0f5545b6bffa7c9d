"""Debates that members propose, until enough people want them (agentic/rooms/proposals.py).

A proposal is kept until it opens or ends. In one step with its end, an opening of a room takes its place, so a crash
opens no debate twice and loses none. A person's key names their open proposal. After its end, the key stays for a
while, and the person can't propose another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from agentic.state.rooms import OPENING_SECONDS, RoomOpening
from agentic.wire import keys
from agentic.wire.connection import Store, or_default
from agentic.wire.entries import StoredValue

PROPOSAL_SIGN = "🎤"  # people propose a debate, and agree to one, with this reaction
PROPOSAL_SECONDS = 86400.0  # in which people may agree
COOLDOWN_SECONDS = 3600  # of a person, after their proposal's end
KEPT_SECONDS = 2 * 86400  # of all proposals, after the newest
MAX_PROPOSALS = 100
MAX_STIRRED = 1000

# KEYS: the proposals, the person's key. ARGV: the proposal's id, the proposal, their bound, seconds to keep them, and
# seconds to keep the person's key.
ADD = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 'known' end
local theirs = redis.call('GET', KEYS[2])
if theirs then return redis.call('HEXISTS', KEYS[1], theirs) == 1 and 'has_one' or 'too_soon' end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 'too_many' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[5])
return 'proposed'
"""
# KEYS: the proposals. ARGV: the id, the proposal. An ended proposal doesn't come back.
KEEP = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end"
# KEYS: the proposals, the person's key, the openings. ARGV: the id, the seconds until the person may propose again, and
# optionally the opening with the seconds to keep it. Returns whether the proposal was open.
END = """
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('EXPIRE', KEYS[2], ARGV[2])
if ARGV[3] then
  redis.call('HSET', KEYS[3], ARGV[1], ARGV[3])
  redis.call('EXPIRE', KEYS[3], ARGV[4])
end
return 1
"""

Added = Literal["proposed", "known", "has_one", "too_soon", "too_many", "away"]


class Proposal(StoredValue):
    """A proposed debate. `id`: of the command, or of the bot's message with the `question_in` that channel. `agents`
    are its debaters, and `agent` is the bot that posts `message_id`, on which people agree. All three are chosen before
    that post."""

    id: int
    channel_id: int
    guild_id: int | None = None
    topic: str
    proposed_by: int
    name: str = ""  # of that person, as the server shows it
    at: float  # unix seconds
    question_in: int | None = None
    agents: tuple[str, ...] = ()
    agent: str = ""
    message_id: int | None = None


class Proposals(Store):
    @or_default("away", "a debate isn't proposed")
    async def add(self, proposal: Proposal) -> Added:
        """Add a person's proposal, unless it is known, or the person has or recently had one."""
        places = [keys.COORDINATOR_PROPOSALS, keys.proposer(proposal.proposed_by)]
        bounds = [MAX_PROPOSALS, KEPT_SECONDS, round(PROPOSAL_SECONDS)]
        added: Added = await self._link.script(ADD, places, [proposal.id, proposal.model_dump_json(), *bounds])
        return added

    async def keep(self, proposal: Proposal) -> None:
        arguments = [proposal.id, proposal.model_dump_json()]
        await self._link.script(KEEP, [keys.COORDINATOR_PROPOSALS], arguments)

    async def end(self, proposal: Proposal, opening: RoomOpening | None = None) -> bool:
        """Remove a proposal, and store the opening in its place. Returns False if it was removed already."""
        places = [keys.COORDINATOR_PROPOSALS, keys.proposer(proposal.proposed_by), keys.ROOM_OPENINGS]
        arguments: list[object] = [proposal.id, COOLDOWN_SECONDS]
        if opening is not None:
            arguments += [opening.model_dump_json(), OPENING_SECONDS]
        return bool(await self._link.script(END, places, arguments))

    async def all(self) -> Sequence[Proposal]:
        texts = await self._link.redis.hvals(keys.COORDINATOR_PROPOSALS)
        return [proposal for text in texts if (proposal := Proposal.parse(text)) is not None]

    @or_default(None, "reactions to proposed debates are counted later")
    async def stir(self, message_id: int) -> None:
        """Note that somebody reacted to a message, which may be a proposal's."""
        key = keys.COORDINATOR_STIRRED
        if await self._link.redis.scard(key) < MAX_STIRRED:
            await self._link.batch(lambda pipe: (pipe.sadd(key, str(message_id)), pipe.expire(key, KEPT_SECONDS)))

    async def take_stirred(self) -> Collection[int]:
        """Return and forget the messages that people reacted to."""
        key = keys.COORDINATOR_STIRRED
        found, _ = await self._link.batch(lambda pipe: (pipe.smembers(key), pipe.delete(key)), transaction=True)
        return {int(text) for text in found}
