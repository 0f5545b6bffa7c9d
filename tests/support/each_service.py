"""The same chat on each service: Anna and Ben in one place with Claude, in the whole program.

On Discord the place is a channel and `@Claude` a mention; on Signal it is a group, and in the chat of lines a room, and
the name after an @ is typed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_config import AGENTS, Settings, load_settings
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import running
from agentic.runtime.services import provider_model
from agentic.services.signal.envelopes import group_chat_id
from agentic.settings import services
from tests.support.flow import QUICK, Flow, by_provider, flow
from tests.support.lines.server import LineServer
from tests.support.lines.service import number_of
from tests.support.models.model_server import ModelServer
from tests.support.process_config import process_config
from tests.support.redis_server import until
from tests.support.signal_flow import GROUP, SignalFlow, signal_flow
from tests.support.signal_server import ACCOUNT, ANNA, BEN, EVE, group_id, quoting, reacting

PEOPLE = {"Anna": ANNA, "Ben": BEN, "Eve": EVE}
ON_DISCORD = {"Anna": "Alice", "Ben": "Bob"}
PLACE = "casual"


@dataclass(frozen=True, slots=True)
class Said:
    """A message: its text, the number of its pictures, and how its service names it."""

    ref: int
    text: str
    pictures: int = 0


class Service(ABC):
    """What a test does and sees in the place."""

    name: str
    models: ModelServer
    settings: Any

    @abstractmethod
    def running(self, **more: object) -> AbstractAsyncContextManager[Runtime]: ...
    @abstractmethod
    async def say(
        self, text: str, who: str = "Anna", *, reply_to: Said | None = None, picture: bytes | None = None
    ) -> Said: ...
    @abstractmethod
    def posts(self) -> Sequence[Said]: ...
    @abstractmethod
    def signs(self) -> Sequence[str]: ...
    @abstractmethod
    async def react(self, post: Said, emoji: str, who: str = "Anna") -> None: ...
    @abstractmethod
    async def edit(self, message: Said, text: str) -> None: ...
    @abstractmethod
    async def delete(self, message: Said) -> None: ...
    @abstractmethod
    async def command(self, name: str, about: Said | None = None) -> str: ...
    @abstractmethod
    async def stranger(self, text: str) -> None: ...
    @abstractmethod
    def channel_id(self) -> int: ...

    async def ask(self, text: str, who: str = "Anna", **more: Any) -> Said:
        """A person mentions the agent."""
        return await self.say(f"@Claude {text}", who, **more)

    async def answered(self, count: int = 1) -> list[str]:
        """The texts of the agent's posts, once there are so many."""
        await until(lambda: len(self.posts()) >= count, 30)
        return [post.text for post in self.posts()]

    async def signed(self, *emoji: str) -> None:
        await until(lambda: set(emoji) <= set(self.signs()), 30)

    async def wait(self, condition: Callable[[], object]) -> None:
        await until(condition, 30)


class OnDiscord(Service):
    name = "discord"

    def __init__(self, f: Flow) -> None:
        self.f, self.models, self.settings = f, f.models, f.settings

    def running(self, **more: object) -> AbstractAsyncContextManager[Runtime]:
        return self.f.running(agents=("claude",), **more)

    async def say(
        self, text: str, who: str = "Anna", *, reply_to: Said | None = None, picture: bytes | None = None
    ) -> Said:
        text = text.replace("@Claude", f"<@{self.f.user_id('claude')}>")
        files = [("cat.png", picture, "image/png")] if picture is not None else []
        answered = {"reply_to": reply_to.ref} if reply_to is not None else {}
        said = await self.f.discord.say(ON_DISCORD[who], PLACE, text, attachments=files, **answered)
        return Said(int(said["id"]), text)

    def posts(self) -> Sequence[Said]:
        own = self.f.user_id("claude")
        messages = [m for m in self.f.discord.messages(PLACE) if int(m["author"]["id"]) == own]
        return [Said(int(m["id"]), m["content"], len(m.get("attachments", ()))) for m in messages]

    def signs(self) -> Sequence[str]:
        return [
            given["emoji"]["name"]
            for message in self.f.discord.messages(PLACE)
            for given in message.get("reactions", ())
            for _ in range(given["count"])
        ]

    async def react(self, post: Said, emoji: str, who: str = "Anna") -> None:
        await self.f.discord.react(ON_DISCORD[who], PLACE, post.ref, emoji)

    async def edit(self, message: Said, text: str) -> None:
        await self.f.discord.edit(PLACE, message.ref, text.replace("@Claude", f"<@{self.f.user_id('claude')}>"))

    async def delete(self, message: Said) -> None:
        await self.f.discord.delete(PLACE, message.ref)

    async def command(self, name: str, about: Said | None = None) -> str:
        options = {"message": str(about.ref)} if about is not None else {}
        app = self.f.world.apps["claude"]
        await until(lambda: app.commands.get(self.f.world.guild.id), 30)
        used = await self.f.discord.interact(ON_DISCORD["Anna"], PLACE, "claude", name, options)
        await until(lambda: used.answers, 30)
        return str(used.answers[0]["content"])

    def channel_id(self) -> int:
        return self.f.channel(PLACE)

    async def stranger(self, text: str) -> None:
        await self.f.discord.say_as_foreign_bot("Eve", PLACE, text.replace("@Claude", f"<@{self.f.user_id('claude')}>"))


