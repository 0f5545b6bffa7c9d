"""What does not depend on a bot: Redis, the data folder, the clock."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from agent_check.findings import Findings
from agent_check.setting_warnings import setting_warnings_here, taken_ports
from agent_config import Settings
from agent_protocol.connection.link import RedisAway, RedisLink
from agent_protocol.connection.locate import RedisPlace, locate_redis
from agent_protocol.connection.server_binary import OLDEST
from agent_protocol.wire import keys

# Writing, publishing and scripts at once: what the program does there.
_TRY = """
redis.call('set', KEYS[1], 'ok', 'EX', 10)
redis.call('publish', KEYS[1], 'ok')
return redis.call('del', KEYS[1])
"""


async def check_redis(settings: Settings, found: Findings, *, use_default_redis: bool) -> None:
    """Opens Redis as a start would: a private server is started and stopped, or joined where one runs."""
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
            await _check_server(place, link, found, _whence(settings))
    except RedisAway as away:
        advice = "start that server, or mend REDIS_URL" if settings.redis_url else "look into its log"
        found.wrong("Redis", f"cannot be used: {away}", advice)


def _whence(settings: Settings) -> str:
    return "" if settings.redis_url else " (REDIS_URL is not set)"


async def _check_server(place: RedisPlace, link: RedisLink, found: Findings, whence: str) -> None:
    await link.script(_TRY, [keys.COORDINATOR_CHECK])
    if not isinstance(place.address, str):
        found.warn("Redis", place.description, "install redis-server or valkey, or set REDIS_URL")
        return
    told = await link.call(lambda redis: redis.info("server"))
    version = str(told.get("redis_version", "0"))
    if _numbers(version) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        found.wrong("Redis", f"{place.description} is version {version}", f"{oldest} or newer is needed")
    else:
        found.ok("Redis", f"{place.description}, version {version}{whence}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def check_data_folder(settings: Settings, found: Findings) -> None:
    """Made where it is missing, as a start would."""
    folder = settings.data_dir
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            found.ok("data folder", f"{folder} can be written")
    except OSError as error:
        found.wrong("data folder", f"{folder}: {error.strerror or type(error).__name__}", "mend it, or set DATA_DIR")


def check_persona(folder: Path, found: Findings) -> None:
    """An agent's folder, which its bot reads for every event and writes its memory into."""
    if not folder.is_dir():
        found.note("persona", f"{folder} is not there and is made at the start", "mend PERSONAS_DIR if it is elsewhere")
        return
    try:
        with tempfile.TemporaryFile(dir=folder):
            found.ok("persona", f"{folder} can be written")
    except OSError as error:
        advice = "give it to the user who runs the bots: they keep their memories there"
        found.warn("persona", f"{folder}: {error.strerror or type(error).__name__}", advice)


def check_surroundings(settings: Settings, found: Findings) -> None:
    """What a start would say, and the ports that it would not get."""
    for oddity in (*setting_warnings_here(settings), *taken_ports(settings)):
        found.warn(oddity.subject, oddity.text, oddity.advice)


def check_clock(settings: Settings, found: Findings, clock: Callable[[], float]) -> None:
    """Only shown: whether the zone is the owner's, the owner sees by the time."""
    now = datetime.fromtimestamp(clock(), settings.timezone)
    hours = f"conversations from {settings.active_start} to {settings.active_end} h"
    found.ok("time zone", f"{settings.timezone.key or 'of this machine'}, now {now:%H:%M}; {hours}")
