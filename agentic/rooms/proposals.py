"""Debates that members propose: posted, agreed to with reactions, and opened as rooms.

    proposed (/debate, or a reaction to a bot's question) ─ debaters chosen ─ posted
        ─ enough people or a moderator react ─ a room starts at that message
        ─ a day is over ─ the message says so

The next step follows from the proposal as it is in Redis, so that a process that takes over continues it. Who agrees is
read from the messages' reactions: whenever somebody reacts, and every few minutes in case that was missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from agentic.agent.roster import RosterEntry
from agentic.agent.services import Services, today_of
from agentic.chat.outlet import CannotPost
from agentic.chat.service import Person
from agentic.context.entries import one_line
from agentic.rooms.notices import HIDDEN
from agentic.rooms.opening import MAX_NAME, RoomDraft, RoomOpener, escaped, opening_text, room_of, thread_name
from agentic.state.budgets import MEMBERS_SCOPE
from agentic.state.leases import AnyLease
from agentic.state.proposals import PROPOSAL_SECONDS, PROPOSAL_SIGN, Proposal
from agentic.state.rooms import DEFAULT_TURNS, MIN_MEMBERS, RoomOpening
from agentic.state.silence import ChannelRef
from agentic.text import listed
from agentic.wire.connection import StateUnavailable

DEBATERS = 4
POLL_SECONDS = 2.0
LOOK_SECONDS = 300.0
RETRY_SECONDS = 15.0
EXPIRED = "(Not enough people wanted this debate in time.)"
TOO_FEW = "(This debate can't begin: fewer than two of its debaters can take part right now.)"
NO_MONEY = "(This debate can't begin: today's budget for proposed debates is used up. Propose it again tomorrow.)"

log = logging.getLogger(__name__)


class ProposalKeeper:
    """`openers` open rooms with this process's connected bots. `lease` says whether it keeps proposals."""

    def __init__(
        self,
        services: Services,
        openers: Callable[[], Sequence[RoomOpener]],
        *,
        lease: AnyLease,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._services, self._openers, self._lease = services, openers, lease
        self._proposals, self._clock = services.state.coordination.proposals, services.clock
        self._poll_seconds = poll_seconds
        self._next_look: dict[int, float] = {}  # id → unix seconds

    async def run(self) -> None:
        while True:
            if self._lease.is_held and self._openers():
                await self.advance_all()
            await asyncio.sleep(self._poll_seconds)

    async def advance_all(self) -> None:
        """Take the next step of each proposal that is due. Failed steps are tried again."""
        try:
            proposals = await self._proposals.all()
            stirred = await self._proposals.take_stirred() if proposals else ()
        except StateUnavailable as away:
            log.debug("proposed debates wait: %s", away)
            return
        self._next_look = {each.id: self._next_look.get(each.id, 0.0) for each in proposals}
        for proposal in proposals:
            is_stirred = proposal.message_id in stirred or proposal.id in stirred
            if self._next_look[proposal.id] > self._clock() and not is_stirred:
                continue
            try:
                await self.advance(proposal)
                now = self._clock()
                self._next_look[proposal.id] = min(now + LOOK_SECONDS, max(now, proposal.at + PROPOSAL_SECONDS))
                continue
            except (CannotPost, StateUnavailable) as error:
                log.info("proposed debate %d continues in %.0f s: %s", proposal.id, RETRY_SECONDS, error)
            except Exception:  # the edge of the loop: the other proposals continue
                log.exception("proposed debate %d failed", proposal.id)
            self._next_look[proposal.id] = self._clock() + RETRY_SECONDS

    async def advance(self, proposal: Proposal) -> None:
        """Take the proposal's next step. Raises CannotPost and StateUnavailable if a later try may work."""
        now, ends = self._clock(), proposal.at + PROPOSAL_SECONDS
        is_over = now >= ends
        if is_over and (proposal.message_id is None or now >= ends + PROPOSAL_SECONDS):  # its bot is gone
            await self._proposals.end(proposal)
            return
        place = ChannelRef(proposal.channel_id, None, proposal.guild_id)
        if not is_over and self._services.silence.check(place) is not None:
            return
        if proposal.message_id is None:
            proposal = await self._post(proposal)
        elif await self._was_deleted(proposal):
            log.info("proposed debate %d ends: its message was deleted", proposal.id)
            await self._proposals.end(proposal)
            return
        if is_over:
            await self._end(proposal, EXPIRED)
        elif (began := await self._find_support(proposal)) is not None:
            await self._open(proposal, began)

    async def _post(self, proposal: Proposal) -> Proposal:
        """Choose the debaters, and post the message on which people agree."""
        if not proposal.agent:
            opener = self._opener_for(proposal.channel_id)
            able = await self._able(opener, proposal)
            if len(able) < MIN_MEMBERS:
                raise CannotPost("too_few_able")
            drawn = able if proposal.agents else self._services.rng.sample(able, min(DEBATERS, len(able)))
            agents = tuple(entry.key for entry in drawn)
            proposal = proposal.model_copy(update={"agents": agents, "agent": opener.agent})
            await self._proposals.keep(proposal)
        bot = self._opener_of(proposal).bot
        text = self._text(proposal)
        message_id = await bot.post(proposal.channel_id, text, f"proposal {proposal.id}", since=proposal.at)
        await bot.offer(proposal.channel_id, message_id, (PROPOSAL_SIGN,))
        proposal = proposal.model_copy(update={"message_id": message_id})
        await self._proposals.keep(proposal)
        return proposal

    async def _find_support(self, proposal: Proposal) -> str | None:
        """Return who begins the debate, such as "3 people wanted it"; None if nobody does yet."""
        agents, guild_id = self._services.agents, proposal.guild_id
        given = [await self._people_at(proposal, proposal.channel_id, proposal.message_id or 0)]
        if proposal.question_in is not None:
            given.append(await self._people_at(proposal, proposal.question_in, proposal.id))
        people = {
            one.user_id: one
            for people in given
            for one in people
            if not (one.has_left or agents.ignored.has(one.user_id, one.roles, guild_id))
        }
        if len(people) >= self._services.settings.debate_supporters:
            return f"{len(people)} people wanted it" if len(people) > 1 else "one person wanted it"
        is_approved = any(agents.moderators.has(one, guild_id) for one in people.values())
        return "a moderator began it" if is_approved else None

    async def _people_at(self, proposal: Proposal, channel_id: int, message_id: int) -> Sequence[Person]:
        channels = self._services.chats.channels_for(proposal.agent)
        view = channels.view_of(channel_id) if channels is not None else None
        return await view.givers(message_id, PROPOSAL_SIGN) if view is not None else ()

    async def _was_deleted(self, proposal: Proposal) -> bool:
        """Whether a moderator refused the proposal by deleting its message; False if its bot isn't here."""
        bot = next((one.bot for one in self._openers() if one.agent == proposal.agent), None)
        return bot is not None and not await bot.has_message(proposal.channel_id, proposal.message_id or 0)

    async def _open(self, proposal: Proposal, began: str) -> None:
        opener, now = self._opener_of(proposal), self._clock()
        able = await self._able(opener, proposal)
        if len(able) < MIN_MEMBERS:
            return await self._end(proposal, TOO_FEW)
        uses = await self._services.state.limits.budgets.uses(today_of(self._services), [MEMBERS_SCOPE])
        if uses[MEMBERS_SCOPE].is_nearly_used_up:
            return await self._end(proposal, NO_MONEY)
        draft = RoomDraft(
            asked_by=proposal.proposed_by,
            channel_id=proposal.channel_id,
            guild_id=proposal.guild_id,
            topic=proposal.topic,
            turns=DEFAULT_TURNS,
            format="debate",
            proposed=True,
        )
        room = room_of(draft, [entry.member for entry in able], None, now)
        opening = RoomOpening(
            request=proposal.id,
            agent=proposal.agent,
            at=now,
            room=room.model_copy(update={"thread_id": proposal.message_id or 0}),
            name=thread_name(proposal.topic),
            text=opening_text(room, asked_by=proposal.name, began=began),
            at_first="proposal",
        )
        if await self._proposals.end(proposal, opening):
            await opener.proceed(opening)

    async def _end(self, proposal: Proposal, why: str) -> None:
        """Say on the message why the debate doesn't begin, and forget it."""
        bot, message_id = self._opener_of(proposal).bot, proposal.message_id or 0
        try:
            await bot.edit_opening(proposal.channel_id, message_id, f"{self._text(proposal)}\n{why}")
        except CannotPost as error:
            if not error.is_final:
                raise
            log.info("proposed debate %d ends unseen: %s", proposal.id, error.reason)
        await self._proposals.end(proposal)

    async def _able(self, opener: RoomOpener, proposal: Proposal) -> list[RosterEntry]:
        """Return who can take part now: of the chosen debaters, or of all."""
        roster = self._services.agents.roster
        named = [roster.of(key) for key in proposal.agents] if proposal.agents else [*roster]
        entries = [entry for entry in named if entry is not None and entry.why_not is None]
        online = await self._services.state.coordination.presence.online(self._services.agents.names)
        may_use_webhooks = opener.bot.room_problem(proposal.channel_id, webhooks=True) is None
        return [entry for entry in entries if (entry.key in online if entry.is_bot else may_use_webhooks)]

    def _opener_for(self, channel_id: int) -> RoomOpener:
        """Return what opens rooms in that channel. Raises CannotPost if no bot here can."""
        near = [one for one in self._openers() if one.bot.room_problem(channel_id, webhooks=False) is None]
        if not near:
            raise CannotPost("unknown_channel")
        return min(near, key=lambda one: (one.bot.room_problem(channel_id, webhooks=True) is not None, one.agent))

    def _opener_of(self, proposal: Proposal) -> RoomOpener:
        """Return the opener of the bot that posts the proposal, since no other can change its message."""
        found = next((one for one in self._openers() if one.agent == proposal.agent), None)
        if found is None:
            raise CannotPost("unknown_channel")
        return found

    def _text(self, proposal: Proposal) -> str:
        roster = self._services.agents.roster
        who = listed([escaped(roster.names.get(key, key)) for key in proposal.agents])
        by = f" {escaped(one_line(proposal.name, MAX_NAME))} proposed it." if proposal.name.strip() else ""
        number = self._services.settings.debate_supporters
        people = f"{number} people have" if number > 1 else "a person has"
        until = f"<t:{round(proposal.at + PROPOSAL_SECONDS)}:R>"
        return (
            f"{HIDDEN}**{escaped(proposal.topic)}**: {who} could debate this in a thread.{by} If you want it, react"
            f" with {PROPOSAL_SIGN}. It begins when {people}, or a moderator. Otherwise this ends {until}."
        )
