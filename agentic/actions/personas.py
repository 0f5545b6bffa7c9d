"""`/agent` and `/agent-file`: list, show, create, edit, and delete personas and the files of agents.

A persona is an agent without a bot of its own: a folder of files (docs/personas.md). Its form has what a person decides
about one: its name, who it is (soul.md), model, interests, and further lines of identity.md's front matter as they
stand there. A deleted persona is moved aside, where the owner finds it.

An edit is parsed before it is saved: a text with problems is given back with the reasons. The version before stays in
the persona's history. A form's id carries a digest of the text it was made from, so that an edit never overwrites one
made in the meantime.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_config import NoModel
from agentic.actions.base import (
    FIELD_CHARACTERS,
    FORM,
    ActionRequest,
    CommandReply,
    Form,
    FormField,
    Handle,
    Response,
    give_back,
    read_text,
    text_form,
)
from agentic.agent.persona import front_of
from agentic.agent.roster import KEY, RosterEntry, find, without_mentions
from agentic.agent.services import Services
from agentic.chat.splitting import MAX_MESSAGE, length
from agentic.context.entries import RESERVED, skeleton
from agentic.personas.files import PERSONA_FILES, Ambiguous, FileCache, NotFound, PersonaError, read_file
from agentic.personas.identity import FILE as IDENTITY
from agentic.personas.identity import further_lines, parse_identity, with_front_matter
from agentic.personas.memory import FILE as MEMORY
from agentic.personas.memory import MaySee, is_hidden_from, visible_memory
from agentic.personas.schedules import parse_cron, parse_heartbeat, parse_hooks
from agentic.personas.store import DELETED, before, change, create_folder, delete_folder, parse_boot

log = logging.getLogger(__name__)


MAX_PROBLEMS = 10
EDIT_FILE = "agent-file"  # the form, as its id begins
_CHECKS: Mapping[str, tuple[Callable[[str], tuple[object, tuple[str, ...]]], ...]] = {
    "identity.md": (parse_identity,),
    "heartbeat.md": (parse_heartbeat,),
    "agents.md": (parse_cron, parse_hooks),
    "boot.md": (parse_boot,),
}
ELSEWHERE = ", without notes from channels that not everyone here can read"
UNKNOWN_FILE = "There is no such persona file."
PERSONA = "agent"  # the form, as its id begins
SOUL = "soul.md"
MAX_NAME, MAX_MODEL, MAX_INTERESTS, MAX_FURTHER = 32, 200, 400, 1500  # characters
MAX_LISTED = 30
IN_THE_FORM = ("display_name", "model", "interests", "provider")  # the form's model names the provider too
FURTHER_HINT = "avatar: https://… · temperature: 0.8 · max_output_tokens: 800 · talkativeness: 0.6; a line each"
NO_FILES = "This installation reads no persona files."


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
        self, folder_of: Callable[[str], Path], names: Mapping[str, str], may_see: Callable[[int], MaySee] = here_alone
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
        return CommandReply(head, file=(name, text)) if length(shown) > MAX_MESSAGE or "```" in text else shown

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

    async def save_form(self, command: ActionRequest) -> Response:
        return await self.save(str(command.values.get("id", "")), read_text(command.values))

    async def save(self, form_id: str, text: str) -> Response:
        """Save a submitted form, unless it has problems or the file has changed since."""
        prefix, _, rest = form_id.partition(":")
        agent, _, rest = rest.partition(":")
        name, _, digest = rest.partition(":")
        if prefix != EDIT_FILE or agent not in self._names or name not in PERSONA_FILES:
            return UNKNOWN_FILE
        text = text.rstrip() + "\n" if text.strip() else ""
        if problems := problems_of(name, text):
            lines = [f"- {problem}" for problem in problems[:MAX_PROBLEMS]]
            return CommandReply("\n".join(["Not saved. Please correct:", *lines]), file=(name, text))

        def replace_unchanged(old: str | None) -> str:
            if _digest(old or "") != digest:
                raise Ambiguous("the file was changed in the meantime; open it again")
            return text

        try:
            await asyncio.to_thread(change, self._folder_of(agent), name, replace_unchanged)
        except PersonaError as error:
            return CommandReply(f"Not saved: {error}.", file=(name, text))
        log.info("%s: %s edited from Discord", agent, name)
        return (
            f"Saved {name} of {self._names[agent]}. It counts from the next event on; its history has the old version."
        )

    async def _shown(self, agent: str, name: str, here: int, back: int = 0) -> tuple[str, bool]:
        """The part of a file that may be shown in a channel, and whether anything was left out."""
        if agent not in self._names or name not in PERSONA_FILES:
            raise NotFound("there is no such file")
        folder = self._folder_of(agent)
        if back:
            text = await asyncio.to_thread(before, folder, name, back)
        else:
            text = await asyncio.to_thread(FileCache().read, folder / name)
        if name != MEMORY:
            return text, False
        may_see = self._may_see(here)
        return (visible_memory(text, may_see), True) if is_hidden_from(text, may_see) else (text, False)


class PersonaCommands:
    """`everyone`, `managers` and `owners` are the handlers for those who may use them, by command."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._folder, self._roster = services.settings.personas_dir, services.roster
        self._folder_of = services.settings.persona_folder
        self.everyone: Mapping[str, Handle] = {"agent list": self.list}
        self.managers: Mapping[str, Handle] = {"agent show": self.show}
        self.owners: Mapping[str, Handle] = {
            "agent create": self.create,
            "agent edit": self.edit,
            f"{FORM} {PERSONA}": self.save,
            "agent delete": self.delete,
        }

    async def list(self, _: ActionRequest) -> str:
        entries = tuple(self._roster)
        lines = [_line(entry) for entry in entries[:MAX_LISTED]]
        more = [f"and {len(entries) - MAX_LISTED} more"] if len(entries) > MAX_LISTED else []
        return "\n".join(["Bots and personas:", *lines, *more])

    async def show(self, command: ActionRequest) -> Response:
        entry = self._entry(command)
        if isinstance(entry, str):
            return entry
        soul = await asyncio.to_thread(read_file, self._folder_of(entry.key), SOUL, FileCache())
        front = entry.front
        facts = {"Interests": ", ".join(front.interests), "Talkativeness": front.talkativeness, "Avatar": front.avatar}
        known = [f"{name}: {value}" for name, value in facts.items() if value not in (None, "")]
        head = "\n".join([_line(entry), *known])
        text = f"{head}\n```md\n{soul or ' '}\n```"
        if "```" in (soul or "") or length(text) > MAX_MESSAGE:
            return CommandReply(head, file=(SOUL, soul or ""))
        return text

    async def create(self, _: ActionRequest) -> Response:
        return _form("", {}) if self._services.personas is not None else NO_FILES

    async def edit(self, command: ActionRequest) -> Response:
        entry = self._persona(command)
        if isinstance(entry, str):
            return entry
        soul, identity = await asyncio.to_thread(self._texts, entry.key)
        card, problems = parse_identity(identity)
        further = further_lines(identity or "", without=IN_THE_FORM)
        if problems or len(soul) > FIELD_CHARACTERS or len(further) > MAX_FURTHER:
            return f"{entry.shown} cannot be edited in a form: {problems[0] if problems else 'its files are too long'}."
        model = card.model or ""
        if card.provider and model and not model.startswith(f"{card.provider}/"):
            model = f"{card.provider}/{model}"
        values = {
            "name": entry.shown,
            "who": soul,
            "model": model,
            "interests": ", ".join(card.interests or ()),
            "further": further,
        }
        return _form(f"{entry.key}:{_digest(soul, identity or '')}", values)

    async def save(self, command: ActionRequest) -> Response:
        values = {name: str(value) for name, value in command.values.items()}
        _, _, rest = values.get("id", "").partition(":")
        key, _, digest = rest.partition(":")
        try:
            saved = await (self._change(key, digest, values) if key else self._create(values))
        except (PersonaError, NoModel, ValueError) as error:
            return give_back(f"Not saved: {error}.", values, "persona.txt")
        await self._roster.look()
        entry = self._roster.of(saved)
        if entry is None:
            return "Saved, but the persona is not in the list yet; /agent list shows it in a moment."
        if entry.why_not is not None:
            return f"Saved {entry.shown}. It cannot take part yet: {entry.why_not}."
        return f"Saved {entry.shown}, which speaks by {entry.model}. /room create opens a room with it."

    async def delete(self, command: ActionRequest) -> str:
        entry = self._persona(command)
        if isinstance(entry, str):
            return entry
        rooms = await self._services.state.coordination.rooms.list("active", limit=None)
        if sits := [f"<#{room.thread_id}>" for room in rooms if entry.key in room.names]:
            return f"{entry.shown} takes part in {sits[0]}. Use /room remove there first."
        try:
            kept = await asyncio.to_thread(delete_folder, self._folder, entry.key)
        except PersonaError as error:
            return f"{entry.shown} was not deleted: {error}."
        await self._roster.look()
        log.info("%s: persona deleted from Discord, kept as %s/%s", entry.key, DELETED, kept)
        return f"Deleted {entry.shown}. The owner finds its files in {DELETED}/{kept} of the folder of personas."

    async def _create(self, values: Mapping[str, str]) -> str:
        """The key of the new persona. Raises PersonaError, NoModel, and ValueError with what is wrong."""
        name = " ".join(values.get("name", "").split())
        key = key_of(name)
        self._check_name(name, key)
        soul, identity = self._files(key, name, values, f"You are {name}.\n")
        await asyncio.to_thread(create_folder, self._folder, key, {SOUL: soul, IDENTITY: identity})
        log.info("%s: persona created from Discord", key)
        return key

    async def _change(self, key: str, digest: str, values: Mapping[str, str]) -> str:
        entry = self._roster.of(key)
        if entry is None or entry.is_bot:
            raise NotFound("there is no such persona any more")
        name = " ".join(values.get("name", "").split())
        self._check_name(name, key, entry)
        soul_before, identity_before = await asyncio.to_thread(self._texts, key)
        if _digest(soul_before, identity_before or "") != digest:
            raise Ambiguous("the files were changed in the meantime; open the form again")
        soul, identity = self._files(key, name, values, identity_before or "")

        def write() -> None:
            change(self._folder / key, SOUL, lambda _: soul)
            change(self._folder / key, IDENTITY, lambda _: identity)

        await asyncio.to_thread(write)
        log.info("%s: persona edited from Discord", key)
        return key

    def _files(self, key: str, name: str, values: Mapping[str, str], identity: str) -> tuple[str, str]:
        """soul.md and identity.md. Raises NoModel, and ValueError for what would not be understood."""
        fields = {"display_name": name, "model": values.get("model", ""), "interests": values.get("interests", "")}
        text = with_front_matter(identity, fields, values.get("further", ""))
        card, problems = parse_identity(text)
        if problems:
            raise ValueError("; ".join(problem.partition(": ")[2] for problem in problems))
        self._services.settings.persona_models.settings_of(key, front_of(card))
        soul = values.get("who", "").strip()
        if not soul:
            raise ValueError("who it is, is empty")
        return f"{soul}\n", text

    def _check_name(self, name: str, key: str, own: RosterEntry | None = None) -> None:
        """Raises ValueError for a name that is too much like another one."""
        if not name:
            raise ValueError("the name is empty")
        if not KEY.fullmatch(key):
            raise ValueError("the name has no letter or digit")
        if skeleton(name) in RESERVED:
            raise ValueError("the program uses that name for itself in prompts; choose another one")
        wanted = {skeleton(name)} if own is not None else {skeleton(name), skeleton(key)}
        for other in self._roster:
            if other is not own and wanted & {skeleton(other.key), skeleton(other.shown)}:
                raise ValueError(f"the name is too much like {other.shown}; choose another one")

    def _texts(self, key: str) -> tuple[str, str | None]:
        cache = FileCache()
        return read_file(self._folder / key, SOUL, cache) or "", read_file(self._folder / key, IDENTITY, cache)

    def _entry(self, command: ActionRequest) -> RosterEntry | str:
        """The agent that the option names, or why there is none."""
        name = without_mentions(str(command.values.get("name", "")), self._services.directory.agent_of)
        return find(tuple(self._roster), name)

    def _persona(self, command: ActionRequest) -> RosterEntry | str:
        entry = self._entry(command)
        if isinstance(entry, RosterEntry) and entry.is_bot:
            return f"{entry.shown} is a bot, no persona. Its files are shown and edited by /agent-file."
        return entry


