"""Notices to the coordinator that a person wrote in a channel, for its conversation to take that up.

They are published in the background: the turn that answers a mention does not wait for them. All bots of a process
hear a message, the first of them publishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from cachetools import LRUCache

from agentic.chat.directory import Directory
from agentic.context.entries import Entry
from agentic.context.render import text_with_marks
from agentic.process.tasks import BackgroundTasks
from agentic.text import names_in
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisAway
from agentic.wire.messages import PersonNotice

MOST_REMEMBERED = 1_000  # messages
MOST_ON_THE_WAY = 100
MOST_CHARACTERS = 500  # of a message

log = logging.getLogger(__name__)


class PersonNotices:
    """Shared by the bots of a process. `names`: agent → shown name."""

    def __init__(self, bus: Bus, directory: Directory, names: Mapping[str, str]) -> None:
        self._bus, self._directory, self._names = bus, directory, names
        self._known = LRUCache[int, bool](MOST_REMEMBERED)  # message → whether it was noticed as a call
        self._tasks = BackgroundTasks()

    def note(self, said: Entry, channel_id: int, *, calls: bool, to_notice: bool = False) -> None:
        """A person said this. Once a message, and once more if a later bot is the one that it calls. `to_notice`: it
        replies to a line of the program's, which calls nobody."""
        notice = self._notice(said, channel_id, calls=calls, to_notice=to_notice)
        known = self._known.get(said.id)
        if known is not None and (known or not notice.calls):
            return
        self._known[said.id] = notice.calls
        if len(self._tasks) < MOST_ON_THE_WAY:
            self._tasks.start(self._publish(notice), "notice of a person's message")

    def _notice(self, said: Entry, channel_id: int, *, calls: bool, to_notice: bool) -> PersonNotice:
        mentioned = {agent for user in said.mentions if (agent := self._directory.agent_of(user)) is not None}
        answered = self._directory.agent_of(said.replied_to) if said.replied_to is not None else None
        if to_notice:  # Discord mentions its author, too
            mentioned, answered = mentioned - {answered}, None
        return PersonNotice(
            channel_id=channel_id,
            message_id=said.id,
            text=text_with_marks(said)[:MOST_CHARACTERS],
            names=tuple(dict.fromkeys((*sorted(mentioned), *names_in(said.text, self._names)))),
            replied_to=answered or self._post_replied_to(said),
            called=tuple(dict.fromkeys((*sorted(mentioned), *([answered] if answered else [])))),
            calls=calls or bool(mentioned) or answered is not None,
            at=said.created_at,
        )

    def _post_replied_to(self, said: Entry) -> str | None:
        """The agent whose webhook post it replies to, which does not call it."""
        return self._directory.agent_of_post(said.reply_to) if said.reply_to is not None else None

    async def _publish(self, notice: PersonNotice) -> None:
        try:
            await self._bus.publish(keys.COORDINATOR_ACTIVITY, notice)
        except RedisAway:
            log.debug("channel %d: a person's message was not noticed, Redis is away", notice.channel_id)
