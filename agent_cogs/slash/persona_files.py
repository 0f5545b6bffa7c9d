"""The part of the desk where who manages the server sees and changes what a bot is: the files of its persona.

What is changed is looked at before it is kept: a file that would not be understood is given back, as a file, with a
line for each problem. What was there before stays in the persona's history. A form carries a digest of the text that it
was made of, so that nobody writes over what was changed meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_discord.posting.splitting import LIMIT, length
from agent_discord.slash.responses import CommandReply, Form, Response
from agent_personas.boot import parse_boot
from agent_personas.errors import Ambiguous, NotFound, PersonaError
from agent_personas.files import PERSONA_FILES, FileCache
from agent_personas.identity import parse_identity
from agent_personas.memory import FILE as MEMORY
from agent_personas.memory import MaySee, is_hidden_from, visible_memory
from agent_personas.schedules.cron import parse_cron
from agent_personas.schedules.heartbeat import parse_heartbeat
from agent_personas.schedules.hooks import parse_hooks
from agent_personas.store import before, change

MOST_PROBLEMS = 10
_PREFIX = "agent-file"
_CHECKS: Mapping[str, tuple[Callable[[str], tuple[object, tuple[str, ...]]], ...]] = {
    "identity.md": (parse_identity,),
    "heartbeat.md": (parse_heartbeat,),
    "agents.md": (parse_cron, parse_hooks),
    "boot.md": (parse_boot,),
}
ELSEWHERE = ", without what was noted where not everybody here can read"
UNKNOWN_FILE = "That is none of a bot's files."

log = logging.getLogger(__name__)


def problems_of(name: str, text: str) -> tuple[str, ...]:
    """What of a file would not be understood, a line each."""
    return tuple(problem for parse in _CHECKS.get(name, ()) for problem in parse(text)[1])


def here_alone(here: int) -> MaySee:
    """What was learned in a channel is told there and nowhere else."""
    return lambda channel_id: channel_id == here


class PersonaFileEditor:
    """`folder` holds a folder for each agent; `names` maps agents to their shown names. Who manages one server manages
    no other: of a memory only what `may_see` says of the channel `here` is shown, and one that holds more is not
    changed from there."""

    def __init__(self, folder: Path, names: Mapping[str, str], may_see: Callable[[int], MaySee] = here_alone) -> None:
        self._folder, self._names, self._may_see = folder, names, may_see

    async def show(self, agent: str, name: str, here: int, back: int = 0) -> Response:
        """The file, or what it was before its last `back` changes."""
        try:
            text, elsewhere = await self._shown(agent, name, here, back)
        except PersonaError as error:
            return f"{name} of {self._names.get(agent, agent)} cannot be shown: {error}."
        was = f", before its last {f'{back} changes' if back > 1 else 'change'}" if back else ""
        head = f"{name} of {self._names[agent]}{was}{ELSEWHERE if elsewhere else ''}:"
        shown = f"{head}\n```md\n{text or ' '}\n```"
        return CommandReply(head, file=(name, text)) if length(shown) > LIMIT or "```" in text else shown

    async def form(self, agent: str, name: str, here: int) -> Response:
        """A form with the file's text; the text alone where it is too long for one."""
        try:
            text, elsewhere = await self._shown(agent, name, here)
        except NotFound:
            text, elsewhere = "", False
        except PersonaError as error:
            return f"{name} of {self._names.get(agent, agent)} cannot be changed here: {error}."
        if elsewhere:
            return f"{name} of {self._names[agent]} holds what was noted elsewhere. Please change it on its disk."
        form = Form(id=f"{_PREFIX}:{agent}:{name}:{_digest(text)}", title=f"{self._names[agent]}: {name}", text=text)
        try:
            _ = form.fields
        except ValueError as error:
            return CommandReply(
                f"{name} is too long to be changed here: {error}. Please change it on its disk.", file=(name, text)
            )
        return form

    async def save(self, form_id: str, text: str) -> Response:
        """Keeps what a form came back with, if it can be understood and nobody was faster."""
        prefix, _, rest = form_id.partition(":")
        agent, _, rest = rest.partition(":")
        name, _, digest = rest.partition(":")
        if prefix != _PREFIX or agent not in self._names or name not in PERSONA_FILES:
            return UNKNOWN_FILE
        text = text.rstrip() + "\n" if text.strip() else ""
        if problems := problems_of(name, text):
            told = [f"- {problem}" for problem in problems[:MOST_PROBLEMS]]
            return CommandReply("\n".join(["Not kept, since this would not be understood:", *told]), file=(name, text))
        try:
            await asyncio.to_thread(_save, self._folder / agent, name, text, digest)
        except PersonaError as error:
            return CommandReply(f"Not kept: {error}.", file=(name, text))
        log.info("%s of %s was changed by a person", name, agent)
        return (
            f"{name} of {self._names[agent]} is kept and counts from the next event on; what it was is in its history."
        )

    async def _shown(self, agent: str, name: str, here: int, back: int = 0) -> tuple[str, bool]:
        """What of a file may be shown in a channel, and whether there is more."""
        text = await self._read(agent, name, back)
        if name != MEMORY:
            return text, False
        may_see = self._may_see(here)
        return (visible_memory(text, may_see), True) if is_hidden_from(text, may_see) else (text, False)

    async def _read(self, agent: str, name: str, back: int) -> str:
        if agent not in self._names or name not in PERSONA_FILES:
            raise NotFound("there is no such file")
        if back:
            return await asyncio.to_thread(before, self._folder / agent, name, back)
        return await asyncio.to_thread(FileCache().read, self._folder / agent / name)


def _save(folder: Path, name: str, text: str, digest: str) -> None:
    def edit(old: str | None) -> str:
        if _digest(old or "") != digest:
            raise Ambiguous("the file was changed in the meantime")
        return text

    change(folder, name, edit)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
