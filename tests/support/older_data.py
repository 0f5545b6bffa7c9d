"""Data that an earlier version of the program wrote, as if it had been killed a moment ago (tests/fixtures/README.md).

The program of a test gets a clock that continues from the kill. Redis has no such clock, so all expirations are moved.
"""

from __future__ import annotations

import json
import re
import struct
import tarfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentic.local.discord.world import Channel, Message, User, Webhook, World
from tests.support.flow import Flow, flow
from tests.support.moved_clock import MovedClock

ARCHIVE = Path(__file__).parents[1] / "fixtures" / "data_of_2026-11-24.tar.xz"
DOWN = 6.0  # seconds from the kill to the start: the leases of the killed process have expired


@dataclass(frozen=True)
class OlderData:
    """The data, and a clock that continues from the kill. `world` is what Discord knew."""

    folder: Path
    clock: MovedClock
    world: dict[str, Any]

    @property
    def ids(self) -> dict[str, int]:
        """Ids by kind and name, such as `channel:debate`."""
        return dict(self.world["ids"])

    @property
    def thread(self) -> int:
        """The thread of the room."""
        return int(self.world["thread"]["id"])

    @asynccontextmanager
    async def flow(self, **settings: str) -> AsyncIterator[Flow]:
        """The stand-ins for Discord and the models, and the settings of then, changed by `settings`."""
        names = [name.removeprefix("channel:") for name in self.ids if name.startswith("channel:")]
        channels = {name: name for name in names if name != self.world["thread"]["name"]}
        settings = {**self.world["settings"], **settings}
        async with flow(self.folder, channels=channels, clock=self.clock, ids=self.ids, **settings) as f:
            await f.discord.add_person("Carol")
            self._restore(f.world)
            yield f

    def _restore(self, world: World) -> None:
        thread = Channel(**self.world["thread"])
        world.guild.channels[thread.id] = thread
        for each in self.world["webhooks"]:
            del each["avatar"]  # the stand-in shows none any more
            world.webhooks[each["id"]] = Webhook(**each)
        for fields in self.world["messages"]:
            reactions = {(emoji, name): people for emoji, name, people in fields.get("reactions", ())}
            message = Message(**{**fields, "author": User(**fields["author"]), "reactions": reactions})
            channel = world.guild.channels[message.channel_id]
            channel.messages[message.id], channel.last_message_id = message, message.id


def unpack(folder: Path) -> OlderData:
    """Unpack the data into the folder."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    world = json.loads((folder / "world.json").read_text())
    clock = MovedClock()
    clock.ahead = world["killed"] + DOWN - time.time()
    files = folder / "data" / "redis" / "appendonly.aof"
    files.write_bytes(_moved(files.read_bytes(), -round(clock.ahead * 1000)))
    return OlderData(folder / "data", clock, world)


def _moved(file: bytes, milliseconds: int) -> bytes:
    """An append-only file with a base in RDB form, all its expirations moved. A checksum of 0 is not checked."""
    found = re.search(rb"\xff.{8}(?=\*\d+\r\n\$\d+\r\n[A-Z]+\r\n)", file, re.DOTALL)
    assert found is not None, "the file has no base in RDB form"
    base, commands = file[: found.start()], file[found.end() :]

    def move_binary(match: re.Match[bytes]) -> bytes:
        return b"\xfc" + struct.pack("<q", struct.unpack("<q", match[1])[0] + milliseconds)

    def move_text(match: re.Match[bytes]) -> bytes:
        return match[1] + str(int(match[2]) + milliseconds).encode()

    base = re.sub(rb"\xfc(.{4}[\x9f-\xaf]\x01\x00\x00)", move_binary, base, flags=re.DOTALL)
    at = rb"(PXAT\r\n\$13\r\n|PEXPIREAT\r\n\$\d+\r\n[^\r]+\r\n\$13\r\n)(\d{13})"
    return base + b"\xff" + bytes(8) + re.sub(at, move_text, commands)
