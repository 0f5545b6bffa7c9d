"""The answer of `/privacy`: who reads a channel, what is kept of it and of the person who asks, and how that ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from agent_config import FrontMatter, Settings
from agentic.actions.own_memory import OwnMemory
from agentic.record.hearers import Hearers
from agentic.record.memory import Kept
from agentic.state.idle import UNASKED
from agentic.wire.link import RedisAway

MORE = "`/forget me` removes what is kept about you, `/profile` shows and changes your topics."


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyFacts:
    """`readers`: the shown names of the agents that hear the channel; `elsewhere`: of those that run in other processes
    and may hear it. `logged`: its messages are logged, for `log_days` (None: for ever). `kept`: None where that cannot
    be read, for the reason `problem`. `unasked`: what the person said; `writers`: agents that write unasked, with
    whether everybody is written to who did not refuse."""

    readers: Sequence[str]
    elsewhere: Sequence[str] = ()
    logged: bool = False
    log_days: int | None = None
    kept: Kept | None = None
    problem: str = ""
    unasked: bool | None = None
    writers: Mapping[str, bool]
    timezone: tzinfo


class Privacy:
    """Answers people who ask. `online` reads which bots run in any process, and may raise RedisAway; `names` maps
    agents to shown names; `fronts` gives the front matter of those that act by themselves."""

    def __init__(
        self,
        own: OwnMemory,
        hearers: Hearers,
        settings: Settings,
        names: Mapping[str, str],
        *,
        online: Callable[[], Awaitable[Collection[str]]],
        fronts: Callable[[], Mapping[str, FrontMatter]],
    ) -> None:
        self._own, self._hearers, self._settings, self._names = own, hearers, settings, names
        self._online, self._fronts = online, fronts

    def log_line(self, channel_id: int) -> str:
        """The line that says that the channel's messages are logged; "" where they are not."""
        return _log_line(self._log_days) if self._is_logged(channel_id) else ""

    async def text(self, user_id: int, channel_id: int) -> str:
        own, settings = self._own, self._settings
        try:
            online = await self._online()
        except RedisAway:
            online = ()  # those of this process are known all the same
        readers = [hearing.agent for hearing in self._hearers.of(channel_id)]
        return privacy_text(
            PrivacyFacts(
                readers=self._shown(readers),
                elsewhere=self._shown(agent for agent in self._names if agent in online and agent not in self._hearers),
                logged=self._is_logged(channel_id),
                log_days=self._log_days,
                kept=None if own.problem else await own.kept(user_id),
                problem=own.problem,
                unasked=None if own.problem else await own.consent(user_id),
                writers={
                    self._names.get(agent, agent): everyone
                    for agent, everyone in unasked_writers(self._fronts(), settings).items()
                },
                timezone=settings.timezone,
            )
        )

    @property
    def _log_days(self) -> int | None:
        """The record's own days bound the log's."""
        bounds = (self._settings.message_log_days, self._settings.record_days)
        return min((days for days in bounds if days is not None), default=None)

    def _is_logged(self, channel_id: int) -> bool:
        return self._log_days != 0 and self._hearers.logging(channel_id) is not None

    def _shown(self, agents: Iterable[str]) -> list[str]:
        return [self._names.get(agent, agent) for agent in agents]


def privacy_text(facts: PrivacyFacts) -> str:
    return "\n".join((_readers(facts), _log(facts), _kept(facts), _unasked(facts), MORE))


def _log_line(days: int | None) -> str:
    return f"on here: what is written is kept {_lasting(days)}, with names"


def _lasting(days: int | None) -> str:
    if days is None:
        return "without an end"
    return "for a day" if days == 1 else f"for {days} days"


def unasked_writers(fronts: Mapping[str, FrontMatter], settings: Settings) -> dict[str, bool]:
    """The agents, by key, whose idle tasks post; true where they write to everybody who did not refuse."""
    found = {}
    for agent, front in fronts.items():
        tasks = front.idle_tasks if front.idle_tasks is not None else settings.idle_tasks
        if not UNASKED.isdisjoint(tasks):
            found[agent] = (front.unasked or settings.unasked) == "everyone"
    return found


def _readers(facts: PrivacyFacts) -> str:
    names = _listed(facts.readers) if facts.readers else "no agent of this process"
    more = f" {_listed(facts.elsewhere)} may too, from another process." if facts.elsewhere else ""
    return f"**Read here by** {names}: what is written can go to their models' providers.{more}"


def _log(facts: PrivacyFacts) -> str:
    return f"**Message log**: {_log_line(facts.log_days) if facts.logged else 'off here'}."


def _kept(facts: PrivacyFacts) -> str:
    if facts.problem or facts.kept is None:
        return f"**Kept about you**: {facts.problem}"
    kept = facts.kept
    since = (
        f" since {datetime.fromtimestamp(kept.since, facts.timezone):%Y-%m-%d}"
        if kept.since is not None and kept.messages
        else ""
    )
    profile = f"a profile of {_counted(kept.topics, 'topic', 'topics')}" if kept.topics else "no profile"
    return (
        f"**Kept about you** in all channels: {_counted(kept.messages, 'message', 'messages')} in the log{since},"
        f" {_counted(kept.summaries, 'summary', 'summaries')} with your words, and {profile}."
    )


def _unasked(facts: PrivacyFacts) -> str:
    writers = [name for name, everyone in facts.writers.items() if facts.unasked or everyone]
    if not facts.writers:
        return "**Unasked messages**: none, no agent here writes by itself."
    if facts.unasked is False or not writers:
        why = "as you chose" if facts.unasked is False else "you have not asked for them"
        return f"**Unasked messages**: off, {why}. `/privacy unasked:on` allows them."
    why = "as you chose" if facts.unasked else "as the owner set it"
    return f"**Unasked messages**: {_listed(writers)} may write to you, {why}. `/privacy unasked:off` ends that."


def _counted(number: int, one: str, several: str) -> str:
    return f"{number or 'no'} {one if number == 1 else several}"


def _listed(names: Collection[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
