"""Checks what does not depend on a bot (Redis, folders, ports, the clock), and warns of odd settings.

Such settings are valid but name something that does not exist. Each warning is one line, logged at the start and shown
by --check. None stops a start; the network is not used.
"""

from __future__ import annotations

import difflib
import errno
import socket
import tempfile
from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path

from agent_config import Settings
from agentic.check.discord import options_in
from agentic.context.options import MAX_MESSAGES
from agentic.findings import Finding, Findings
from agentic.llm.pricing import is_local
from agentic.process.root import ROOT
from agentic.tools.own_tools import FILE_TOOLS, MEMORY, RECALL
from agentic.tools.toolset import NAMES
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, RedisStartError, StateUnavailable
from agentic.wire.server import MIN_VERSION, RedisPlace, locate_redis

TOOLS = (*NAMES, MEMORY, RECALL, *FILE_TOOLS)
CONFIG_FILES = ("shared.yaml", "endpoints.yaml", "mcp.yaml")
_WILDCARDS = frozenset("*?[")


def setting_warnings_here(settings: Settings, folder: Path | None = None) -> list[Finding]:
    """All warnings for a start in `folder` (default: the working folder). Call it before the start creates files."""
    found = Findings()
    _warn_of_folders(settings, folder or Path.cwd(), found)
    _warn_of_files(settings.config_files_dir, settings.agents, found)
    if settings.context_window_size > MAX_MESSAGES:
        text = f"{settings.context_window_size} counts as {MAX_MESSAGES}, since no more messages are kept"
        found.warn("CONTEXT_WINDOW_SIZE", text, f"set {MAX_MESSAGES} or less")
    _warn_of_tools(settings, found)
    _warn_of_models(settings, found)
    _warn_of_memory(settings, found)
    return list(dict.fromkeys(found))


def _warn_of_folders(settings: Settings, folder: Path, found: Findings) -> None:
    named = settings.model_fields_set
    if "personas_dir" in named and not settings.personas_dir.is_dir():
        text = f"{settings.personas_dir} does not exist, so every bot starts with new files"
        found.warn("PERSONAS_DIR", text, "correct it if your bots' files are elsewhere")
    if "config_files_dir" in named and not settings.config_files_dir.is_dir():
        text = f"{settings.config_files_dir} does not exist, so no options, endpoints or MCP servers are read"
        found.warn("CONFIG_FILES_DIR", text, "correct it, or create the folder")
    used = (".env", str(settings.personas_dir), str(settings.config_files_dir))
    if "personas_dir" not in named and folder != ROOT and not any((folder / name).exists() for name in used):
        text = f"{folder} has no .env, personas/ or config/, so the bots start with new files there"
        found.warn("working folder", text, f"start it in {ROOT}, or set PERSONAS_DIR")


def _warn_of_files(folder: Path, agents: Collection[str], found: Findings) -> None:
    """Warn of files that nothing reads. Wrong names among those of guilds and bots are reported with their contents."""
    for path in sorted((*folder.glob("*.y*ml"), *folder.glob("*/*.y*ml"))):
        name = path.relative_to(folder).as_posix()
        of_options = name.startswith(("guilds/", "bots/")) and path.suffix == ".yaml"
        if of_options or name in CONFIG_FILES or name.endswith(".example.yaml"):
            continue
        meant = path.with_suffix(".yaml").relative_to(folder).as_posix()
        known = (*CONFIG_FILES, *(f"bots/{agent}.yaml" for agent in agents))
        close = difflib.get_close_matches(meant, known, n=1, cutoff=0.8)
        if path.stem in agents:
            close = [f"bots/{path.stem}.yaml"]
        advice = f"did you mean {close[0]}?" if close else "config/README.md lists the names"
        found.warn(str(path), "is not used", advice)


def _warn_of_tools(settings: Settings, found: Findings) -> None:
    """Names of no tool. Names with two underscores or a wildcard may belong to an MCP server."""
    lists = {"ALLOWED_TOOLS": settings.allowed_tools if "allowed_tools" in settings.model_fields_set else ()}
    lists |= {agent.spec.tools_setting: agent.allowed_tools or () for agent in settings.agents.values()}
    for key, patterns in lists.items():
        for name in (pattern.removeprefix("!") for pattern in patterns):
            if name in (*TOOLS, "none") or "__" in name or not _WILDCARDS.isdisjoint(name):
                continue
            if name[:1].isupper():
                if settings.agent_runtime is None:
                    text = f"{name} is a tool of coding agents, and no coding agent is set"
                    found.warn(key, text, "set AGENT_RUNTIME, or remove the tool")
                continue
            close = difflib.get_close_matches(name.lower(), TOOLS, n=1)
            known = f"use {', '.join(TOOLS)}, or server__tool of an MCP server"
            found.warn(key, f"there is no tool {name}", f"did you mean {close[0]}?" if close else known)


def _warn_of_models(settings: Settings, found: Findings) -> None:
    """A server of the owner's needs no key, but the providers' SDKs want one."""
    for agent in settings.agents.values():
        model = agent.models[0]
        if not agent.usable and model.lacks == model.key_setting and is_local(model.base_url):
            text = f"it names your own server, but {model.key_setting} is not set, so {agent.display_name} has no model"
            advice = f"set {model.key_setting}, to any word if that server needs no key"
            found.warn(model.base_url_setting, text, advice)


