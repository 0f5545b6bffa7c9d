"""Checks what does not depend on a bot: Redis, folders, ports, the clock, the record."""

from __future__ import annotations

import errno
import socket
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from agent_config import Settings
from agentic.findings import Findings
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, RedisStartError, StateUnavailable
from agentic.wire.server import MIN_VERSION, RedisPlace, locate_redis


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
