"""An agent's persona: a folder of markdown files, read at most once a second; and who may change the files.

    personas/<name>/*.md ─┬─ card, layer, front   its names and settings                (identity.md's front matter)
                          ├─ system               its part of the prompt                (agentic.personas.prompt)
                          └─ checks, jobs, hooks  its automation                        (heartbeat.md, agents.md)

This process's own changes to a file take effect immediately. A parsed file is cached while its text is the same object.
Without a folder, the agent is as the table of agents describes it. PersonaMemory adds the parts that depend on the
channel: the memory entries that may be shown there, and the tools for its memory and workspace.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from cachetools import LRUCache

from agent_config import AgentSpec, FrontMatter, Settings
from agentic.personas.files import (
    MAY_BE_MISSING,
    PERSONA_FILES,
    FileCache,
    PersonaError,
    PersonaFiles,
    read_persona,
)
from agentic.personas.identity import IdentityCard, parse_identity
from agentic.personas.memory import MaySee, ensure_memory, everywhere, origins, people_in, visible_memory
from agentic.personas.prompt import PersonaPrompt, laid_out, unclosed_comments
from agentic.personas.schedules import Check, Hooks, Job, parse_cron, parse_heartbeat, parse_hooks
from agentic.personas.store import BootReport, bootstrap, hide_notes, remove_leftovers
from agentic.personas.workspace import Workspace
from agentic.settings.models import default_of
from agentic.tools.own_tools import MEMORY, WRITING, ChannelAudience, MayWrite, MemoryTool, file_tools
from agentic.tools.tool import RunnableTool

READ_SECONDS = 1.0  # until files are read again; a turn asks for them many times
MAX_PROMPTS = 32  # cached for each agent, since channels see different parts of its memory
CARD_OPTIONS = (
    *("mode", "temperature", "thinking", "max_output_tokens"),
    *("always_search", "search_pictures", "message_log", "recall"),
)

log = logging.getLogger(__name__)

T = TypeVar("T")


class Persona:
    """A persona in `folder`; `soul` replaces soul.md. If it's `complete`, missing files are problems. A problem in a
    file is logged once, until the file changes; no method raises."""

    def __init__(self, agent: str, folder: Path, soul: str | None = None, *, complete: bool = True) -> None:
        self._agent, self.folder, self._soul, self._cache = agent, folder, soul, FileCache()
        self._may_lack = MAY_BE_MISSING if complete else PERSONA_FILES
        self._reported: dict[str, tuple[str, ...]] = {}
        self._parsed: dict[str, tuple[str | None, Any]] = {}
        self._prompts: LRUCache[tuple[PersonaFiles, frozenset[int], str | None], PersonaPrompt] = LRUCache(MAX_PROMPTS)

    @property
    def exists(self) -> bool:
        return os.path.isdir(self.folder)

    def read(self) -> PersonaFiles:
        """Return the files, at most `READ_SECONDS` old but with this process's own changes; all None without a
        folder."""
        files = read_persona(self.folder, self._cache, self._may_lack, READ_SECONDS)
        if all(text is None for _, text in files) and not self.exists:
            return PersonaFiles()
        self._report("files", files.problems)
        return files if self._soul is None else replace(files, soul=self._soul)

    def _text(self, name: str) -> str | None:
        return self._cache.read(f"{self.folder}/{name}", READ_SECONDS)[0]

    @property
    def card(self) -> IdentityCard:
        """The current front matter of identity.md."""
        return self._identity()[0]

    def layer(self) -> Mapping[str, object]:
        """Return the options in the front matter; the same object until they change."""
        return self._identity()[1]

    def _identity(self) -> tuple[IdentityCard, Mapping[str, object]]:
        return self._parse("identity", self._text("identity.md"), _card_and_layer)

    def _parse(self, part: str, text: str | None, parse: Callable[[str | None], tuple[T, Sequence[str]]]) -> T:
        """Parse the text and report its problems; a text that didn't change isn't parsed again."""
        known = self._parsed.get(part)
        if known is None or known[0] is not text:
            value, problems = parse(text)
            self._parsed[part] = known = (text, value)
            self._report(part, problems)
        found: T = known[1]
        return found

    def system(self, may_see: MaySee = everywhere, memory_tool: str | None = "memory") -> PersonaPrompt:
        """Return the persona's part of the prompt, with the memory entries from channels that `may_see` allows. Both
        texts are empty if the files are. If the agent can't change its memory here, `memory_tool` is None."""
        files = self.read()
        seen = frozenset(channel for channel in origins(files.memory or "") if may_see(channel))
        key = (files, seen, memory_tool)
        known = self._prompts.get(key)
        if known is None:
            self._report("comments", unclosed_comments(files))
            memory = visible_memory(files.memory, seen.__contains__) if files.memory else None
            prompt = replace(laid_out(replace(files, memory=memory), memory_tool), people=people_in(files.memory or ""))
            if said := self.card.disclosure:
                prompt = replace(prompt, stable=f"{prompt.stable}If someone asks what you are, tell them: {said}\n\n")
            known = self._prompts[key] = prompt
        return known

    def checks(self) -> tuple[Check, ...]:
        return self._parse("heartbeat", self.read().heartbeat, parse_heartbeat)

    def jobs(self) -> tuple[Job, ...]:
        return self._parse("cron", self._text("agents.md"), parse_cron)

    def hooks(self) -> Hooks:
        return self._parse("hooks", self._text("agents.md"), parse_hooks)

    def boot(self, spec: AgentSpec) -> BootReport:
        """Create missing files, and log which files were read and created. Blocks on the disk. If the folder can't be
        written, log that; the agent is then as the table of agents describes it."""
        try:
            if removed := remove_leftovers(self.folder):
                log.info("%s: removed %d temporary file(s) from an earlier run", self._agent, removed)
        except PersonaError as error:
            self._report("leftovers", (f"cannot remove temporary files from an earlier run: {error}",))
        first = {"soul.md": f"{spec.personality.strip()}\n", "identity.md": f"You are {spec.display_name}.\n"}
        report = bootstrap(self.folder, first)
        loaded, made = ", ".join(report.loaded) or "no file", ", ".join(report.made) or "nothing"
        log.info("%s: persona read from %s; created: %s", self._agent, loaded, made)
        self._report("boot", report.problems)
        return report

    def hide_notes(self) -> None:
        """Make the files that the agent wrote in earlier runs readable only by the owner; `boot` does too."""
        self._report("notes", hide_notes(self.folder))

    async def restore_memory(self) -> None:
        """Recreate memory.md if it was deleted. A failure is only logged."""
        if self._text("memory.md") is not None or not self.exists:
            return
        try:
            if await asyncio.to_thread(ensure_memory, self.folder):
                log.info("%s: memory.md was missing; recreated", self._agent)
        except PersonaError as error:
            self._report("memory", (f"memory.md: cannot be recreated: {error}",))

    def _report(self, part: str, problems: Sequence[str]) -> None:
        for problem in problems:
            if problem not in self._reported.get(part, ()):
                log.warning("%s: %s", self._agent, problem)
        self._reported[part] = tuple(problems)


