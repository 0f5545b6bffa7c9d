"""A run of the set-up with typed answers, against the Discord stand-in and the model server."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from agent_config import AGENTS, Settings, load_settings
from agentic.local.discord import channels as worlds
from agentic.local.discord.channels import small_world
from agentic.local.discord.server import routed_to
from agentic.local.discord.world import World
from agentic.setup.wizard import run_setup
from tests.support.check_doubles import EMOJIS, KEYS, TOKENS, KeyedModelServer
from tests.support.discord.stand_in import DiscordStandIn

Typed = tuple[str, str | Callable[[], str]]
"""Words of a question, and what is typed then, or what happens then and is typed."""


class Typist:
    """Answers each question in turn; the end of the list is the end of the input."""

    def __init__(self, typed: Sequence[Typed], printed: Callable[[], str] = str) -> None:
        self._typed, self._printed = list(typed), printed
        self.questions: list[str] = []
        self.hidden_questions: list[str] = []

    def line(self, prompt: str) -> str:
        self.questions.append(prompt)
        if "also answer on Signal" in prompt and not (self._typed and self._typed[0][0] in prompt):
            return ""  # an optional question, of which most tests are not
        if not self._typed:
            raise EOFError
        words, answer = self._typed.pop(0)
        assert words in prompt, f"{words!r} expected, but asked is {prompt!r} after\n{self._printed()}"
        return answer if isinstance(answer, str) else answer()

    def hidden(self, prompt: str) -> str:
        self.hidden_questions.append(prompt)
        return self.line(prompt)

    @property
    def left(self) -> list[Typed]:
        return self._typed


@dataclass
class Scene:
    """`folder` is empty at first. `run` types the answers, and keeps what was printed."""

    folder: Path
    world: World
    discord: DiscordStandIn
    environ: dict[str, str]
    printed: str = ""
    typist: Typist = field(init=False)
    checks: int = 0

    async def run(self, *typed: Typed) -> int:
        """In a thread: the stand-ins answer from this loop. All answers must be used."""
        console = Console(file=io.StringIO(), width=200)

        def printed() -> str:
            assert isinstance(console.file, io.StringIO)
            return console.file.getvalue()

        def check() -> int:
            self.checks += 1
            return 0

        self.typist = Typist(typed, printed)
        code = await asyncio.to_thread(
            run_setup, check, environ=self.environ, folder=self.folder, reader=self.typist, console=console
        )
        self.printed = printed()
        assert self.typist.left == [], self.printed
        return code

    @property
    def env(self) -> Path:
        return self.folder / ".env"

    def settings(self) -> Settings:
        """As a start reads them."""
        return load_settings(self.environ, self.env)

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def invite(self, *bots: str) -> None:
        for bot in bots:
            worlds.invite(self.world, self.world.guild, self.world.app(bot))

    def map_of(self, **themes: str) -> str:
        return ",".join(f"{self.world.channel(name).id}:{theme}" for name, theme in themes.items())


def only(*bots: str) -> list[Typed]:
    """Set up these bots, which need nothing but a token and a key, and no other."""
    typed: list[Typed] = []
    for name, spec in AGENTS.items():
        typed.append((f"Set up {spec.display_name}?", "" if name in bots else "n"))
        if name in bots:
            typed += [(f"{spec.display_name}'s token", TOKENS[name]), (spec.key_setting, KEYS[name])]
    return typed


CHANNELS: list[Typed] = [("Which channels", "1-2"), ("Theme of #debate [debate]", ""), ("Theme of #memes", "roast")]
HABITS: list[Typed] = [("Your time zone", "berlin"), ("Daily budget for all bots", "")]
YES: list[Typed] = [("Write it?", "")]


@asynccontextmanager
async def setup_scene(folder: Path) -> AsyncIterator[Scene]:
    """A server with #debate and #memes and all bots of the table."""
    world = small_world({name: (AGENTS[name].display_name, TOKENS[name]) for name in AGENTS}, ("debate", "memes"))
    for role in world.guild.roles.values():
        role.permissions |= EMOJIS
    async with DiscordStandIn(world) as server, KeyedModelServer() as models:
        with routed_to(server):
            addresses = {spec.base_url_setting: models.base_url(spec.provider) for spec in AGENTS.values()}
            yield Scene(folder, world, server, addresses)
