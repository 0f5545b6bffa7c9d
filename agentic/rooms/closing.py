"""Closes a room for its readers: what each member holds, the card, and people's votes for the record."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from agentic.rooms.card import closing_card, first_sentences, members_of, votes_of
from agentic.services.discord.room_upkeep import RoomPost
from agentic.state.rooms import Room
from agentic.state.writer import Notes
from agentic.wire.entries import Contender, ContestNote
from agentic.wire.link import RedisAway

Positions = Callable[[Room, Sequence[RoomPost]], Awaitable[Mapping[str, str]]]
ModelOf = Callable[[str, int], Awaitable[str]]
"""Agent's key and thread → the model (provider/model) that it last spoke with there, "" for unknown."""

log = logging.getLogger(__name__)


class RoomCloser:
    """`positions` says in a line what each member holds; where it says nothing, the first sentence of
    the member's last post stands for it. `clock` gives unix seconds."""

    def __init__(
        self, record: Notes, model_of: ModelOf, clock: Callable[[], float], positions: Positions | None = None
    ) -> None:
        self._record, self._model_of, self._clock, self._positions = record, model_of, clock, positions

    async def __call__(self, room: Room, posts: Sequence[RoomPost]) -> str:
        """Note the contest and return the card."""
        said = await self._positions(room, posts) if self._positions is not None else {}
        positions = {**first_sentences(room, posts), **said}
        votes = votes_of(room, posts)
        contenders = [Contender(agent=name, model=await self._model(name, room), votes=votes[name]) for name in votes]
        self._record.note(
            ContestNote(
                id=f"room-{room.thread_id}",
                kind="room",
                at=self._clock(),
                channel_id=room.channel_id,
                question=room.topic,
                contenders=tuple(contenders),
            )
        )
        return closing_card(room, posts, {member.name: positions.get(member.name, "") for member in members_of(room)})

    async def _model(self, agent: str, room: Room) -> str:
        try:
            return await self._model_of(agent, room.thread_id)
        except RedisAway as away:
            log.info("%s: its model in room %d is not recorded: %s", agent, room.thread_id, away)
            return ""
