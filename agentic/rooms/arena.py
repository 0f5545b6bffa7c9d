"""Arenas: two hidden agents answer one question, people vote, the names are shown.

    asked (/arena) ─ both answer ─ answers and vote are posted ─ the time is over: names, votes, record

What is done next follows from the arena as it is in Redis, so that a process that takes over goes on with it; only
answers that nobody has heard are not asked for again. It is no conversation: the coordinator knows nothing of it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from agentic.agent.agent import Agent
from agentic.chat.outlet import CannotPost
from agentic.rooms.arena_lines import BOXES, FAILED, INTERRUPTED, TOO_FEW, answer_text, result_text, vote_text
from agentic.rooms.contenders import NoAnswer, drawn, in_guild
from agentic.state.arenas import Arena, ArenaAnswer
from agentic.state.writer import Notes
from agentic.wire.entries import Contender, ContestNote
from agentic.wire.link import RedisAway

POLL_SECONDS = 1.0
RETRY_SECONDS = 15.0
GIVE_UP_SECONDS = 3600.0  # after it should have begun or ended, where no bot sees the channel

log = logging.getLogger(__name__)


class ArenaBot(Protocol):
    """A bot; agentic.services.discord.arena_posts. Its requests raise CannotPost."""

    @property
    def agent(self) -> str: ...
    def sees(self, channel_id: int) -> bool: ...
    async def post(self, channel_id: int, text: str, key: str, *, since: float) -> int: ...
    async def offer(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> None: ...
    async def voters(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> Sequence[frozenset[int]]: ...


class ArenaStore(Protocol):
    """agentic.state.arenas; raises RedisAway."""

    async def keep(self, arena: Arena) -> None: ...
    async def drop(self, channel_id: int) -> None: ...
    async def all(self) -> Sequence[Arena]: ...


Answer = Callable[[Agent, Arena], Awaitable[ArenaAnswer]]
"""Asks a contender; raises NoAnswer."""


class ArenaKeeper:
    """`bots` and `agents` are those of this process; `silent` says whether people stopped the bots in a channel.
    `may_act`: whether this process acts for arenas. `clock` gives unix seconds."""

    def __init__(
        self,
        arenas: ArenaStore,
        bots: Callable[[], Sequence[ArenaBot]],
        agents: Callable[[], Sequence[Agent]],
        answer: Answer,
        record: Notes,
        *,
        silent: Callable[[Arena], bool],
        may_act: Callable[[], bool],
        clock: Callable[[], float],
        rng: random.Random,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._arenas, self._bots, self._agents, self._answer, self._record = arenas, bots, agents, answer, record
        self._silent, self._may_act, self._clock, self._rng = silent, may_act, clock, rng
        self._poll_seconds = poll_seconds
        self._busy: set[int] = set()  # ids
        self._not_before: dict[int, float] = {}  # id → when to try again, unix seconds

    async def run(self) -> None:
        """Keep all arenas while this process acts, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for arena in await self._due():
                    self._busy.add(arena.id)
                    tasks.create_task(self._advance_safely(arena), name=f"arena {arena.id}")
                await asyncio.sleep(self._poll_seconds)

    async def _due(self) -> list[Arena]:
        if not self._may_act() or not self._bots():
            return []
        try:
            arenas = await self._arenas.all()
        except RedisAway as away:
            log.debug("arenas wait: %s", away)
            return []
        now = self._clock()
        self._not_before = {arena.id: at for arena in arenas if (at := self._not_before.get(arena.id, 0.0)) > now}
        return [arena for arena in arenas if self._is_due(arena, now)]

    def _is_due(self, arena: Arena, now: float) -> bool:
        if arena.id in self._busy or arena.id in self._not_before or self._silent(arena):
            return False
        return arena.until is None or arena.until <= now

    async def _advance_safely(self, arena: Arena) -> None:
        try:
            await self.advance(arena)
        except (CannotPost, RedisAway) as error:
            log.info("arena %d goes on in %.0f s: %s", arena.id, RETRY_SECONDS, error)
            self._not_before[arena.id] = self._clock() + RETRY_SECONDS
        except Exception:  # the edge of the task: the other arenas go on
            log.exception("arena %d failed", arena.id)
            self._not_before[arena.id] = self._clock() + RETRY_SECONDS
        finally:
            self._busy.discard(arena.id)

    async def advance(self, arena: Arena) -> None:
        """Take its next step. Raises CannotPost and RedisAway where it has to be tried again."""
        try:
            if arena.until is not None:
                await self._end(arena)
            elif arena.answers:
                await self._show(arena)
            elif arena.begun:
                await self._give_up(arena, INTERRUPTED)
            else:
                await self._begin(arena)
        except CannotPost as error:
            if not (error.is_final or self._is_lost(arena, error)):
                raise
            log.warning("arena %d in channel %d ends: %s", arena.id, arena.channel_id, error.reason)
            await self._arenas.drop(arena.channel_id)

    def _is_lost(self, arena: Arena, error: CannotPost) -> bool:
        """Whether its channel will not come back."""
        due = arena.at if arena.until is None else arena.until
        return error.reason == "unknown_channel" and self._clock() - due > GIVE_UP_SECONDS

    async def _begin(self, arena: Arena) -> None:
        self._bot(arena)  # no money is spent where nobody could post the answers
        pair = drawn([in_guild(agent, arena.guild_id) for agent in self._agents()], self._rng)
        if pair is None:
            await self._give_up(arena, TOO_FEW)
            return
        await self._arenas.keep(arena.model_copy(update={"begun": True}))
        answers = await asyncio.gather(*(self._answer(agent, arena) for agent in pair), return_exceptions=True)
        for agent, answer in zip(pair, answers, strict=True):
            if isinstance(answer, NoAnswer):
                log.warning("arena %d: %s has no answer: %s", arena.id, agent.key, answer)
            elif isinstance(answer, BaseException):
                raise answer
        given = tuple(answer for answer in answers if isinstance(answer, ArenaAnswer))
        if len(given) < len(pair):
            await self._give_up(arena, FAILED)
            return
        answered = arena.model_copy(update={"begun": True, "answers": given})
        await self._arenas.keep(answered)
        if not self._silent(arena):
            await self._show(answered)

    async def _show(self, arena: Arena) -> None:
        """Post the answers, and the message on which people vote."""
        for box, answer in zip(BOXES, arena.answers, strict=True):
            await self._post(arena, answer_text(box, answer), box, since=arena.at)
        until = self._clock() + arena.minutes * 60.0
        bot, message_id = self._bot(arena), await self._post(arena, vote_text(arena), "vote", since=arena.at)
        await bot.offer(arena.channel_id, message_id, BOXES)
        await self._arenas.keep(arena.model_copy(update={"message_id": message_id, "until": until}))

    async def _end(self, arena: Arena) -> None:
        """Count, note for the record, show the names."""
        votes = await self._votes(arena)
        contenders = [
            Contender(agent=answer.agent, model=answer.model, votes=count)
            for answer, count in zip(arena.answers, votes, strict=True)
        ]
        self._record.note(
            ContestNote(
                id=str(arena.message_id),
                kind="arena",
                at=arena.until or self._clock(),
                channel_id=arena.channel_id,
                question=arena.question,
                asked_by=arena.asked_by,
                contenders=tuple(contenders),
            )
        )
        await self._post(arena, result_text(arena, votes), "result", since=arena.until or 0.0)
        await self._arenas.drop(arena.channel_id)

    async def _votes(self, arena: Arena) -> list[int]:
        """How many people gave each; those who gave both voted for neither."""
        bot = self._bot(arena)
        given = await bot.voters(arena.channel_id, arena.message_id or 0, BOXES)
        return [len(voters - frozenset().union(*(other for other in given if other is not voters))) for voters in given]

    async def _give_up(self, arena: Arena, line: str) -> None:
        await self._post(arena, line, "given up", since=arena.at)
        await self._arenas.drop(arena.channel_id)

    async def _post(self, arena: Arena, text: str, what: str, *, since: float) -> int:
        return await self._bot(arena).post(arena.channel_id, text, f"arena {arena.id} {what}", since=since)

    def _bot(self, arena: Arena) -> ArenaBot:
        """Always the same of those that see the channel. Raises CannotPost where none does."""
        near = [bot for bot in self._bots() if bot.sees(arena.channel_id)]
        if not near:
            raise CannotPost("unknown_channel")
        return min(near, key=lambda bot: bot.agent)
