"""Agents, files, memory, first data.

Answers what every page needs first: names, colours, channels, and the token that goes with each action.

A persona's files as the console shows them: each change line by line, each entry of memory with its origin. Pure.

The program keeps a file's last ten versions (agentic.personas.store). What an owner changes in an editor is part of the
next version, so it shows as a part of that change.

The agents: whether they are online and why one is silent, today's turns, models, persona files and memory.

GET /api/agents
GET /api/agents/{name}
GET /api/agents/{name}/files/{file}   a persona file with its changes
GET /api/record                       the state of the record's file
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import aiosqlite
from aiohttp import web

from agent_config import NO_LIMIT
from agentic.console.json_values import Json, channel_json, person_name, today, turn_json
from agentic.console.parts import ConsoleParts
from agentic.console.requests import Refused
from agentic.console.security import csrf_token
from agentic.personas.files import PERSONA_FILES, PersonaError, read_persona
from agentic.personas.memory import UNKNOWN, MemoryBlock, blocks_of
from agentic.personas.store import Version, versions_of
from agentic.record.queries.statistics import FAILURES, file_state, model_speeds, reactions_received, turns_by_agent
from agentic.record.queries.turns import Turn, TurnFilter, turns_page
from agentic.record.recorder import FINE, STANDING_BY
from agentic.state.limits import free_day
from agentic.themes import THEMES
from agentic.wire.connection import RedisAway


def me_routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    async def me(request: web.Request) -> web.Response:
        known = parts.live.names()
        channels = [
            {"id": str(channel), "name": known.get(channel, str(channel)), "theme": theme}
            for channel, theme in parts.settings.channels.items()
        ]
        return web.json_response(
            {
                "names": dict(parts.names),
                "colours": {agent: f"#{colour:06x}" for agent, colour in parts.colours.items()},
                "channels": channels,
                "themes": list(THEMES),
                "paused": parts.stops.paused,
                "local": parts.is_local,
                "recorded": parts.store.path is not None,
                "prompts": parts.settings.records_prompts,
                "signs_in": parts.settings.console_token is not None,
                "timezone": str(parts.settings.timezone),
                "csrf": csrf_token(request),
            }
        )

    return [web.get("/api/me", me)]


CONTEXT_LINES = 3
MOST_LINES = 2_000  # of a version that is compared: comparing takes the square of it


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a comparison. `sign`: "+" new, "-" removed, " " unchanged, "@" lines between that are left out."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a file, at unix seconds. `lines` is None where the versions are too long to be compared."""

    at: float
    added: int
    removed: int
    lines: tuple[Line, ...] | None


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """An entry of memory.md.

    `section` is the heading above it, `channels` are those where it was learned (empty: the owner wrote it, or it is
    for all). `people` caused it; `others` says that more people did, or unknown ones. `readable` is false for an entry
    whose mark is malformed, which no reader sees. `added_at` is unix seconds, None if it is older than the kept
    versions.
    """

    text: str
    section: str
    channels: tuple[int, ...]
    people: tuple[int, ...]
    others: bool
    readable: bool
    added_at: float | None


def changes_of(versions: Sequence[Version], current: str) -> list[Change]:
    """Return the kept changes, newest first."""
    texts = [*(version.text for version in versions), current]
    pairs = zip(versions, pairwise(texts), strict=True)
    return [_change(version.replaced_at, old, new) for version, (old, new) in pairs][::-1]


def memory_entries(versions: Sequence[Version], current: str) -> list[MemoryEntry]:
    """Return the entries of a memory in their order."""
    former = [(version.replaced_at, {block.words for block in blocks_of(version.text)}) for version in versions]
    found: list[MemoryEntry] = []
    section = ""
    for block in blocks_of(current):
        if block.level:
            section = block.said.lstrip("# ").strip() if block.level > 1 else ""
        elif block.words:
            found.append(_entry(block, section, _added_at(block.words, former)))
    return found


def _entry(block: MemoryBlock, section: str, added_at: float | None) -> MemoryEntry:
    return MemoryEntry(
        text=block.said.strip(),
        section=section,
        channels=block.channels or (),
        people=tuple(sorted(block.people - {UNKNOWN})),
        others=UNKNOWN in block.people or (block.marked and not block.people),
        readable=block.channels is not None,
        added_at=added_at,
    )


def _added_at(words: str, former: Sequence[tuple[float, set[str]]]) -> float | None:
    """When the newest version that lacks these words was replaced."""
    return next((replaced_at for replaced_at, known in reversed(former) if words not in known), None)


