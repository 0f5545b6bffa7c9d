"""The sign 🔕: the person for whom an unasked message was wants no more of them.

It counts from that person alone, and at once: the next agent that would post looks into Redis right before. Every bot
that sees the sign obeys; the first of them notes it and shows that it was seen.
"""

from __future__ import annotations

from agentic.agent.agent import Channels, ReactionView
from agentic.agent.services import AgentServices
from agentic.chat.service import PersonReaction

MUTE_SIGN, SEEN = "🔕", "✅"


class MuteSigns:
    """Obeys the sign, for one agent."""

    def __init__(self, services: AgentServices, channels: Channels) -> None:
        self._consents, self._notices, self._channels = services.consents, services.notices, channels
        self._unasked, self._memory = services.ledger.unasked, services.memory

    async def on_reaction(self, sign: PersonReaction) -> None:
        """A person gave a sign to a message."""
        if sign.emoji == MUTE_SIGN and await self._person_of(sign.message_id) == sign.who.user_id:
            await self._notices.first(sign.message_id, MUTE_SIGN)  # it is not a missed one after the next start
            await self._end(sign.who.user_id, sign.channel_id, sign.message_id)

    async def on_missed(self, view: ReactionView, message_id: int) -> None:
        """A message of the channel's past has the sign. It was given when nobody listened, or long ago: then the person
        may have said something else since."""
        person_id = await self._person_of(message_id)
        if person_id is None or all(who.user_id != person_id for who in await view.givers(message_id, MUTE_SIGN)):
            return
        if await self._notices.first(message_id, MUTE_SIGN):
            await self._end(person_id, view.channel_id, message_id)

    async def _person_of(self, message_id: int) -> int | None:
        """The person for whom a message was that nobody asked for. Of an old one, or one that Redis has lost, the
        record alone knows."""
        sent = await self._unasked.read(message_id) or await self._memory.unasked(message_id)
        return sent.person_id if sent is not None else None

    async def _end(self, person_id: int, channel_id: int, message_id: int) -> None:
        if not await self._consents.refuse(person_id, because=MUTE_SIGN, once=True):
            return
        outlet = await self._channels.outlet_in_scope(channel_id)
        if outlet is not None:
            await outlet.sink.acknowledge(message_id, SEEN)
