"""Show and edit a bot's persona files from Discord, for people who may.

An edit is parsed before it is saved: a text with problems is returned as a file, with a line for each. The version
before stays in the persona's history. The form's id carries a digest of the text it was made from, so that an edit
never overwrites one made in the meantime.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from agentic.actions.responses import CommandReply, Response, text_form
from agentic.chat.splitting import length
from agentic.personas.boot import parse_boot
from agentic.personas.cron import parse_cron
from agentic.personas.errors import Ambiguous, NotFound, PersonaError
from agentic.personas.files import PERSONA_FILES, FileCache
from agentic.personas.heartbeat import parse_heartbeat
from agentic.personas.hooks import parse_hooks
from agentic.personas.identity import parse_identity
from agentic.personas.memory import FILE as MEMORY
from agentic.personas.memory import MaySee, is_hidden_from, visible_memory
from agentic.personas.store import before, change
from agentic.services.discord.multipart import LIMIT

MOST_PROBLEMS = 10
EDIT_FILE = "agent-file"  # the form, as its id begins
_CHECKS: Mapping[str, tuple[Callable[[str], tuple[object, tuple[str, ...]]], ...]] = {
    "identity.md": (parse_identity,),
    "heartbeat.md": (parse_heartbeat,),
    "agents.md": (parse_cron, parse_hooks),
    "boot.md": (parse_boot,),
}
ELSEWHERE = ", without notes from channels that not everyone here can read"
UNKNOWN_FILE = "There is no such persona file."

log = logging.getLogger(__name__)


def problems_of(name: str, text: str) -> tuple[str, ...]:
    """One line for each part of the file that would not be understood."""
    return tuple(problem for parse in _CHECKS.get(name, ()) for problem in parse(text)[1])


def here_alone(here: int) -> MaySee:
    """Show notes only in the channel that they were made in."""
    return lambda channel_id: channel_id == here


class PersonaFileEditor:
    """Persona files as replies. `folder_of` returns an agent's folder; `names` maps agents to shown names.

    Managers of one server have no rights in another: of a memory only entries are shown that `may_see` allows in the
    channel `here`, and a memory that holds others cannot be edited from there.
    """

    def __init__(
        self,
        folder_of: Callable[[str], Path],
        names: Mapping[str, str],
        may_see: Callable[[int], MaySee] = here_alone,
    ) -> None:
        self._folder_of, self._names, self._may_see = folder_of, names, may_see

    async def show(self, agent: str, name: str, here: int, back: int = 0) -> Response:
        """The file, or its version before the last `back` changes."""
        try:
            text, elsewhere = await self._shown(agent, name, here, back)
        except PersonaError as error:
            return f"{name} of {self._names.get(agent, agent)} cannot be shown: {error}."
        was = f", before its last {f'{back} changes' if back > 1 else 'change'}" if back else ""
        head = f"{name} of {self._names[agent]}{was}{ELSEWHERE if elsewhere else ''}:"
        shown = f"{head}\n```md\n{text or ' '}\n```"
        return CommandReply(head, file=(name, text)) if length(shown) > LIMIT or "```" in text else shown

    async def form(self, agent: str, name: str, here: int) -> Response:
        """A form with the file's text; a file to download where it is too long for a form."""
        try:
            text, elsewhere = await self._shown(agent, name, here)
        except NotFound:
            text, elsewhere = "", False
        except PersonaError as error:
            return f"{name} of {self._names.get(agent, agent)} cannot be edited here: {error}."
        if elsewhere:
            return f"{name} of {self._names[agent]} has notes that not everyone here may read. Edit it on disk."
        form_id = f"{EDIT_FILE}:{agent}:{name}:{_digest(text)}"
        try:
            return text_form(form_id, f"{self._names[agent]}: {name}", text)
        except ValueError as error:
            return CommandReply(f"{name} is too long to edit here: {error}. Edit it on disk.", file=(name, text))

    async def save(self, form_id: str, text: str) -> Response:
        """Save a submitted form, unless it has problems or the file has changed since."""
        prefix, _, rest = form_id.partition(":")
        agent, _, rest = rest.partition(":")
        name, _, digest = rest.partition(":")
        if prefix != EDIT_FILE or agent not in self._names or name not in PERSONA_FILES:
            return UNKNOWN_FILE
        text = text.rstrip() + "\n" if text.strip() else ""
        if problems := problems_of(name, text):
            lines = [f"- {problem}" for problem in problems[:MOST_PROBLEMS]]
            return CommandReply("\n".join(["Not saved. Please correct:", *lines]), file=(name, text))
        try:
            await asyncio.to_thread(_save, self._folder_of(agent), name, text, digest)
        except PersonaError as error:
            return CommandReply(f"Not saved: {error}.", file=(name, text))
        log.info("%s: %s edited from Discord", agent, name)
        return (
            f"Saved {name} of {self._names[agent]}. It counts from the next event on; its history has the old version."
        )

    async def _shown(self, agent: str, name: str, here: int, back: int = 0) -> tuple[str, bool]:
        """The part of a file that may be shown in a channel, and whether anything was left out."""
        text = await self._read(agent, name, back)
        if name != MEMORY:
            return text, False
        may_see = self._may_see(here)
        return (visible_memory(text, may_see), True) if is_hidden_from(text, may_see) else (text, False)

    async def _read(self, agent: str, name: str, back: int) -> str:
        if agent not in self._names or name not in PERSONA_FILES:
            raise NotFound("there is no such file")
        if back:
            return await asyncio.to_thread(before, self._folder_of(agent), name, back)
        return await asyncio.to_thread(FileCache().read, self._folder_of(agent) / name)


def _save(folder: Path, name: str, text: str, digest: str) -> None:
    def edit(old: str | None) -> str:
        if _digest(old or "") != digest:
            raise Ambiguous("the file was changed in the meantime; open it again")
        return text

    change(folder, name, edit)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
