"""The pulls of the agents when a channel's last speaker was chosen, for /why-not and the console; kept for a day."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from agentic.wire import keys
from agentic.wire.link import RedisLink

KEEP_SECONDS = 86_400


class PullsValue(BaseModel):
    """Base of these values: frozen, forward-compatible."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class PullPart(PullsValue):
    """A part of a pull: `why` in plain words, for people."""

    why: str
    amount: float


class Pull(PullsValue):
    """How strongly the conversation calls for an agent: the sum of its parts times `channel`, the channel's own pull,
    which each turn without a message lowers (1 at most)."""

    agent: str
    strength: float
    parts: tuple[PullPart, ...] = ()
    channel: float = 1.0


class Pulls(PullsValue):
    """The choice of a speaker. `pulls`: the strongest first; those who could not be asked are not among them.
    `at` in unix seconds."""

    channel_id: int
    conversation_id: str
    at: float
    chosen: str
    because: str | None = None
    pulls: tuple[Pull, ...] = ()

    def of(self, agent: str) -> Pull | None:
        return next((pull for pull in self.pulls if pull.agent == agent), None)


class PullStore:
    """The newest choice of each channel. All methods raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def keep(self, pulls: Pulls) -> None:
        place, text = keys.pulls(pulls.channel_id), pulls.model_dump_json()
        await self._link.call(lambda redis: redis.set(place, text, ex=KEEP_SECONDS))

    async def last(self, channel_id: int) -> Pulls | None:
        """None for none, and for one that another version wrote."""
        text = await self._link.call(lambda redis: redis.get(keys.pulls(channel_id)))
        if text is None:
            return None
        try:
            return Pulls.model_validate_json(text)
        except ValidationError:
            return None
