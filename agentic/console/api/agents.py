"""Shows the agents: whether they are online, why an agent is silent, today's turns, models, persona files, and memory.

Also serves the data that every page needs first (names, colors, channels, the token for actions), and the state of the
history's file.

The program keeps a persona file's last ten versions (agentic.personas.store). If an owner edits the file, the edit
becomes part of the next version, so the page shows it as a part of that change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from aiohttp import web

from agent_config import NO_LIMIT
from agentic.actions.personas import digest_of, own_folder
from agentic.console.json_values import Json, add_names, channel_json, diff_json, person_name, pick, today, turn_json
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused
from agentic.console.security import CSRF_TOKEN
from agentic.personas.files import PERSONA_FILES, PersonaError, PersonaFiles, read_persona
from agentic.personas.memory import UNKNOWN, blocks_of
from agentic.personas.store import Version, versions_of
from agentic.record.queries.statistics import FAILURES, file_state, model_speeds, outcomes_by_agent, reactions_received
from agentic.record.queries.turns import Turn, TurnFilter, newest_failures, turns_page
from agentic.record.recorder import FINE, STANDING_BY
from agentic.state.limits import free_day
from agentic.themes import THEMES

ERROR_DAYS = 7
MAX_ERRORS = 5  # per agent
REACTION_DAYS = 30
MAX_REACTIONS = 12  # kinds, per agent
MAX_CHANNELS = 30  # whose cooldowns are read
MAX_TURN_SECONDS = 600.0  # between a turn's write to memory and its end
DAY = 86400.0


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """An entry of memory.md.

    `section` is the heading above it. `channels` are the channels where it was learned (empty: the owner wrote it, or
    it is for all). `people` caused it; `others` says that more, or unknown, people did. `readable` is false if the
    entry's mark is malformed, so that bots don't see it. `added_at` is in unix seconds, or None if it is older than the
    saved versions.
    """

    text: str
    section: str
    channels: tuple[int, ...]
    people: tuple[int, ...]
    others: bool
    readable: bool
    added_at: float | None


def routes(parts: ConsoleContext) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/me")
    async def show_first_data(request: web.Request) -> web.Response:
        known = parts.live.names()
        channels = [
            {"id": str(channel), "name": known.get(channel, str(channel)), "theme": theme}
            for channel, theme in parts.settings.channels.items()
        ]
        return web.json_response(
            {
                "names": dict(parts.names),
                "bots": list(parts.settings.agents),
                "colours": {agent: f"#{color:06x}" for agent, color in parts.colors.items()},
                "channels": channels,
                "themes": list(THEMES),
                "paused": parts.silence.is_paused,
                "local": parts.is_local,
                "recorded": parts.store.path is not None,
                "prompts": parts.settings.records_prompts,
                "signs_in": parts.settings.console_token is not None,
                "timezone": str(parts.settings.timezone),
                "csrf": request[CSRF_TOKEN],
            }
        )

    @table.get("/api/agents")
    async def list_agents(_: web.Request) -> web.Response:
        return web.json_response({"items": await _read_cards(parts, tuple(parts.names))})

    @table.get("/api/agents/{name}")
    async def show_agent(request: web.Request) -> web.Response:
        name = query_agent(parts, request)
        (card,) = await _read_cards(parts, (name,))
        return web.json_response({**card, **await _persona(parts, name)})

    @table.get("/api/agents/{name}/files/{file}")
    async def show_file(request: web.Request) -> web.Response:
        folder, name = parts.settings.persona_folder(query_agent(parts, request)), request.match_info["file"]
        if name not in PERSONA_FILES:
            raise Refused(404, f"A persona has only the files {', '.join(PERSONA_FILES)}.")

        def read() -> Json:
            text = read_persona(folder).text(name)
            changes = changes_of(_versions(own_folder(folder, name), name), text or "")
            return {"name": name, "text": text, "digest": digest_of(text or ""), "changes": changes}

        return web.json_response(await asyncio.to_thread(read))

    @table.get("/api/record")
    async def show_record(_: web.Request) -> web.Response:
        """Show the history's state, and what is in it."""
        state = None
        with suppress(Refused):
            state = asdict(await file_state(await parts.store.open()))
        return web.json_response({**await read_recorder(parts), "state": state})

    return table


