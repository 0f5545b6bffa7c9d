"""An agent's persona: the folder of markdown files that says who it is, read for each event."""

from __future__ import annotations

import logging
from pathlib import Path

from agent_personas.cron import Job, parse_cron
from agent_personas.files import FileCache, PersonaFiles, read_persona
from agent_personas.heartbeat import Check, parse_heartbeat
from agent_personas.hooks import Hooks, parse_hooks

log = logging.getLogger(__name__)


class Persona:
    """One agent's, in `folder`. A file that did not change is neither read nor parsed again; what is wrong in one is
    told once, until it changes."""

    def __init__(self, agent: str, folder: Path) -> None:
        self._agent, self.folder, self._cache = agent, folder, FileCache()
        self._told: dict[str, tuple[str, ...]] = {}
        self._heartbeat: tuple[str | None, tuple[Check, ...]] = (None, ())
        self._cron: tuple[str | None, tuple[Job, ...]] = (None, ())
        self._hooks: tuple[str | None, Hooks] = (None, Hooks())

    def read(self) -> PersonaFiles:
        """The files as they are now."""
        return read_persona(self.folder, self._cache)

    def checks(self) -> tuple[Check, ...]:
        """What heartbeat.md asks for now."""
        text = self.read().heartbeat
        if text is not self._heartbeat[0]:
            checks, problems = parse_heartbeat(text)
            self._heartbeat = (text, checks)
            self._tell("heartbeat", problems)
        return self._heartbeat[1]

    def jobs(self) -> tuple[Job, ...]:
        """What agents.md asks for under "Cron Jobs" now."""
        text = self.read().agents
        if text is not self._cron[0]:
            jobs, problems = parse_cron(text)
            self._cron = (text, jobs)
            self._tell("cron", problems)
        return self._cron[1]

    def hooks(self) -> Hooks:
        """What agents.md asks for under "Hooks" now."""
        text = self.read().agents
        if text is not self._hooks[0]:
            hooks, problems = parse_hooks(text)
            self._hooks = (text, hooks)
            self._tell("hooks", problems)
        return self._hooks[1]

    def _tell(self, part: str, problems: tuple[str, ...]) -> None:
        for problem in problems:
            if problem not in self._told.get(part, ()):
                log.warning("%s: %s", self._agent, problem)
        self._told[part] = problems
