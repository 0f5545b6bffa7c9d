"""Check what all bots share: Redis, folders, ports, the clock, and the record."""

from __future__ import annotations

import errno
import socket
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from agent_config import Settings
from agentic.findings import Findings
from agentic.net.http_server import explain_port
from agentic.personas.files import PERSONA_FILES, read_persona
from agentic.personas.identity import parse_identity
from agentic.process.root import write_probe
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, RedisStartError, StateUnavailable
from agentic.wire.server import MIN_VERSION, RedisPlace, locate_redis


def taken_ports(settings: Settings) -> Findings:
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
                text = f"{port} on {host} is in use; if your bots aren't running, another program uses it"
                found.warn(key, text, "if your bots aren't running, choose another port")
            else:
                reason, advice = explain_port(key, host, error)
                found.warn(key, f"{port} {reason}", advice)
    return found


# Does what the program does with Redis: writes, publishes, and runs a script.
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
        found.wrong("Redis", f"can't be started: {error.reason}", error.advice)
    except StateUnavailable as error:
        advice = "start that server, or correct REDIS_URL" if settings.redis_url else "read its log"
        found.wrong("Redis", f"is unavailable: {error}", advice)


async def _check_server(place: RedisPlace, link: RedisConnection, found: Findings, origin: str) -> None:
    info = await link.redis.info()
    if info.get("redis_mode") == "cluster":
        found.wrong("Redis", f"{place.description} is a cluster", "use a server without cluster mode")
        return
    await link.script(_TRY, [keys.COORDINATOR_CHECK])
    policy, limit = str(info.get("maxmemory_policy", "noeviction")), int(info.get("maxmemory", 0))
    if policy != "noeviction":
        when = f"at {limit // 1024**2} MB" if limit else "once maxmemory is set"
        text = f"deletes keys {when} (maxmemory-policy {policy}), perhaps budgets and running conversations"
        found.warn("Redis", text, "set maxmemory-policy to noeviction")
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < MIN_VERSION:
        oldest = ".".join(map(str, MIN_VERSION))
        found.wrong("Redis", f"{place.description} is version {version}, too old", f"update it to {oldest} or newer")
    else:
        found.ok("Redis", f"{place.description}, version {version}{origin}")


def check_data_folder(settings: Settings, found: Findings) -> None:
    """Check that the data folder can be written; create it if missing, as a start would."""
    folder = settings.data_dir
    try:
        write_probe(folder)
        found.ok("data folder", f"{folder} is writable")
    except OSError as error:
        problem = f"the bots can't write to {folder} ({error.strerror or error})"
        fix = "free some space" if error.errno == errno.ENOSPC else "fix its permissions"
        found.wrong("data folder", problem, f"{fix}, or set DATA_DIR to another folder")


def check_persona(folder: Path, found: Findings) -> None:
    """Check an agent's persona folder: the bot reads it for every event and writes its memory there."""
    if not folder.is_dir():
        text = f"{folder} doesn't exist yet; the bot creates it when it starts"
        found.note("persona", text, "if your personas are elsewhere, correct PERSONAS_DIR")
        return
    try:
        write_probe(folder)
        found.ok("persona", f"{folder} is writable")
    except OSError as error:
        text = f"the bot can't save its memory in {folder} ({error.strerror or error})"
        found.warn("persona", text, "make the user that runs the bots the owner of this folder")
    files = read_persona(folder, may_be_missing=PERSONA_FILES)
    for problem in (*files.problems, *parse_identity(files.identity)[1]):
        found.warn("persona", problem, f"correct that file in {folder}; until then the bot goes without that part")


def check_env_file(path: Path, found: Findings) -> None:
    """Warn if every user of the machine can read the tokens and keys in .env."""
    if path.is_file() and path.stat().st_mode & stat.S_IROTH:
        found.warn(str(path), "everyone on this machine can read your tokens and keys", f"run chmod o-rwx {path}")


def check_record(settings: Settings, found: Findings) -> None:
    """Show which data is recorded and for how long, and where the owner can look at it."""
    limits = [days for days in (settings.record_days, settings.record_prompts_days) if days is not None]
    prompts = f"prompts {_period(min(limits, default=None))}" if settings.records_prompts else "no prompts"
    kept = f"keeps turns, costs, and posts {_period(settings.record_days)}, {prompts}, in {settings.record_file}"
    found.ok("history", kept if settings.records else "off (RECORD_DAYS=0)")
    who = "you sign in with CONSOLE_TOKEN" if settings.console_token else "open to everyone on this machine"
    off = "off (set CONSOLE=true to watch the bots in your browser)"
    found.ok("console", off if settings.console_link is None else f"{settings.console_link}, {who}")


def _period(days: float | None) -> str:
    return "forever" if days is None else f"for {days:g} days"


def check_clock(settings: Settings, found: Findings, clock: Callable[[], float]) -> None:
    """Show the local time, so that the owner notices a wrong time zone."""
    now = datetime.fromtimestamp(clock(), settings.timezone)
    hours = f"; conversations start from {settings.active_start}:00 to {settings.active_end}:00"
    zone = settings.timezone.key or "this machine's"
    found.ok("time zone", f"{zone} (it's {now:%H:%M} there){hours if settings.on_discord else ''}")