async def read_recorder(parts: ConsoleContext) -> Json:
    """Read how the history is written. `recorder`: whether a process writes it now, None if unknown. `problem`: why
    this process's recorder can't, in one line. `elsewhere`: another process writes to its own file."""
    here, recorder = parts.recorder(), await parts.state.coordination.presence.records()
    return {
        "days": parts.settings.record_days,
        "prompts_days": parts.settings.record_prompts_days,
        "recorder": recorder,
        "problem": None if here in FINE else here,
        "elsewhere": bool(recorder) and here == STANDING_BY,
    }


def query_agent(parts: ConsoleContext, request: web.Request) -> str:
    name = request.match_info["name"]
    if name not in parts.names:
        raise Refused(404, "This bot doesn't exist.")
    return name


# -- what an agent is doing --------------------------------------------------------------------------------------------


async def read_states(parts: ConsoleContext, names: Sequence[str]) -> list[Json]:
    """Read what the agents are doing now. Raises StateUnavailable."""
    state, date, most = parts.state, today(parts), parts.settings.agent_max_daily
    days = (date, free_day(date))  # turns with free models don't count toward the daily limit
    online, backoffs, turns, uses = await asyncio.gather(
        state.coordination.presence.online(names),
        state.coordination.backoffs.read(names),
        asyncio.gather(*(asyncio.gather(*(state.limits.count(name, day) for day in days)) for name in names)),
        state.limits.budgets.uses(date, [f"agent:{name}" for name in names]),
    )
    muted, roster = parts.silence.muted_agents(), parts.actions.context.services.agents.roster
    personas = {entry.key: entry for entry in roster if not entry.is_bot}
    return [
        {
            "agent": name,
            "name": parts.names[name],
            "online": name in online,
            "persona": name in personas,  # it has no bot, and speaks in rooms
            "why_not": personas[name].why_not if name in personas else None,
            **asdict(parts.bot(name)),
            "muted_until": muted.get(name),
            "backoff_until": backoffs.get(name),
            "turns_today": turns[n][0],
            "turns_free": turns[n][1],
            "turns_most": most if most < NO_LIMIT else None,
            **pick(uses[f"agent:{name}"], "spent cap"),
            "models": [asdict(price) for price in parts.prices(name)],
        }
        for n, name in enumerate(names)
    ]


async def _read_cards(parts: ConsoleContext, names: Sequence[str]) -> list[Json]:
    now, cards, recorded = parts.clock(), await read_states(parts, names), await _read_record(parts, names)
    channels = list(parts.settings.channels)[:MAX_CHANNELS]
    for card in cards:
        waits = await asyncio.gather(*(parts.state.limits.cooldown_left(card["agent"], id_) for id_ in channels))
        card["cooldowns"] = [
            {"channel": channel_json(parts, id_), "until": now + seconds}
            for id_, seconds in zip(channels, waits, strict=True)
            if seconds > 0
        ]
        card |= recorded[card["agent"]]
    return cards


async def _read_record(parts: ConsoleContext, names: Sequence[str]) -> dict[str, Json]:
    """Read a part of each agent's card from the history. It is empty if there is none."""
    found: dict[str, Json] = {
        name: {"outcomes": {}, "failures": 0, "speeds": [], "reactions": [], "errors": []} for name in names
    }
    with suppress(Refused):
        db, day, now = await parts.store.open(), today(parts), parts.clock()
        for agent, outcomes in (await outcomes_by_agent(db, day, day)).items():
            if agent in found:
                failures = sum(outcomes.get(outcome, 0) for outcome in FAILURES)
                found[agent] |= {"outcomes": outcomes, "failures": failures}
        for speed in await model_speeds(db, day, day):
            if speed.agent in found:
                found[speed.agent]["speeds"].append(asdict(speed))
        for agent, emoji, count in await reactions_received(db, now - REACTION_DAYS * DAY):
            if agent in found and len(found[agent]["reactions"]) < MAX_REACTIONS:
                found[agent]["reactions"].append({"emoji": emoji, "count": count})
        for name in names:
            newest = await newest_failures(db, now - ERROR_DAYS * DAY, MAX_ERRORS, name)
            found[name]["errors"] = [turn_json(parts, turn) for turn in newest]
    return found


