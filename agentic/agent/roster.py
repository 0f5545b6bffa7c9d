"""The roster of all agents that can join a room, bots and personas without a bot; and finding an agent by name.

    settings.agents with a token        bots
    settings.agents without a token ─┐
    folders below PERSONAS_DIR ──────┴─ personas, which speak through webhooks

An agent without a token here is still a bot while another process runs it. Folders and presence are checked every few
seconds, outside of turns. `find` and `members_of` look up names that people write in commands, by the rule in
agentic/text.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from agent_config import AgentSettings, FrontMatter, NoModel, Settings
from agentic.agent.persona import front_of
from agentic.chat.directory import Directory
from agentic.context.entries import RESERVED, skeleton
from agentic.personas.files import FileCache
from agentic.personas.identity import parse_identity
from agentic.state.presence import Presence
from agentic.state.rooms import RoomMember
from agentic.text import letters_of, named

LOOK_EVERY = 3.0  # seconds
KEY = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
MARKERS = ("identity.md", "soul.md")  # a folder with one of these files is a persona's

MIN_LIKENESS = 0.5  # of a name, to be suggested in place of an unknown name
MAX_NAME_PARTS = 4  # separators that a name itself may contain, as in "Ada, Countess of Lovelace"
_SEPARATOR = re.compile(
    r"(?:(?<![^\S\n])[^\S\n]*+)?(?:[,;\n]|(?<=\s)(?:and|&|vs\.?|versus)(?=\s))\s*|(?<=\S)[^\S\n]++(?=@)", re.IGNORECASE
)
_MENTION = re.compile(r"<@!?(\d{1,20})>")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterEntry:
    """An agent. `why_not` says why it takes no turns; None if it does. `settings` is None if no model can be named for
    it."""

    key: str
    shown: str
    is_bot: bool
    front: FrontMatter
    settings: AgentSettings | None = None
    why_not: str | None = None

    @property
    def model(self) -> str:
        """The first model that can be called, as provider/model; "" for none."""
        models = (self.settings.usable or self.settings.models) if self.settings is not None else ()
        return models[0].name if models else ""

    @property
    def member(self) -> RoomMember:
        front = self.front
        return RoomMember(name=self.key, shown=self.shown, talkativeness=front.talkativeness, interests=front.interests)


Fronts = Mapping[str, FrontMatter]
Lacks = Callable[[AgentSettings], str | None]  # returns why none of the agent's models can be called


def lacking_key(agent: AgentSettings) -> str | None:
    """Return why none of the agent's models can be called; None if one can."""
    if agent.usable:
        return None
    lacks = dict.fromkeys(model.lacks for model in agent.models if model.lacks)
    return f"{' and '.join(lacks)} isn't set, and {agent.models[0].name} needs it"


def list_agents(
    settings: Settings, fronts: Fronts, elsewhere: Collection[str] = (), lacks: Lacks = lacking_key
) -> tuple[RosterEntry, ...]:
    """Return all agents: bots in the table's order, then personas by key. `fronts` has the front matter from every
    folder, `elsewhere` the agents whose bot runs in another process."""
    table = settings.agents.values()
    bots = [_entry(agent, lacks, is_bot=True) for agent in table if agent.token or agent.name in elsewhere]
    known = {bot.key for bot in bots}
    others = [_entry(agent, lacks) for agent in table if agent.name not in known]
    ours = {*settings.agents, *settings.persona_folders.values()}
    for key, front in fronts.items():
        if key not in ours:
            try:
                others.append(_entry(settings.persona_models.settings_of(key, front), lacks))
            except NoModel as error:
                shown = front.display_name or key
                others.append(RosterEntry(key=key, shown=shown, is_bot=False, front=front, why_not=str(error)))
    taken = dict.fromkeys(RESERVED, "a name the program uses itself")
    taken |= {skeleton(name): bot.shown for bot in bots for name in (bot.key, bot.shown)}
    personas: list[RosterEntry] = []
    for persona in sorted(others, key=lambda entry: entry.key):
        names = {skeleton(persona.key), skeleton(persona.shown)}
        owner = next((taken[name] for name in names if name in taken), None)
        if owner is None:
            taken |= dict.fromkeys(names, persona.shown)
            personas.append(persona)
        else:  # it takes no turns and is listed by its key, since the name means the other agent
            why = f"its name {persona.shown!r} is too similar to {owner!r} (choose another display_name)"
            personas.append(replace(persona, shown=persona.key, settings=None, why_not=why))
    return (*bots, *personas)


