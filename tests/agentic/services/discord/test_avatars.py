"""Pictures of personas from files: uploaded once, and renewed before their addresses expire."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentic.chat.outlet import CannotPost
from agentic.services.discord.avatars import AvatarKeeper
from agentic.services.discord.messages import expires_at
from agentic.services.discord.service import avatar_of
from agentic.state.leases import ALWAYS_HELD
from agentic.state.posts import UploadedAvatars
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import PATIENT, empty_redis

OWNERS = 20


class Bot:
    """The owner's channel in Discord, as one bot sees it. Addresses expire after a day."""

    def __init__(self) -> None:
        self.now, self.files, self.fault = 1_000_000.0, dict[int, bytes](), False

    def _url(self, message_id: int) -> str:
        return f"https://cdn.example/{message_id}/avatar.png?ex={int(self.now) + 86400:x}&is=1"

    def may_write(self, channel_id: int) -> bool:
        return channel_id == OWNERS

    async def upload(self, channel_id: int, text: str, name: str, data: bytes, key: str) -> tuple[int, str]:
        assert (channel_id, name) == (OWNERS, "avatar.png")
        if self.fault:
            raise CannotPost("not_permitted")
        message_id = 500 + len(self.files)
        self.files[message_id] = data
        return message_id, self._url(message_id)

    async def attachment_url(self, channel_id: int, message_id: int) -> str | None:
        return self._url(message_id) if message_id in self.files else None


class Scene:
    def __init__(self, link: RedisConnection, folder: Path) -> None:
        self.bot, self.folder = Bot(), folder
        (folder / "avatar.png").write_bytes(b"a picture")
        self.front: Any = SimpleNamespace(avatar="avatar.png")
        self.settings: Any = SimpleNamespace(name="ada", display_name="Ada", front=self.front)
        self.stored = UploadedAvatars(link)

    async def look(self) -> str | None:
        """What a process that has just started shows as the persona's picture."""
        discord: Any = SimpleNamespace(avatars={})
        entry = SimpleNamespace(key="ada", settings=self.settings, front=self.front)
        services: Any = SimpleNamespace(
            state=SimpleNamespace(posts=SimpleNamespace(avatars=self.stored)),
            chats=SimpleNamespace(get=lambda _: discord),
            agents=SimpleNamespace(roster=SimpleNamespace(personas=[entry])),
            settings=SimpleNamespace(owner_channel_id=OWNERS, persona_folder=lambda _: self.folder),
            clock=lambda: self.bot.now,
        )
        bots: Any = [self.bot]
        await AvatarKeeper(services, lambda: bots, lease=ALWAYS_HELD).refresh()
        return avatar_of(self.settings, discord.avatars)


@pytest.fixture
async def scene(tmp_path: Path):
    async with RedisConnection(empty_redis(), command_timeout=PATIENT) as link:
        yield Scene(link, tmp_path)


async def test_a_file_is_uploaded_once_and_its_address_renewed_before_it_expires(scene: Scene):
    first = await scene.look()
    assert first is not None
    assert first == await scene.look()
    scene.bot.now += 86400 - 3599
    second = await scene.look()
    assert second is not None
    assert second != first
    assert expires_at(second) == scene.bot.now + 86400
    assert list(scene.bot.files.values()) == [b"a picture"]


async def test_a_file_that_changed_or_whose_message_is_gone_is_uploaded_again(scene: Scene):
    await scene.look()
    (scene.folder / "avatar.png").write_bytes(b"another picture")
    assert "501" in str(await scene.look())
    scene.bot.now += 86400
    del scene.bot.files[501]
    scene.bot.files[0] = b""
    assert "502" in str(await scene.look())
    assert scene.bot.files[502] == b"another picture"


async def test_without_a_file_or_an_upload_the_persona_posts_without_a_picture_and_the_log_says_so_once(scene, caplog):
    scene.bot.fault = True
    assert await scene.look() is None
    scene.bot.fault = False
    (scene.folder / "avatar.png").unlink()
    assert await scene.look() is None
    assert "ada posts without its own picture: not_permitted" in caplog.text


async def test_an_address_is_shown_as_it_is(scene: Scene):
    scene.front.avatar = "https://example.org/ada.png"
    assert await scene.look() == "https://example.org/ada.png"
    assert scene.bot.files == {}
