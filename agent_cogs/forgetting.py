"""What the program keeps of a person, and how it is removed.

What stays, stays for a reason that the person is told: the counts against today's limits, since forgetting would
refill them; that the owner wants somebody ignored; and what is not this program's to remove.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_cogs.house import House
from agent_cogs.saved import read_begun
from agent_cogs.words import counted
from agent_protocol.turns import Turns


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How much was removed."""

    records: int = 0
    open_turns: int = 0
    tool_calls: int = 0

    @property
    def text(self) -> str:
        return (
            f"Removed: {counted(self.records, 'record')} of turns that you asked for,"
            f" {counted(self.open_turns, 'question')} that waited for an answer, and"
            f" {counted(self.tool_calls, 'record')} of what tools were asked for you.\n"
            "What goes by itself: how often you called (a minute), what you brought about in money (two days), an"
            " answer to you that may have to be given twice (half an hour). Forgetting these would refill your limits."
            " If the owner wants you to be ignored, that stays.\n"
            "What I cannot remove: your messages in Discord, which the bots read for as long as they stand there (what"
            " you delete, they forget too); what the bots' providers keep by their own terms; and the ids and numbers,"
            " without words, in the owner's log."
        )


async def forget(house: House, user_id: int) -> Forgotten:
    """Removes what is kept of the person, for all agents.

    Raises RedisAway, and OSError where a file of records cannot be rewritten, maybe after some of it is gone.
    """
    open_turns = 0
    for agent in house.names:
        open_turns += await _forget_open(house.ledger.turns, agent, user_id)
    records = await house.ledger.records.forget_person(user_id, house.names)
    tool_calls = await house.tools.records.forget_person(user_id) if house.tools else 0
    return Forgotten(records, open_turns, tool_calls)


async def _forget_open(turns: Turns, agent: str, user_id: int) -> int:
    forgotten = 0
    for turn_id in await turns.open_ids(agent):
        mention = read_begun(await turns.left(agent, turn_id)).mention
        if mention is not None and mention.asked.speaker.id == user_id:
            await turns.drop(agent, turn_id)
            forgotten += 1
    return forgotten
