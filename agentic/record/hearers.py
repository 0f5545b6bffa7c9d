"""The agents of this process that hear channels, each with its options there, on whatever service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentic.context.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """An agent that hears a channel. `guild_id` is of the server or group whose members read it, None in a chat with
    one person; `service` is the channel's, as the record names it."""

    agent: str
    options: Options
    guild_id: int | None = None
    service: str


Hear = Callable[[int], Hearing | None]  # a channel; None where the agent does not hear it


class Hearers:
    """Each agent that listens adds itself."""

    def __init__(self) -> None:
        self._hearers: dict[str, Hear] = {}

    def __contains__(self, agent: str) -> bool:
        return agent in self._hearers

    def add(self, agent: str, hear: Hear) -> None:
        self._hearers[agent] = hear

    def remove(self, agent: str, hear: Hear) -> None:
        """Nothing, where another run of the agent has added itself since."""
        if self._hearers.get(agent) == hear:
            del self._hearers[agent]

    def of(self, channel_id: int) -> tuple[Hearing, ...]:
        """Those that hear the channel now."""
        found = (hear(channel_id) for hear in tuple(self._hearers.values()))
        return tuple(hearing for hearing in found if hearing is not None)

    def logging(self, channel_id: int) -> Hearing | None:
        """The first of them for which the channel's messages are logged."""
        return next((hearing for hearing in self.of(channel_id) if hearing.options.message_log), None)