def agents_outside_rooms(settings: Settings) -> dict[str, AgentSettings]:
    """Return the agents that people can call outside of rooms: with a bot here or an account. Blocks on the disk."""
    fronts = PersonaFolders(settings.personas_dir).refresh() if settings.account_agents else {}
    found = (entry for entry in list_agents(settings, fronts) if entry.is_bot or entry.key in settings.account_agents)
    return {entry.key: entry.settings for entry in found if entry.settings is not None}


def _entry(agent: AgentSettings, lacks: Lacks, *, is_bot: bool = False) -> RosterEntry:
    return RosterEntry(
        key=agent.name, shown=agent.display_name, is_bot=is_bot, front=agent.front, settings=agent, why_not=lacks(agent)
    )


class PersonaFolders:
    """The folders of personas below `folder`. `refresh` blocks on the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._cache = folder, FileCache()
        self._parsed: dict[str, tuple[str | None, FrontMatter]] = {}
        self._reported = frozenset[str]()
        self._is_unreadable = False
        self.has_folders = False  # an empty folder may not be mounted, so its personas aren't deleted

    def refresh(self) -> Fronts:
        """Read the front matter of each persona, by key."""
        names = self._names()
        odd = frozenset(name for name in names if not KEY.fullmatch(name))
        for name in sorted(odd - self._reported):
            text = "%s: not a persona: expected a name of at most 32 lowercase letters, digits, - and _"
            log.warning(text, self._folder / name)
        self._reported = odd
        self._parsed = {name: self._read(name) for name in names if name not in odd}
        return {name: front for name, (_, front) in self._parsed.items()}

    def _names(self) -> list[str]:
        try:
            with os.scandir(self._folder) as found:
                entries = sorted(entry.name for entry in found if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            entries = []
        except OSError as error:  # for example no free file descriptor
            if not self._is_unreadable:
                log.warning("cannot read %s: %s; the personas stay as they are", self._folder, error.strerror or error)
            self._is_unreadable = True
            return sorted(self._parsed)
        self._is_unreadable, self.has_folders = False, bool(entries)
        visible = (name for name in entries if not name.startswith("."))
        return [name for name in visible if any(os.path.isfile(self._folder / name / file) for file in MARKERS)]

    def _read(self, name: str) -> tuple[str | None, FrontMatter]:
        text, known = self._cache.read(self._folder / name / "identity.md")[0], self._parsed.get(name)
        return known if known is not None and known[0] is text else (text, front_of(parse_identity(text)[0]))


class Roster:
    """The current roster, bots first. Without a `folder` there are no personas. `names` maps the keys of all agents to
    their display names, and stays the same object. Listeners are called on each change."""

    def __init__(
        self,
        settings: Settings,
        directory: Directory,
        presence: Presence,
        folder: Path | None = None,
        lacks: Lacks = lacking_key,
    ) -> None:
        self._settings, self._directory, self._presence, self._lacks = settings, directory, presence, lacks
        self._folders = PersonaFolders(folder) if folder is not None else None
        self._elsewhere = frozenset[str]()
        self._has_folders = False  # when the entries were read
        self._entries: tuple[RosterEntry, ...] = ()
        self._listeners: list[Callable[[], None]] = []
        self.names = {name: agent.display_name for name, agent in settings.agents.items()}
        self._apply(self._folders.refresh() if self._folders is not None else {})

    def __iter__(self) -> Iterator[RosterEntry]:
        return iter(self._entries)

    @property
    def personas(self) -> tuple[RosterEntry, ...]:
        return tuple(entry for entry in self._entries if not entry.is_bot)

    def of(self, key: str) -> RosterEntry | None:
        return next((entry for entry in self._entries if entry.key == key), None)

    def named(self, name: str) -> RosterEntry | None:
        """Return the agent that people call `name`; None if nobody has that name, or several do."""
        found = named({entry.key: entry.shown for entry in self._entries}, name)
        return self.of(found[0]) if len(found) == 1 else None

    def gone(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Return the keys whose personas were deleted. Bots are never gone, since another process may run them."""
        if not self._has_folders:
            return ()
        return tuple(key for key in keys if self.of(key) is None and key not in self._settings.agents)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self.refresh()

    async def refresh(self) -> None:
        """Check folders and presence now, so that a change takes effect immediately."""
        if self._folders is None:
            return
        tokenless = [agent.name for agent in self._settings.agents.values() if agent.token is None]
        if (present := await self._presence.read(tokenless)) is not None:
            self._elsewhere = frozenset(present)
        self._apply(await asyncio.to_thread(self._folders.refresh))

    def _apply(self, fronts: Fronts) -> None:
        entries = list_agents(self._settings, fronts, self._elsewhere, self._lacks)
        self._has_folders = self._folders is not None and self._folders.has_folders
        if self._folders is None:
            entries = tuple(entry for entry in entries if entry.is_bot)
        if entries == self._entries:
            return
        self._entries = entries
        shown = {entry.key: entry.shown for entry in entries if entry.settings is not None}
        self.names.clear()
        self.names.update({name: agent.display_name for name, agent in self._settings.agents.items()} | shown)
        self._directory.know_names(self.names)
        for listener in self._listeners:
            listener()


