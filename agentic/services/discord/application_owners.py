"""The owners of a bot's application: its owner, or the members of its team with the right to change it.

https://docs.discord.com/developers/topics/teams#team-member-roles
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import discord

from agentic.services.discord.errors import REQUEST_ERRORS, kind
from agentic.services.discord.gate import Gate

KEPT_SECONDS = 600.0
_ACCEPTED = 2  # a team member's membership_state; an invitation that is not accepted yet is 1
_READS_ONLY = "read_only"

log = logging.getLogger(__name__)


class ApplicationOwners:
    """Reads the owners of one bot's application when they are needed, and keeps them for ten minutes."""

    def __init__(self, client: discord.Client, gate: Gate, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._gate, self._clock = client, gate, clock
        self._ids: frozenset[int] = frozenset()
        self._good_until = clock()

    async def ids(self) -> frozenset[int]:
        """Their user ids; the last known ones where Discord cannot be asked."""
        if self._clock() >= self._good_until:
            http: Any = self._client.http
            try:
                self._ids = owners_in(await self._gate.request(http.application_info))
            except REQUEST_ERRORS as error:
                log.warning("the application's owners could not be read (%s), the last known ones count", kind(error))
            else:
                self._good_until = self._clock() + KEPT_SECONDS
        return self._ids


def owners_in(application: Mapping[str, Any]) -> frozenset[int]:
    """The user ids in Discord's application object. The owner of a team's application is not a person."""
    if not (team := application.get("team")):
        owner = application.get("owner")
        return frozenset({int(owner["id"])}) if owner else frozenset()
    members = (one for one in team.get("members", ()) if one.get("membership_state") == _ACCEPTED)
    return frozenset(int(one["user"]["id"]) for one in members if one.get("role") != _READS_ONLY)