class OnSignal(Service):
    name = "signal"

    def __init__(self, f: SignalFlow) -> None:
        self.f, self.models, self.settings = f, f.models, f.settings
        self._place = group_id(GROUP)

    def running(self, **more: object) -> AbstractAsyncContextManager[Runtime]:
        return self.f.running(**more)

    async def say(
        self, text: str, who: str = "Anna", *, reply_to: Said | None = None, picture: bytes | None = None
    ) -> Said:
        more: dict[str, Any] = {"group": GROUP}
        if reply_to is not None:
            more["quote"] = quoting(ACCOUNT, reply_to.ref, reply_to.text)
        if picture is not None:
            self.f.signal.files["cat.png"] = picture
            more["attachments"] = [{"id": "cat.png", "contentType": "image/png", "size": len(picture)}]
        return Said(await self.f.say(text, PEOPLE[who], **more), text)

    def posts(self) -> Sequence[Said]:
        return [
            Said(sent.timestamp, sent.text, len(sent.pictures))
            for sent in self.f.signal.sent
            if sent.recipient == self._place
        ]

    def signs(self) -> Sequence[str]:
        return [each["reaction"] for each in self.f.signal.reactions if each["method"] == "POST"]

    async def react(self, post: Said, emoji: str, who: str = "Anna") -> None:
        await self.f.say(None, PEOPLE[who], group=GROUP, reaction=reacting(emoji, ACCOUNT, post.ref))

    async def edit(self, message: Said, text: str) -> None:
        await self.f.signal.edit(message.ref, text, ANNA, group=GROUP)

    async def delete(self, message: Said) -> None:
        await self.f.say(None, ANNA, group=GROUP, remoteDelete={"timestamp": message.ref})

    async def command(self, name: str, about: Said | None = None) -> str:
        known = len(self.posts())
        await self.say(f"@Claude /{name}", reply_to=about)
        await until(lambda: len(self.posts()) > known, 30)
        return self.posts()[known].text

    def channel_id(self) -> int:
        return group_chat_id(GROUP)

    async def stranger(self, text: str) -> None:
        await self.f.say(text, EVE, group=GROUP)


class OnLines(Service):
    """The third service, which only tests have. A sign of the agent's is a line of its own there."""

    name = "lines"

    def __init__(self, server: LineServer, models: ModelServer, settings: Settings) -> None:
        self.server, self.models, self.settings = server, models, settings

    @asynccontextmanager
    async def running(self, **more: object) -> AsyncIterator[Runtime]:
        setup = process_config(
            settings=self.settings,
            agents=(),
            accounts=self.settings.account_agents,
            use_default_redis=False,
            make_model=partial(provider_model, free_at_home=False),
            **more,
        )
        async with running(setup) as runtime:
            await until(lambda: (host := runtime.host_of("claude")) is not None and host.acts)
            yield runtime

    async def say(
        self, text: str, who: str = "Anna", *, reply_to: Said | None = None, picture: bytes | None = None
    ) -> Said:
        assert picture is None, "there are no pictures"
        return Said(self.server.say(PLACE, who, text, reply_to.ref if reply_to is not None else None), text)

    def _own(self) -> list[Said]:
        lines = [line for line in self.server.said.values() if line["author"] == "Claude"]
        return [Said(line["at"], line["text"]) for line in lines]

    def posts(self) -> Sequence[Said]:
        return [said for said in self._own() if any(char.isalnum() for char in said.text)]

    def signs(self) -> Sequence[str]:
        return [said.text for said in self._own() if not any(char.isalnum() for char in said.text)]

    async def react(self, post: Said, emoji: str, who: str = "Anna") -> None:
        raise AssertionError("there are no reactions")

    async def edit(self, message: Said, text: str) -> None:
        self.server.edit(message.ref, text)

    async def delete(self, message: Said) -> None:
        self.server.delete(message.ref)

    async def command(self, name: str, about: Said | None = None) -> str:
        known = len(self.posts())
        await self.say(f"@Claude /{name}", reply_to=about)
        await until(lambda: len(self.posts()) > known, 30)
        return self.posts()[known].text

    async def stranger(self, text: str) -> None:
        raise AssertionError("there are no strangers")

    def channel_id(self) -> int:
        return number_of("room", PLACE)


@asynccontextmanager
async def on_lines(folder: Path, *, redis_url: str | None = None, **settings: str) -> AsyncIterator[OnLines]:
    """Claude is in a room of lines: one package and one row in the registry."""
    service, own = "tests.support.lines.service:LineService", "tests.support.lines.settings:LineSettings"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "SERVICES", (*services.SERVICES, services.ServiceRow("lines", service, own)))
        async with ModelServer(by_provider) as models, LineServer(PLACE).running() as server:
            environ = {
                "LINE_ACCOUNTS": "claude:Claude",
                "LINE_PORT": str(server.port),
                **{spec.key_setting: "a-key" for spec in AGENTS.values()},
                **{spec.base_url_setting: models.base_url(spec.provider) for spec in AGENTS.values()},
                "DATA_DIR": str(folder),
                "PERSONAS_DIR": str(folder / "personas"),
                **({"REDIS_URL": redis_url} if redis_url else {}),
                **QUICK,
                **settings,
            }
            yield OnLines(server, models, load_settings(environ, None))


@asynccontextmanager
async def on(service: str, folder: Path, *, redis_url: str | None = None, **settings: str) -> AsyncIterator[Service]:
    """The place on one of the services."""
    if service == "discord":
        async with flow(folder, redis_url=redis_url, COMMANDS_BOT="claude", **settings) as f:
            yield OnDiscord(f)
    elif service == "lines":
        async with on_lines(folder, redis_url=redis_url, **settings) as lines:
            yield lines
    else:
        async with signal_flow(folder, redis_url=redis_url, **settings) as s:
            yield OnSignal(s)