class Personas:
    """The personas of all agents, each in its folder below PERSONAS_DIR. Only the agents in the table need all
    files."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known = {
            name: Persona(name, settings.persona_folder(name), settings.soul_of(name)) for name in settings.agents
        }

    def of(self, agent: str) -> Persona:
        if agent not in self._known:
            self._known[agent] = Persona(agent, self._settings.persona_folder(agent), complete=False)
        return self._known[agent]

    def layer(self, agent: str) -> Mapping[str, object]:
        """Return the options in an agent's front matter. OptionBook calls this many times a turn."""
        return self.of(agent).layer()


def read_fronts(folder: Path, agents: Sequence[str]) -> Mapping[str, FrontMatter]:
    """Read each agent's front matter, which the settings need before the start (agent_config.ReadFronts). Missing files
    are fine, since the start creates them; unreadable files are logged there."""
    fronts: dict[str, FrontMatter] = {}
    for agent in agents:
        card, problems = parse_identity(read_persona(folder / agent).identity)
        for problem in problems:
            log.warning("%s: %s", agent, problem)
        if card.provider and not _model_of(card):
            log.warning("%s: identity.md: provider: has no effect without a model", agent)
        fronts[agent] = front_of(card)
    return fronts


def front_of(card: IdentityCard) -> FrontMatter:
    same = {each.name: getattr(card, each.name) for each in fields(FrontMatter) if each.name != "models"}
    model = _model_of(card)
    return FrontMatter(**{**same, "interests": card.interests or ()}, models=(model,) if model else ())


def _model_of(card: IdentityCard) -> str:
    """Return provider/model: the card's, or the default model of an endpoint such as Ollama; "" if there is neither."""
    model = card.model or default_of(card.provider or "")
    is_full = not model or card.provider is None or model.startswith(f"{card.provider}/")
    return model if is_full else f"{card.provider}/{model}"


def _card_and_layer(text: str | None) -> tuple[tuple[IdentityCard, Mapping[str, object]], Sequence[str]]:
    card, problems = parse_identity(text)
    model = _model_of(card)
    layer: dict[str, object] = {name: value for name in CARD_OPTIONS if (value := getattr(card, name)) is not None}
    if "/" in model:  # a model without a provider is read only at the start
        layer["model"] = model
    return (card, layer), problems


@dataclass(frozen=True)
class PersonaMemory:
    """An agent's persona prompt and file tools. `places` knows who reads which channel, `may_write` enforces the limit
    on memory changes, and `may_share` says whether a channel's content may be shown in all others."""

    persona: Persona
    places: ChannelAudience
    may_write: MayWrite
    may_share: Callable[[int], bool]

    async def prompt(self, channel_id: int, *, writes: bool) -> PersonaPrompt:
        """Build the prompt from the current files. `writes`: the agent has the memory tool in the channel."""
        await self.persona.restore_memory()
        return self.persona.system(self.places.may_see(channel_id), MEMORY if writes else None)

    def tools(self) -> Sequence[RunnableTool]:
        """Return the tools that have files to work on now; the owner's settings choose among them."""
        if os.path.isdir(self._workspace):  # called several times a turn; pathlib takes three times as long
            return self._tools
        if not self.persona.exists:
            return ()
        return self._tools_without_files

    @cached_property
    def _workspace(self) -> str:
        return str(self.persona.folder / "workspace")

    @cached_property
    def _tools_without_files(self) -> tuple[RunnableTool, ...]:
        """The tools while there is no file to read."""
        return tuple(tool for tool in self._tools if tool.spec.name in (MEMORY, *WRITING))

    @cached_property
    def _tools(self) -> tuple[RunnableTool, ...]:
        folder = self.persona.folder
        return (
            MemoryTool(folder, self.places, self.may_write),
            *file_tools(Workspace(Path(self._workspace)), self.may_share),
        )


def only_guild(settings: Settings, guild_of: Callable[[int], int | None]) -> int | None:
    """Return the bots' only guild; None if there are several, or if an unknown channel may be in another guild."""
    is_single = len(settings.guild_ids) == 1
    channels = set() if is_single else set(settings.channels)
    if settings.output_channel_id is not None:
        channels.add(settings.output_channel_id)
    guilds = {*(settings.guild_ids if is_single else ()), *map(guild_of, channels)}
    return guilds.pop() if len(guilds) == 1 else None
