"""`/agent` and `/agent-file`: list, show, create, edit, and delete personas and the files of agents.

A persona is an agent without a bot account: a folder of files (docs/personas.md). Its form has its name, who it is
(soul.md), its model, its interests, and the remaining lines of identity.md's front matter. A deleted persona is moved
aside, where the owner can find it.

An edit is parsed before it is saved: a text with problems is given back with the reasons. The old version stays in the
persona's history. A form's id carries a digest of the text it was made from, so an edit never overwrites a newer one.
Managers of one server have no rights in another: only the memory entries that this channel's readers may see are shown,
and a memory with other entries can't be edited from here.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator

from agent_config import NoModel
from agentic.actions.base import (
    FIELD_CHARACTERS,
    FORM,
    REPLY_CHARACTERS,
    ActionContext,
    ActionRefused,
    ActionRequest,
    File,
    Form,
    FormField,
    Outcome,
    done,
    give_back,
    read_text,
    refused,
    report,
    text_form,
)
from agentic.actions.values import Values, option
from agentic.agent.persona import front_of
from agentic.agent.roster import KEY, RosterEntry
from agentic.chat.splitting import length
from agentic.context.entries import RESERVED, skeleton
from agentic.llm.types import Thinking
from agentic.personas.files import MAX_FILE_BYTES, PERSONA_FILES, FileCache, NotFound, PersonaError
from agentic.personas.identity import FILE as IDENTITY
from agentic.personas.identity import further_lines, parse_identity, with_front_matter
from agentic.personas.memory import FILE as MEMORY
from agentic.personas.memory import is_hidden_from, visible_memory
from agentic.personas.schedules import parse_cron, parse_heartbeat, parse_hooks
from agentic.personas.store import DELETED, change, create_folder, delete_folder, parse_boot, versions_of
from agentic.text import counted

log = logging.getLogger(__name__)


MAX_BACK = 10  # changes in a file's history
MAX_PROBLEMS = 10
EDIT_FILE = "agent-file"  # the form, as its id begins
_CHECKS: Mapping[str, tuple[Callable[[str], tuple[object, tuple[str, ...]]], ...]] = {
    "identity.md": (parse_identity,),
    "heartbeat.md": (parse_heartbeat,),
    "agents.md": (parse_cron, parse_hooks),
    "boot.md": (parse_boot,),
}
ELSEWHERE = ", without notes from channels that not everyone here can read"
PERSONA = "agent"  # the form, as its id begins
SAVE_FILE, SAVE_PERSONA = f"{FORM} {EDIT_FILE}", f"{FORM} {PERSONA}"
SOUL = "soul.md"
MAX_NAME, MAX_MODEL, MAX_INTERESTS, MAX_FURTHER = 32, 200, 400, 1500  # characters
MAX_LISTED = 30
LEVELS: tuple[Thinking, ...] = get_args(Thinking)
IN_THE_FORM = ("display_name", "model", "interests", "provider")  # the form's model names the provider too
FURTHER_HINT = "avatar: https://… · temperature: 0.8 · thinking: low · max_output_tokens: 800; one per line"


def _file_name(written: object) -> object:
    """Accept a file's name without its ending, or in capitals."""
    return f"{written.strip().lower().removesuffix('.md')}.md" if isinstance(written, str) else written


class OfFile(Values):
    agent: str = option("Which bot", kind="bot")
    file: Annotated[str, BeforeValidator(_file_name)] = option("Which file", choices=PERSONA_FILES)


class ShowFile(OfFile):
    back: int = option("Show the version from this many changes ago (default: the current one)", 0, ge=0, le=MAX_BACK)


class NewText(OfFile):
    text: str = option("The file's new text", max_length=MAX_FILE_BYTES)
    digest: str = option("The digest of the text that was edited", max_length=64)


class AnyAgent(Values):
    name: str = option("Which bot or persona", kind="agent")


class NewPersona(Values):
    model: str = option("Its model (default: the least expensive one)", "", kind="model", max_length=MAX_MODEL)
    temperature: float | None = option("0 to 2, for models that have it", None, ge=0, le=2)
    thinking: str = option("How long it thinks, for models that have levels", "", choices=LEVELS)
    length: int | None = option("Most tokens of an answer, including its thinking", None, ge=16, le=64_000)


class OfPersona(Values):
    name: str = option("Which persona", kind="agent")


# -- persona files ----------------------------------------------------------------------------------------------------


def problems_of(name: str, text: str) -> tuple[str, ...]:
    """Return one line for each part of the file that couldn't be parsed."""
    return tuple(problem for parse in _CHECKS.get(name, ()) for problem in parse(text)[1])


