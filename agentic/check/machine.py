"""Check what does not depend on a bot: Redis, folders, ports, the clock."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from agent_config import Settings
from agentic.check.findings import Findings
from agentic.check.setting_warnings import setting_warnings_here, taken_ports
from agentic.process.version import version_line
from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink
from agentic.wire.locate import RedisPlace, locate_redis
from agentic.wire.server_binary import OLDEST

# Write, publish and run a script: what the program does with Redis.
_TRY = """
redis.call('set', KEYS[1], 'ok', 'EX', 10)
redis.call('publish', KEYS[1], 'ok')
return redis.call('del', KEYS[1])
"""


async def check_redis(settings: Settings, found: Findings, *, use_default_redis: bool) -> None:
    """Open Redis as a start would: start and stop a private server, or join a running one."""
    try:
        async with (
            locate_redis(
                settings.redis_url,
                settings.data_dir,
                runtime_dir=settings.runtime_dir,
                use_default_port=use_default_redis,
            ) as place,
            RedisLink(place.address) as link,
        ):
            await _check_server(place, link, found, _origin(settings))
    except RedisAway as away:
        advice = "start that server, or correct REDIS_URL" if settings.redis_url else "read its log"
        found.wrong("Redis", f"cannot be used: {away}", advice)


def _origin(settings: Settings) -> str:
    return "" if settings.redis_url else " (REDIS_URL is not set)"


async def _check_server(place: RedisPlace, link: RedisLink, found: Findings, origin: str) -> None:
    if not isinstance(place.address, str):
        await link.script(_TRY, [keys.COORDINATOR_CHECK])
        found.warn("Redis", place.description, "install redis-server or valkey, or set REDIS_URL")
        return
    info = await link.call(lambda redis: redis.info())
    if info.get("redis_mode") == "cluster":
        found.wrong("Redis", f"{place.description} is a cluster", "its scripts need a server without cluster mode")
        return
    await link.script(_TRY, [keys.COORDINATOR_CHECK])
    _check_memory(info, found)
    version = str(info.get("redis_version", "0"))
    if _numbers(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        found.wrong("Redis", f"{place.description} is version {version}", f"{oldest} or newer is needed")
    else:
        found.ok("Redis", f"{place.description}, version {version}{origin}")


def _check_memory(info: Mapping[str, Any], found: Findings) -> None:
    """Warn of a server that deletes keys of its own choice once it is full: counts, budgets and leases among them."""
    policy, most = str(info.get("maxmemory_policy", "noeviction")), int(info.get("maxmemory", 0))
    if policy != "noeviction":
        when = f"at {most // 1024**2} MB" if most else "once it has a maxmemory"
        found.warn("Redis", f"it deletes keys {when} (maxmemory-policy {policy})", "set maxmemory-policy noeviction")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def check_data_folder(settings: Settings, found: Findings) -> None:
    """Check that the data folder can be written; create it if missing, as a start would."""
    folder = settings.data_dir
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            found.ok("data folder", f"{folder} can be written")
    except OSError as error:
        found.wrong(
            "data folder",
            f"{folder}: {error.strerror or error}",
            "correct its permissions, or set DATA_DIR",
        )


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


def check_version(found: Findings) -> None:
    """Show what runs here, for a report of a problem."""
    found.ok("version", version_line())


def check_settings(settings: Settings, found: Findings) -> None:
    """Report the warnings of a start, and ports that are in use."""
    for warning in (*setting_warnings_here(settings), *taken_ports(settings)):
        found.warn(warning.subject, warning.text, warning.advice)


def check_record(settings: Settings, found: Findings) -> None:
    """Show what is kept of turns and for how long, and where its owner looks at it."""
    limits = [days for days in (settings.record_days, settings.record_prompts_days) if days is not None]
    prompts = f"prompts {_for(min(limits, default=None))}" if settings.records_prompts else "no prompts"
    kept = f"turns, costs and posts {_for(settings.record_days)}, {prompts}, in {settings.record_file}"
    found.ok("record", kept if settings.records else "nothing is recorded (RECORD_DAYS=0)")
    who = "asks for CONSOLE_TOKEN" if settings.console_token else "open to everybody on this machine"
    off = "off; CONSOLE=true shows in a browser what the bots do"
    found.ok("console", off if settings.console_link is None else f"{settings.console_link}, {who}")


def _for(days: float | None) -> str:
    return "for ever" if days is None else f"for {days:g} days"


def check_clock(settings: Settings, found: Findings, clock: Callable[[], float]) -> None:
    """Show the time, by which the owner recognises a wrong time zone."""
    now = datetime.fromtimestamp(clock(), settings.timezone)
    hours = f"; conversations from {settings.active_start} to {settings.active_end} h" if settings.on_discord else ""
    found.ok("time zone", f"{settings.timezone.key or 'of this machine'}, now {now:%H:%M}{hours}")