@dataclass(frozen=True, slots=True)
class AgentName:
    """The key and display name of an agent that may not be in the roster."""

    key: str
    shown: str


Entry = TypeVar("Entry", bound=RosterEntry | AgentName)


def find(entries: Sequence[Entry], name: str) -> Entry | str:
    """Return the agent that people call `name`, or a sentence that says why there is none."""
    found = _matches(entries, name)
    if len(found) > 1:
        shown = [f"{entry.shown} ({entry.key})" for entry in found]
        either = f"{', '.join(shown[:-1])} or {shown[-1]}"
        return f"“{name}” could be {either}. Write the full name or the key in parentheses."
    if found:
        return found[0]
    close = nearest(entries, name)
    return f"There's no bot or persona called “{name}”.{f' Did you mean {close}?' if close else ''}"


def members_of(entries: Sequence[Entry], text: str) -> tuple[list[Entry], list[str]]:
    """Return the agents in a list of names, each once in the order given, and a sentence for each name that isn't
    exactly one agent's. Commas, semicolons, lines, "and", "vs", and "@" separate names, unless part of a name."""
    cuts = [(found.start(), found.end()) for found in _SEPARATOR.finditer(text)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(text)]
    found, problems, at = dict[str, Entry](), list[str](), 0
    while at < len(starts):
        last = at
        for until in range(min(at + MAX_NAME_PARTS, len(ends) - 1), at, -1):
            joined = _matches(entries, text[starts[at] : ends[until]])
            if len(joined) == 1 and len(_SEPARATOR.findall(joined[0].shown)) == until - at:
                last = until
                break
        name = text[starts[at] : ends[last]].strip()
        at = last + 1
        if not name:
            continue
        entry = find(entries, name)
        if isinstance(entry, str):
            problems.append(entry)
        else:
            found.setdefault(entry.key, entry)
    return list(found.values()), problems


def without_mentions(text: str, name_of: Callable[[int], str | None]) -> str:
    """Replace @mentions of users by their names, if `name_of` knows them."""
    return _MENTION.sub(lambda mention: name_of(int(mention[1])) or mention[0], text)


def _matches(entries: Sequence[Entry], name: str) -> list[Entry]:
    keys = named({entry.key: entry.shown for entry in entries}, name)
    return [entry for entry in entries if entry.key in keys]


def nearest(entries: Sequence[RosterEntry | AgentName], name: str) -> str | None:
    """Return the display name most similar to a name that nobody has."""
    shown = {letters: entry.shown for entry in entries for letters in (letters_of(entry.key), letters_of(entry.shown))}
    close = get_close_matches(letters_of(name), shown, n=1, cutoff=MIN_LIKENESS)
    return shown[close[0]] if close else None