async def show_file(context: ActionContext, request: ActionRequest, values: ShowFile) -> Outcome:
    name, shown, back = values.file, context.name_of(values.agent), values.back
    try:
        text, elsewhere = await _visible_text(context, request, values, back)
    except PersonaError as error:
        raise ActionRefused("file_not_shown", file=name, agent=shown, why=error) from error
    was = f", before the last {f'{back} changes' if back > 1 else 'change'}" if back else ""
    return _report_file(f"{shown}'s {name}{was}{ELSEWHERE if elsewhere else ''}:", name, text)


def _report_file(head: str, name: str, text: str) -> Outcome:
    """Show a file's text below a line, or attach it if it doesn't fit into a message."""
    whole = f"{head}\n```md\n{text or ' '}\n```"
    fits = length(whole) <= REPLY_CHARACTERS and "```" not in text
    return report(whole) if fits else report(head, File(name, text))


async def edit_file(context: ActionContext, request: ActionRequest, values: OfFile) -> Outcome:
    """Show a form with the file's text, or the file itself if it is too long for a form."""
    name, shown = values.file, context.name_of(values.agent)
    try:
        text, elsewhere = await _visible_text(context, request, values)
    except NotFound:
        text, elsewhere = "", False
    except PersonaError as error:
        raise ActionRefused("file_not_editable", file=name, agent=shown, why=error) from error
    if elsewhere:
        raise ActionRefused("file_has_hidden_notes", file=name, agent=shown)
    form_id = f"{EDIT_FILE}:{values.agent}:{name}:{digest_of(text)}"
    try:
        form = text_form(form_id, f"{shown}: {name}", text)
    except ValueError as error:
        raise ActionRefused("file_too_long", File(name, text), file=name, why=error) from error
    return report(reply=form)