def _change(at: float, old: str, new: str) -> Change:
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MOST_LINES:
        return Change(at, max(0, len(after) - len(before)), max(0, len(before) - len(after)), None)
    compared = difflib.unified_diff(before, after, lineterm="", n=CONTEXT_LINES)
    lines = tuple(Line(line[0], "" if line[0] == "@" else line[1:]) for line in list(compared)[2:])
    signs = [line.sign for line in lines]
    return Change(at, signs.count("+"), signs.count("-"), lines)


ERROR_DAYS = 7
ERRORS = 5  # of an agent
REACTION_DAYS = 30
REACTIONS = 12  # kinds, of an agent
MOST_CHANNELS = 30  # whose cooldowns are read
LONGEST_TURN = 600.0  # seconds, between a turn's write to memory and its end
DAY = 86400.0
NO_MEMORY = "memory.md: missing"  # no problem: an agent's first note creates it


def agent_routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    async def agents(_: web.Request) -> web.Response:
        return web.json_response({"items": await _cards(parts, tuple(parts.names))})

    async def agent(request: web.Request) -> web.Response:
        name = _known(parts, request)
        (card,) = await _cards(parts, (name,))
        return web.json_response({**card, **await _persona(parts, name)})

    async def file(request: web.Request) -> web.Response:
        name, wanted = _known(parts, request), request.match_info["file"]
        if wanted not in PERSONA_FILES:
            raise Refused(404, f"a persona has the files {', '.join(PERSONA_FILES)}")
        return web.json_response(await asyncio.to_thread(_file, _folder(parts, name), wanted))

    async def record(_: web.Request) -> web.Response:
        return web.json_response(await _record(parts))

    return [
        web.get("/api/agents", agents),
        web.get("/api/agents/{name}", agent),
        web.get("/api/agents/{name}/files/{file}", file),
        web.get("/api/record", record),
    ]


def _known(parts: ConsoleParts, request: web.Request) -> str:
    name = request.match_info["name"]
    if name not in parts.names:
        raise Refused(404, "there is no such agent")
    return name


def _folder(parts: ConsoleParts, agent: str) -> Path:
    return parts.settings.persona_folder(agent)


# -- what an agent is doing --------------------------------------------------------------------------------------------


async def _cards(parts: ConsoleParts, names: Sequence[str]) -> list[Json]:
    ledger, now, date, most = parts.ledger, parts.clock(), today(parts), parts.settings.agent_max_daily
    online, muted, backoffs, turns, uses, cooldowns = await asyncio.gather(
        ledger.presence.online(names),
        ledger.mutes.read(names),
        ledger.backoffs.read(names),
        asyncio.gather(*(_turns(parts, name, date) for name in names)),
        ledger.budgets.uses(date, [f"agent:{name}" for name in names]),
        asyncio.gather(*(_cooldowns(parts, name) for name in names)),
    )
    recorded = await _recorded(parts, names)
    return [
        {
            "agent": name,
            "name": parts.names[name],
            "online": name in online,
            **asdict(parts.bot(name)),
            "muted_until": muted.get(name),
            "backoff_until": backoffs.get(name),
            "turns_today": turns[n][0],
            "turns_free": turns[n][1],
            "turns_most": most if most < NO_LIMIT else None,
            "spent": uses[f"agent:{name}"].spent,
            "cap": uses[f"agent:{name}"].cap,
            "cooldowns": [{"channel": channel_json(parts, id_), "until": now + left} for id_, left in cooldowns[n]],
            "models": [asdict(price) for price in parts.prices(name)],
            **recorded[name],
        }
        for n, name in enumerate(names)
    ]


async def _turns(parts: ConsoleParts, agent: str, date: str) -> tuple[int, int]:
    """Turns of the day that count towards its limit, and those of models that cost nothing, which do not."""
    limits = parts.ledger.limits
    return await limits.count(agent, date), await limits.count(agent, free_day(date))


async def _cooldowns(parts: ConsoleParts, agent: str) -> list[tuple[int, float]]:
    """The channels in which the agent has just spoken, and the seconds that are left there."""
    channels = list(parts.settings.channels)[:MOST_CHANNELS]
    left = await asyncio.gather(*(parts.ledger.limits.cooldown_left(agent, channel) for channel in channels))
    return [(channel, seconds) for channel, seconds in zip(channels, left, strict=True) if seconds > 0]