def _warn_of_memory(settings: Settings, found: Findings) -> None:
    """Options that need the record, although nothing is recorded."""
    if settings.records:
        return
    speaking = {agent.name: agent.display_name for agent in settings.agents.values() if agent.token is not None}
    for key, shown in {**{name: name.title() for name in settings.account_agents}, **speaking}.items():
        options = options_in(key, settings)
        for name in ("message_log", "recall"):
            if any(getattr(options(server), name) for server in (None, *settings.guild_ids)):
                text = f"{shown} has the option {name}, and nothing is recorded, so it does nothing"
                found.warn("RECORD_DAYS", text, "set RECORD_DAYS to more than 0, or the option to false")


def taken_ports(settings: Settings) -> Findings:
    """Warn of ports that are in use already, so that a start could not serve them."""
    found = Findings()
    ports = {
        "HEALTH_PORT": ("127.0.0.1", settings.health_port),
        "EVENTS_PORT": (settings.events_host, settings.events_port),
        "CONSOLE_PORT": (settings.console_host, settings.console_port if settings.console else 0),
    }
    for key, (host, port) in ports.items():
        try:
            if port:
                socket.create_server((host, port)).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                text = f"{port} on {host} is in use, by these bots if they are running, otherwise by another program"
                found.warn(key, text, "choose another port if the bots are not running")
    return found


# Write, publish and run a script: what the program does with Redis.
_TRY = """
redis.call('set', KEYS[1], 'ok', 'EX', 10)
redis.call('publish', KEYS[1], 'ok')
return redis.call('del', KEYS[1])
"""


async def check_redis(settings: Settings, found: Findings, *, use_default_redis: bool) -> None:
    """Open Redis as a start would: start and stop an embedded server, or join a running one."""
    try:
        async with (
            locate_redis(
                settings.redis_url,
                settings.data_dir,
                runtime_dir=settings.runtime_dir,
                use_default_port=use_default_redis,
            ) as place,
            RedisConnection(place.address) as link,
        ):
            await _check_server(place, link, found, "" if settings.redis_url else " (REDIS_URL is not set)")
    except RedisStartError as error:
        found.wrong("Redis", "none can be used", str(error))
    except StateUnavailable as away:
        advice = "start that server, or correct REDIS_URL" if settings.redis_url else "read its log"
        found.wrong("Redis", f"cannot be used: {away}", advice)


async def _check_server(place: RedisPlace, link: RedisConnection, found: Findings, origin: str) -> None:
    info = await link.call(lambda redis: redis.info())
    if info.get("redis_mode") == "cluster":
        found.wrong("Redis", f"{place.description} is a cluster", "its scripts need a server without cluster mode")
        return
    await link.script(_TRY, [keys.COORDINATOR_CHECK])
    policy, limit = str(info.get("maxmemory_policy", "noeviction")), int(info.get("maxmemory", 0))
    if policy != "noeviction":  # counts, budgets and leases may be among the keys that a full server deletes
        when = f"at {limit // 1024**2} MB" if limit else "once it has a maxmemory"
        found.warn("Redis", f"it deletes keys {when} (maxmemory-policy {policy})", "set maxmemory-policy noeviction")
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < MIN_VERSION:
        oldest = ".".join(map(str, MIN_VERSION))
        found.wrong("Redis", f"{place.description} is version {version}", f"{oldest} or newer is needed")
    else:
        found.ok("Redis", f"{place.description}, version {version}{origin}")


def check_data_folder(settings: Settings, found: Findings) -> None:
    """Check that the data folder can be written; create it if missing, as a start would."""
    folder = settings.data_dir
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            found.ok("data folder", f"{folder} can be written")
    except OSError as error:
        problem = f"{folder}: {error.strerror or error}"
        found.wrong("data folder", problem, "correct its permissions, or set DATA_DIR")


def check_persona(folder: Path, found: Findings) -> None:
    """Check an agent's persona folder, which its bot reads for every event and writes its memory to."""
    if not folder.is_dir():
        found.note("persona", f"{folder} is missing; the start creates it", "correct PERSONAS_DIR if it is elsewhere")
        return
    try:
        with tempfile.TemporaryFile(dir=folder):
            found.ok("persona", f"{folder} can be written")
    except OSError as error:
        advice = "make the user that runs the bots its owner: their memories are kept there"
        found.warn("persona", f"{folder}: {error.strerror or error}", advice)


def check_record(settings: Settings, found: Findings) -> None:
    """Show what is kept of turns and for how long, and where its owner looks at it."""
    limits = [days for days in (settings.record_days, settings.record_prompts_days) if days is not None]
    prompts = f"prompts {_period(min(limits, default=None))}" if settings.records_prompts else "no prompts"
    kept = f"turns, costs and posts {_period(settings.record_days)}, {prompts}, in {settings.record_file}"
    found.ok("record", kept if settings.records else "nothing is recorded (RECORD_DAYS=0)")
    who = "asks for CONSOLE_TOKEN" if settings.console_token else "open to everybody on this machine"
    off = "off; CONSOLE=true shows in a browser what the bots do"
    found.ok("console", off if settings.console_link is None else f"{settings.console_link}, {who}")


def _period(days: float | None) -> str:
    return "forever" if days is None else f"for {days:g} days"


def check_clock(settings: Settings, found: Findings, clock: Callable[[], float]) -> None:
    """Show the time, by which the owner recognizes a wrong time zone."""
    now = datetime.fromtimestamp(clock(), settings.timezone)
    hours = f"; conversations from {settings.active_start} to {settings.active_end} h" if settings.on_discord else ""
    found.ok("time zone", f"{settings.timezone.key or 'of this machine'}, now {now:%H:%M}{hours}")