# -- who it is ---------------------------------------------------------------------------------------------------------


async def _persona(parts: ConsoleContext, agent: str) -> Json:
    """Return an agent's files, and each memory entry with its origin."""
    folder = parts.settings.persona_folder(agent)

    def read() -> tuple[PersonaFiles, list[MemoryEntry]]:
        files = read_persona(folder)
        return files, memory_entries(_versions(folder, "memory.md"), files.memory or "")

    files, memory = await asyncio.to_thread(read)
    turns = await _turns_of(parts, agent, memory)
    entries: list[Json] = [
        {
            **pick(entry, "text section others readable added_at"),
            "channels": [channel_json(parts, channel) for channel in entry.channels],
            "people": [{"person": str(person), "name": person_name(parts, person)} for person in entry.people],
            "turn": turns.get(entry),
        }
        for entry in memory
    ]
    channels = [{"channel": channel} for entry in entries for channel in entry["channels"]]
    await add_names(parts, [*channels, *(person for entry in entries for person in entry["people"])])
    return {
        "files": [{"name": name, "size": None if text is None else len(text)} for name, text in files],
        # A missing memory is fine: an agent's first note creates it.
        "problems": [problem for problem in files.problems if problem != "memory.md: missing"],
        "memory": entries,
    }


def changes_of(versions: Sequence[Version], current: str) -> list[Json]:
    """Return the saved changes, newest first: `at` in unix seconds, the text `before`, the fields of `diff_json`."""
    texts = [*(version.text for version in versions), current]
    pairs = zip(versions, pairwise(texts), strict=True)
    return [{"at": version.replaced_at, "before": old, **diff_json(old, new)} for version, (old, new) in pairs][::-1]


def memory_entries(versions: Sequence[Version], current: str) -> list[MemoryEntry]:
    former = [(version.replaced_at, {block.words for block in blocks_of(version.text)}) for version in versions]
    found: list[MemoryEntry] = []
    section = ""
    for block in blocks_of(current):
        if block.level:
            section = block.said.lstrip("# ").strip() if block.level > 1 else ""
        elif block.words:
            entry = MemoryEntry(
                text=block.said.strip(),
                section=section,
                channels=block.channels or (),
                people=tuple(sorted(block.people - {UNKNOWN})),
                others=UNKNOWN in block.people or (block.marked and not block.people),
                readable=block.channels is not None,
                # when the newest version that lacks these words was replaced
                added_at=next((at for at, known in reversed(former) if block.words not in known), None),
            )
            found.append(entry)
    return found


def _versions(folder: Path, name: str) -> list[Version]:
    try:
        return versions_of(folder, name)
    except PersonaError:  # an unreadable history must not hide the file itself
        return []


async def _turns_of(parts: ConsoleContext, agent: str, memory: Sequence[MemoryEntry]) -> dict[MemoryEntry, Json]:
    """Find the recorded turn that wrote each entry: the agent's turn in that channel at that second."""
    found: dict[MemoryEntry, Json] = {}
    turns_at: dict[float, tuple[Turn, ...]] = {}
    with suppress(Refused):
        db = await parts.store.open()
        for entry in memory:
            written = entry.added_at
            if written is None or not entry.channels:
                continue
            if written not in turns_at:
                wanted = TurnFilter(agent=agent, since=written - 1, until=written + MAX_TURN_SECONDS)
                turns_at[written] = (await turns_page(db, wanted, count=200)).items
            for turn in turns_at[written]:  # the newest first: the last that fits wins
                if turn.at - turn.seconds - 1 <= written and turn.channel_id in entry.channels:
                    found[entry] = {"agent": agent, "id": turn.id}
    return found