async def _recorded(parts: ConsoleParts, names: Sequence[str]) -> dict[str, Json]:
    """Read from the record: agent → a part of its card, empty where there is no record."""
    found: dict[str, Json] = {
        name: {"outcomes": {}, "failures": 0, "speeds": [], "reactions": [], "errors": []} for name in names
    }
    with suppress(Refused):
        db, day, now = await parts.store.open(), today(parts), parts.clock()
        for each in await turns_by_agent(db, day, day):
            if each.agent in found:
                found[each.agent] |= {"outcomes": each.outcomes, "failures": each.failures}
        for speed in await model_speeds(db, day, day):
            if speed.agent in found:
                found[speed.agent]["speeds"].append(asdict(speed))
        for liked in await reactions_received(db, now - REACTION_DAYS * DAY):
            if liked.agent in found and len(found[liked.agent]["reactions"]) < REACTIONS:
                found[liked.agent]["reactions"].append({"emoji": liked.emoji, "count": liked.count})
        for name in names:
            found[name]["errors"] = [turn_json(parts, turn) for turn in await _errors(db, name, now)]
    return found


async def _errors(db: aiosqlite.Connection, agent: str, now: float) -> list[Turn]:
    """Its newest turns that failed."""
    wanted = (TurnFilter(agent=agent, outcome=outcome, since=now - ERROR_DAYS * DAY) for outcome in FAILURES)
    pages = [await turns_page(db, each, count=ERRORS) for each in wanted]
    return sorted((turn for page in pages for turn in page.items), key=lambda turn: -turn.at)[:ERRORS]


# -- who it is ---------------------------------------------------------------------------------------------------------


async def _persona(parts: ConsoleParts, agent: str) -> Json:
    """Its files, and its memory entry by entry with where it comes from."""
    folder = _folder(parts, agent)
    files, memory = await asyncio.to_thread(_read, folder)
    turns = await _turns_of(parts, agent, memory)
    return {
        **files,
        "memory": [
            {
                "text": entry.text,
                "section": entry.section,
                "channels": [channel_json(parts, channel) for channel in entry.channels],
                "people": [{"id": str(person), "name": person_name(parts, person)} for person in entry.people],
                "others": entry.others,
                "readable": entry.readable,
                "added_at": entry.added_at,
                "turn": turns.get(entry),
            }
            for entry in memory
        ],
    }


def _read(folder: Path) -> tuple[Json, list[MemoryEntry]]:
    files = read_persona(folder)
    shown = [{"name": name, "size": None if text is None else len(text)} for name, text in files]
    memory = memory_entries(_versions(folder, "memory.md"), files.memory or "")
    problems = [problem for problem in files.problems if problem != NO_MEMORY]
    return {"files": shown, "problems": problems}, memory


def _file(folder: Path, name: str) -> Json:
    text = read_persona(folder).text(name)
    changes = changes_of(_versions(folder, name), text or "")
    return {"name": name, "text": text, "changes": [asdict(change) for change in changes]}


def _versions(folder: Path, name: str) -> list[Version]:
    try:
        return versions_of(folder, name)
    except PersonaError:  # a history that cannot be read hides nothing of the file itself
        return []


async def _turns_of(parts: ConsoleParts, agent: str, memory: Sequence[MemoryEntry]) -> dict[MemoryEntry, Json]:
    """Entry → the recorded turn that wrote it: the agent's own in that channel, at that second."""
    found: dict[MemoryEntry, Json] = {}
    at_once: dict[float, tuple[Turn, ...]] = {}
    with suppress(Refused):
        db = await parts.store.open()
        for entry in memory:
            written = entry.added_at
            if written is None or not entry.channels:
                continue
            if written not in at_once:
                wanted = TurnFilter(agent=agent, since=written - 1, until=written + LONGEST_TURN)
                at_once[written] = (await turns_page(db, wanted, count=200)).items
            fitting = [turn for turn in at_once[written] if _wrote(turn, entry, written)]
            if fitting:
                found[entry] = {"agent": agent, "id": fitting[-1].id}
    return found


def _wrote(turn: Turn, entry: MemoryEntry, at: float) -> bool:
    return turn.at - turn.seconds - 1 <= at and turn.channel_id in entry.channels


# -- the record --------------------------------------------------------------------------------------------------------


async def _record(parts: ConsoleParts) -> Json:
    """`recorder`: whether a process writes it now, None where that cannot be known. `problem`: why the one of this
    process cannot, in a line. `elsewhere`: another process does, to the file that it has."""
    kept = {"days": parts.settings.record_days, "prompts_days": parts.settings.record_prompts_days}
    state, recorder = None, None
    with suppress(RedisAway):
        recorder = await parts.ledger.presence.records()
    with suppress(Refused):
        state = asdict(await file_state(await parts.store.open()))
    here = parts.recorder()
    problem, elsewhere = None if here in FINE else here, bool(recorder) and here == STANDING_BY
    return {**kept, "recorder": recorder, "problem": problem, "elsewhere": elsewhere, "state": state}