def key_of(name: str) -> str:
    """The folder of a persona: "Ada the Ünlikely" → "ada-the-unlikely". A name without Latin letters gets a number that
    follows from it; "" for one without any letter or digit."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    key = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MAX_NAME].strip("-")
    if key or not re.search(r"\w", name):
        return key
    return f"persona-{hashlib.sha256(name.casefold().encode()).hexdigest()[:8]}"


def _form(rest: str, values: Mapping[str, str]) -> Form:
    def field(name: str, label: str, hint: str = "", **more: Any) -> FormField:
        return FormField(id=name, label=label, hint=hint, text=values.get(name, ""), **more)

    who_hint = "a historian who doubts every date and loves footnotes …"
    model_hint = "provider/model; left empty, the least expensive that is set up"
    return Form(
        id=f"{PERSONA}:{rest}",
        title=f"Persona: {values['name']}" if values else "A new persona",
        fields=(
            field("name", "Name", required=True, most=MAX_NAME),
            field("who", "Who it is", who_hint, long=True, required=True),
            field("model", "Model", model_hint, most=MAX_MODEL),
            field("interests", "Interests", "subjects, separated by commas", most=MAX_INTERESTS),
            field("further", "Further settings", FURTHER_HINT, long=True, most=MAX_FURTHER),
        ),
    )


def _line(entry: RosterEntry) -> str:
    kind, model = "bot" if entry.is_bot else "persona", entry.model or "no model"
    return f"- **{entry.shown}** ({kind} `{entry.key}`): {model}{f'; {entry.why_not}' if entry.why_not else ''}"


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