async def save_file(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    """Save a submitted form, unless it has problems or the file has changed since."""
    agent, name, digest = (*str(request.values.get("id", "")).split(":", 3)[1:], "", "", "")[:3]
    if agent not in context.services.agents.names or name not in PERSONA_FILES:
        raise ActionRefused("no_such_file")
    folder = context.services.settings.persona_folder(agent)
    return await _save(context, folder, agent, name, read_text(request.values), digest)


async def save_text(context: ActionContext, _: ActionRequest, values: NewText) -> Outcome:
    """Save a file's whole text, under the same conditions as a form."""
    folder = own_folder(context.services.settings.persona_folder(values.agent), values.file)
    saved = await _save(context, folder, values.agent, values.file, values.text, values.digest)
    await context.services.agents.roster.refresh()  # the page shows its name and its model next
    return replace(saved, code="text_saved")


async def _save(context: ActionContext, folder: Path, agent: str, name: str, text: str, digest: str) -> Outcome:
    """Save the text of a file, unless it has problems or the file has changed since it had this digest."""
    text = text.rstrip() + "\n" if text.strip() else ""
    if problems := problems_of(name, text):
        lines = "\n".join(f"- {problem}" for problem in problems[:MAX_PROBLEMS])
        raise ActionRefused("file_has_problems", File(name, text), problems=lines)

    def replace_unchanged(old: str | None) -> str:
        if old != text and digest_of(old or "") != digest:
            raise PersonaError("someone changed the file in the meantime. Open it again")
        return text

    try:
        await asyncio.to_thread(change, folder, name, replace_unchanged)
    except PersonaError as error:
        raise ActionRefused("not_saved", File(name, text), why=error) from error
    log.info("%s: %s edited", agent, name)
    return done("file_saved", detail=f"{agent} {name}", file=name, agent=context.name_of(agent))


def own_folder(folder: Path, name: str) -> Path:
    """Return the folder that has the file itself: in local mode, `folder` has links to the files of PERSONAS_DIR."""
    file = folder / name
    target = file.readlink() if file.is_symlink() else file
    return target.parent if target.is_absolute() and target.name == name else folder


async def _visible_text(
    context: ActionContext, request: ActionRequest, values: OfFile, back: int = 0
) -> tuple[str, bool]:
    """Return the part of a file that may be shown in the channel, and whether anything was left out. Raises
    PersonaError."""
    folder = context.services.settings.persona_folder(values.agent)
    if back:
        versions = await asyncio.to_thread(versions_of, folder, values.file)
        if back > len(versions):
            raise NotFound(f"its history has only {counted(len(versions), 'change')}")
        text = versions[-back].text
    else:
        found, error = await asyncio.to_thread(FileCache().read, folder / values.file)
        if error is not None:
            raise error
        text = found or ""
    if values.file != MEMORY:
        return text, False
    may_see = context.place.may_see(request.channel_id)
    return (visible_memory(text, may_see), True) if is_hidden_from(text, may_see) else (text, False)


# -- personas ---------------------------------------------------------------------------------------------------------


async def list_agents(context: ActionContext, _: ActionRequest, __: Values) -> Outcome:
    entries = tuple(context.services.agents.roster)
    lines = ["Bots and personas:", *map(_line, entries[:MAX_LISTED])]
    if len(entries) > MAX_LISTED:
        lines.append(f"and {len(entries) - MAX_LISTED} more")
    return report("\n".join(lines))


async def show(context: ActionContext, _: ActionRequest, values: AnyAgent) -> Outcome:
    entry = context.agent(values.name)
    folder = context.services.settings.persona_folder(entry.key)
    soul = (await asyncio.to_thread(FileCache().read, folder / SOUL))[0] or ""
    front = entry.front
    facts = {"Interests": ", ".join(front.interests), "Talkativeness": front.talkativeness, "Avatar": front.avatar}
    known = [f"{name}: {value}" for name, value in facts.items() if value not in (None, "")]
    return _report_file("\n".join([_line(entry), *known]), SOUL, soul)


async def create(context: ActionContext, _: ActionRequest, values: NewPersona) -> Outcome:
    if context.services.agents.personas is None:
        raise ActionRefused("no_persona_files")
    lines = [] if values.temperature is None else [f"temperature: {values.temperature:g}"]
    lines += [f"thinking: {values.thinking}"] if values.thinking else []
    lines += [] if values.length is None else [f"max_output_tokens: {values.length}"]
    return _form("", {"model": values.model, "further": "\n".join(lines)})


async def edit(context: ActionContext, _: ActionRequest, values: OfPersona) -> Outcome:
    entry = _persona(context, values.name)
    soul, identity = await asyncio.to_thread(_texts, context, entry.key)
    card, problems = parse_identity(identity)
    further = further_lines(identity or "", without=IN_THE_FORM)
    if problems or len(soul) > FIELD_CHARACTERS or len(further) > MAX_FURTHER:
        why = problems[0] if problems else "its files are too long"
        raise ActionRefused("persona_not_editable", agent=entry.shown, why=why)
    model = card.model or ""
    if card.provider and model and not model.startswith(f"{card.provider}/"):
        model = f"{card.provider}/{model}"
    interests = ", ".join(card.interests or ())
    filled = {"name": entry.shown, "who": soul, "model": model, "interests": interests, "further": further}
    return _form(f"{entry.key}:{digest_of(soul, identity or '')}", filled)


async def save(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    values = {name: str(value) for name, value in request.values.items()}
    key, digest = (*values.get("id", "").split(":", 2)[1:], "", "")[:2]
    try:
        saved = await (_change(context, key, digest, values) if key else _create(context, values))
    except (PersonaError, NoModel, ValueError) as error:
        return give_back(refused("not_saved", why=error), values, "persona.txt")
    await context.services.agents.roster.refresh()
    entry = context.services.agents.roster.of(saved)
    if entry is None:
        return done("persona_saved_unlisted", detail=saved)
    if entry.why_not is not None:
        return done("persona_saved_unable", detail=entry.shown, agent=entry.shown, why=entry.why_not)
    identity = (await asyncio.to_thread(_texts, context, saved))[1]
    level = parse_identity(identity)[0].thinking
    if entry.settings is not None and entry.model in [each.name for each in entry.settings.without_level(level)]:
        return done("persona_saved_no_level", detail=entry.shown, agent=entry.shown, model=entry.model, level=level)
    return done("persona_saved", detail=entry.shown, agent=entry.shown, model=entry.model)


async def delete(context: ActionContext, _: ActionRequest, values: OfPersona) -> Outcome:
    entry = _persona(context, values.name)
    rooms = await context.services.state.coordination.rooms.list("active", limit=None)
    if room := next((room for room in rooms if entry.key in room.names), None):
        raise ActionRefused("persona_in_room", agent=entry.shown, channel=room.thread_id)
    try:
        kept = await asyncio.to_thread(delete_folder, context.services.settings.personas_dir, entry.key)
    except PersonaError as error:
        raise ActionRefused("persona_not_deleted", agent=entry.shown, why=error) from error
    await context.services.agents.roster.refresh()
    log.info("%s: persona deleted from Discord; its files are in %s/%s", entry.key, DELETED, kept)
    return done("persona_deleted", detail=entry.shown, agent=entry.shown, folder=f"{DELETED}/{kept}")


async def _create(context: ActionContext, values: Mapping[str, str]) -> str:
    """Return the key of the new persona. Raises PersonaError, NoModel, and ValueError."""
    name = " ".join(values.get("name", "").split())
    key = key_of(name)
    _check_name(context, name, key)
    soul, identity = _files(context, key, name, values, f"You are {name}.\n")
    folder = context.services.settings.personas_dir
    await asyncio.to_thread(create_folder, folder, key, {SOUL: soul, IDENTITY: identity})
    log.info("%s: persona created from Discord", key)
    return key


async def _change(context: ActionContext, key: str, digest: str, values: Mapping[str, str]) -> str:
    entry = context.services.agents.roster.of(key)
    if entry is None or entry.is_bot:
        raise NotFound("this persona no longer exists")
    name = " ".join(values.get("name", "").split())
    _check_name(context, name, key, entry)
    soul_before, identity_before = await asyncio.to_thread(_texts, context, key)
    if digest_of(soul_before, identity_before or "") != digest:
        raise PersonaError("someone changed the files in the meantime. Open the form again")
    soul, identity = _files(context, key, name, values, identity_before or "")
    folder = context.services.settings.personas_dir / key

    def write() -> None:
        change(folder, SOUL, lambda _: soul)
        change(folder, IDENTITY, lambda _: identity)

    await asyncio.to_thread(write)
    log.info("%s: persona edited from Discord", key)
    return key


def _files(context: ActionContext, key: str, name: str, values: Mapping[str, str], identity: str) -> tuple[str, str]:
    """Return soul.md and identity.md. Raises NoModel, and ValueError for values that make no sense."""
    fields = {"display_name": name, "model": values.get("model", ""), "interests": values.get("interests", "")}
    text = with_front_matter(identity, fields, values.get("further", ""))
    card, problems = parse_identity(text)
    if problems:
        raise ValueError("; ".join(problem.partition(": ")[2] for problem in problems))
    context.services.settings.persona_models.settings_of(key, front_of(card))
    soul = values.get("who", "").strip()
    if not soul:
        raise ValueError("“Who it is” is empty")
    return f"{soul}\n", text


def _check_name(context: ActionContext, name: str, key: str, own: RosterEntry | None = None) -> None:
    """Raise ValueError for a name that is too similar to another one."""
    if not name:
        raise ValueError("the name is empty")
    if not KEY.fullmatch(key):
        raise ValueError("the name has no letter or digit")
    if skeleton(name) in RESERVED:
        raise ValueError("the program uses that name itself. Choose another one")
    wanted = {skeleton(name)} if own is not None else {skeleton(name), skeleton(key)}
    for other in context.services.agents.roster:
        if other is not own and wanted & {skeleton(other.key), skeleton(other.shown)}:
            raise ValueError(f"the name is too similar to {other.shown}. Choose another one")


def _texts(context: ActionContext, key: str) -> tuple[str, str | None]:
    folder, cache = context.services.settings.personas_dir / key, FileCache()
    return cache.read(folder / SOUL)[0] or "", cache.read(folder / IDENTITY)[0]


def _persona(context: ActionContext, written: str) -> RosterEntry:
    entry = context.agent(written)
    if entry.is_bot:
        raise ActionRefused("not_a_persona", agent=entry.shown)
    return entry


def key_of(name: str) -> str:
    """Return the folder of a persona: "Ada the Ünlikely" → "ada-the-unlikely". A name without Latin letters gets a
    number that follows from it; a name without any letter or digit gets ""."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    key = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MAX_NAME].strip("-")
    if key or not re.search(r"\w", name):
        return key
    return f"persona-{hashlib.sha256(name.casefold().encode()).hexdigest()[:8]}"


def _form(rest: str, values: Mapping[str, str]) -> Outcome:
    def field(name: str, label: str, hint: str = "", **more: Any) -> FormField:
        return FormField(id=name, label=label, hint=hint, text=values.get(name, ""), **more)

    who_hint = "a historian who doubts every date and loves footnotes …"
    model_hint = "provider/model (leave empty for the least expensive one)"
    form = Form(
        id=f"{PERSONA}:{rest}",
        title=f"Persona: {values['name']}" if values.get("name") else "New persona",
        fields=(
            field("name", "Name", required=True, most=MAX_NAME),
            field("who", "Who it is", who_hint, long=True, required=True),
            field("model", "Model", model_hint, most=MAX_MODEL),
            field("interests", "Interests", "subjects, separated by commas", most=MAX_INTERESTS),
            field("further", "Further settings", FURTHER_HINT, long=True, most=MAX_FURTHER),
        ),
    )
    return report(reply=form)


def _line(entry: RosterEntry) -> str:
    kind, model = "bot" if entry.is_bot else "persona", entry.model or "no model"
    return f"- **{entry.shown}** ({kind} `{entry.key}`): {model}{f'; {entry.why_not}' if entry.why_not else ''}"


def digest_of(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
