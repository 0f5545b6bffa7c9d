"""`python run_all.py --local`: the program as in production, on a Discord stand-in on loopback, in a terminal.

It chooses addresses, models and delays; everything else is what an owner runs. Tokens, channels and REDIS_URL of .env
are not used, and data is kept apart under data/local/, what agents note too (own_personas.py). An agent whose key is
set uses its real model, the others speak with a scripted voice.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar

from pydantic import SecretStr
from rich.console import Console

from agent_check.setting_warnings import setting_warnings_here
from agent_cogs.limits.model_access import is_free
from agent_config import AgentSettings, Settings
from agent_coordinator.coordinator import Coordinator
from agent_coordinator.events import ConversationReport
from agent_discord.slash.definitions import command_list
from agent_llm.types import Model
from agent_local.discord.interactions import EPHEMERAL
from agent_local.discord.server import DiscordStandIn, routed_to
from agent_local.discord.world.world import Attachment, World
from agent_local.discord.world.worlds import small_world
from agent_local.hints import give_hints, last_said
from agent_local.kept_world import kept_world
from agent_local.own_personas import personas_apart, to_edit
from agent_local.session_log import LOG_FILE, SessionLog, writing
from agent_local.standard_streams import fill_standard_streams
from agent_local.summary import RunSummary
from agent_local.terminal import Header, Terminal
from agent_local.terminal_view import Names
from agent_local.typed_commands import Use
from agent_local.voices.voice import ScriptedVoice
from agent_personas.files import PERSONA_FILES
from agent_runtime.bot_run import cancel
from agent_runtime.models import provider_model
from agent_runtime.process import Runtime
from agent_runtime.runtime import running
from agent_runtime.services import Setup
from agent_settings.agents import CodingSettings
from agent_themes import THEMES

CHANNELS = ("debate", "casual", "story", "memes")  # each named after its theme; one stands in the first
PERSON = "Sam"  # who sits at the terminal: a name that the bots can call somebody by
LOCAL_COOLDOWN = 2.0  # seconds; fifteen would feel like a fault to somebody who tries it
LOCAL = "local"  # the folder below DATA_DIR

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: how long a scripted voice thinks, how long the coordinator waits between turns; rounds at most."""

    thinking: tuple[float, float]
    between_turns: tuple[float, float]
    max_rounds: int


WATCHING = Pace(thinking=(0.6, 1.8), between_turns=(1.0, 2.5), max_rounds=8)
ONCE = Pace(thinking=(0.02, 0.1), between_turns=(0.05, 0.2), max_rounds=5)


def run_local(settings: Settings, *, once: bool, scripted: bool) -> int:
    """The process's exit code. Raises SettingsError where the data folder holds what cannot be written to."""
    fill_standard_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # what a terminal cannot show must not end the conversation
    with writing():
        session = _Local(settings, once=once, scripted=scripted)
    return asyncio.run(session.run())


class _Local:
    """One local session."""

    def __init__(self, settings: Settings, *, once: bool, scripted: bool) -> None:
        self.once = once
        self.oddities = setting_warnings_here(settings)  # before anything is made
        self.pace = ONCE if once else WATCHING
        self.rng = random.Random()
        self.console = Console(highlight=False)
        self.paid = {} if scripted else {name: a for name, a in settings.agents.items() if a.usable}
        self.world = _world(settings)
        self.settings = self._settings(settings)
        self.log = SessionLog(self.settings)

    def _settings(self, settings: Settings) -> Settings:
        tokens = {name: SecretStr(_token(name)) for name in settings.agents}
        guild = next(iter(self.world.guilds.values()))
        data, personas = settings.data_dir / LOCAL, local_personas(settings)
        return settings.with_(
            agents={
                name: replace(agent, token=tokens[name], coding=_apart(agent, personas, data), servers={})
                for name, agent in settings.agents.items()
            },
            personas_dir=personas,
            guild_ids=(guild.id,),
            channel_ids=(),
            channel_theme_map={self.world.channel(name).id: name for name in CHANNELS},
            priority_channels=(),
            bot_ids=(),
            bots_role_id=self.world.role("bots").id,
            redis_url=None,
            data_dir=data,
            schedule_min=0,
            schedule_max=0,
            fire_on_startup=False,
            turn_delay_min=self.pace.between_turns[0],
            turn_delay_max=self.pace.between_turns[1],
            max_rounds=min(settings.max_rounds, self.pace.max_rounds),
            agent_cooldown_seconds=min(settings.agent_cooldown_seconds, LOCAL_COOLDOWN),
            mentions_per_minute=0,
            # there is one person
            budget_user_usd=settings.budget_user_usd
            if "budget_user_usd" in settings.model_fields_set
            else settings.budget_daily_usd,
        )

    def _model(self, agent: AgentSettings) -> Model:
        if agent.name in self.paid:
            return provider_model(self.paid[agent.name])
        return ScriptedVoice(
            agent.name,
            rng=random.Random(self.rng.random()),
            delay=self._thinking_time,
            can_draw=bool(agent.image_model),
        )

    def _thinking_time(self) -> float:
        return self.rng.uniform(*self.pace.thinking)

    async def run(self) -> int:
        async with AsyncExitStack() as stack:
            stack.enter_context(self.log.open())
            for oddity in self.oddities:
                log.warning("%s", oddity)
            server = await stack.enter_async_context(DiscordStandIn(self.world))
            stack.enter_context(routed_to(server))
            setup = Setup(
                settings=self.settings,
                agents=tuple(self.settings.agents),
                make_model=self._model,
                use_default_redis=False,
                tools=bool(self.paid),  # a scripted voice uses none
                picture_origins=(server.api_base.split("/api")[0],),
                rng=self.rng,
                resumes=False,  # what was said there is gone
            )
            runtime = await stack.enter_async_context(running(setup))
            runtime.stopping.on_signals()
            if not await runtime.wait_online():
                print(self._why_not(runtime), file=sys.stderr)
                return 1
            return await (self._hold_one(server, runtime) if self.once else self._watch(server, runtime))

    def _why_not(self, runtime: Runtime) -> str:
        if not runtime.bots:
            return "It already runs in this folder: see the other terminal."
        return f"No bot could start: see {self.settings.data_dir / LOG_FILE}"

    async def _hold_one(self, server: DiscordStandIn, runtime: Runtime) -> int:
        """--once: one conversation, shown as it happens, then the sum of it."""
        terminal, channel = self._terminal(server, runtime), self.world.channel(CHANNELS[0])
        if runtime.services.stops.holds(channel.id):
            print(f"No conversation: {_silenced(channel.name)}.", file=sys.stderr)
            return 1
        async with terminal.watching():
            self.log.tell(terminal.note)
            report = await _first_of(self._one_conversation(runtime), runtime.stop.wait())
        if report is None:
            print("Stopped in the middle of the conversation: there is no summary.", file=sys.stderr)
            return 1 if runtime.failed else 0
        summary = RunSummary.of([report], self._shown())
        self.console.print()
        self.console.print(summary)
        return 0 if summary.messages and not runtime.failed else 1

    async def _one_conversation(self, runtime: Runtime) -> ConversationReport | None:
        """It would be over before a server of tools is there: it waits for those that the owner has."""
        if runtime.services.tools is not None:
            await runtime.services.tools.servers.tried()
        return await _coordinator(runtime).fire(self.world.channel(CHANNELS[0]).id)

    async def _watch(self, server: DiscordStandIn, runtime: Runtime) -> int:
        """A conversation begins, and whoever sits at the terminal may join in."""
        terminal = self._terminal(server, runtime)
        async with terminal.watching():
            self.log.tell(terminal.note)
            give_hints(terminal.note, server, _coordinator(runtime), self.world.user(PERSON))
            opening = runtime.start(self._open(terminal, runtime), "opening", essential=False)
            ending = await _first_of(terminal.run(), runtime.stop.wait())
            if ending == "eof" and not sys.stdin.isatty():  # a script has typed all it had and wants to see the answers
                await _first_of(asyncio.gather(asyncio.wait([opening]), terminal.fires_done()), runtime.stop.wait())
        return 1 if runtime.failed else 0

    async def _open(self, terminal: Terminal, runtime: Runtime) -> None:
        if why_not := await self._fire(runtime, self.world.channel(CHANNELS[0]).id, None):
            terminal.note(f"no conversation begins: {why_not}")

    async def _fire(self, runtime: Runtime, channel_id: int, theme: str | None) -> str:
        """Holds a conversation; why none began, "" where one was held."""
        if runtime.services.stops.holds(channel_id):
            return _silenced(self.world.channel(channel_id).name)
        report = await _coordinator(runtime).fire(channel_id, theme)
        return "" if report is not None else "one is running there already"

    def _terminal(self, server: DiscordStandIn, runtime: Runtime) -> Terminal:
        """What the person at it sees and types."""
        agents = self.settings.agents
        ids = {name: self.world.app(name).user.id for name in agents}
        users = {ids[name]: (agent.display_name, f"#{agent.spec.colour:06x}") for name, agent in agents.items()}
        person = self.world.user(PERSON)
        role = self.world.role("bots")
        return Terminal(
            self.console,
            server,
            names=Names(
                channels={self.world.channel(name).id: name for name in CHANNELS},
                users={**users, person.id: (PERSON, "bold white")},
                roles={role.id: role.name},
            ),
            me=person.id,
            fire=partial(self._fire, runtime),
            mention_ids={**{agent.display_name: ids[name] for name, agent in agents.items()}, **ids, PERSON: person.id},
            themes=tuple(THEMES),
            use=lambda channel_id, use: self._use(server, channel_id, use),
            commands=command_list(self._shown(), tuple(THEMES), PERSONA_FILES),
            header=Header(self._voices(), self._free(), str(self.settings.data_dir)),
        )

    async def _use(self, server: DiscordStandIn, channel_id: int, use: Use) -> str:
        """What the person who uses a command is told. Raises LookupError and ValueError."""
        try:
            return await self._used(server, channel_id, use)
        except TimeoutError:
            raise LookupError("no bot answers it; try again in a moment") from None

    async def _used(self, server: DiscordStandIn, channel_id: int, use: Use) -> str:
        guild_id = self.world.guild.id
        bots = self.world.apps.values()
        await server.wait_for(lambda: any(app.commands.get(guild_id) for app in bots))  # soon after the start
        bot = next(app for app in bots if app.commands.get(guild_id))
        values = dict(use.values)
        if use.command == "why" and "message" not in values:
            last = last_said(server, channel_id)
            if last is None:
                raise LookupError("no bot has said anything in this channel yet")
            values["message"] = last
        used = await server.interact(PERSON, channel_id, bot.key, use.command, values)
        await server.wait_for(lambda: used.answers or used.form)
        if not used.answers:
            return f"Discord shows a form here; edit {self._file(values)}, which counts just as well"
        return told_by(used.answers[0], server.backend.attachments)

    def _file(self, values: Mapping[str, str | int]) -> Path:
        """The persona's file that a command names."""
        return to_edit(self.settings.personas_dir / str(values.get("agent", "")) / str(values.get("file", "")))

    def _shown(self) -> Mapping[str, str]:
        return {name: agent.display_name for name, agent in self.settings.agents.items()}

    def _voices(self) -> Mapping[str, str | None]:
        return {
            agent.display_name: _spoken_by(agent) if name in self.paid else None
            for name, agent in self.settings.agents.items()
        }

    def _free(self) -> frozenset[str]:
        agents = self.paid.values()
        return frozenset(_spoken_by(agent) for agent in agents if all(map(is_free, agent.usable)))


def _coordinator(runtime: Runtime) -> Coordinator:
    assert runtime.coordinator is not None
    return runtime.coordinator


def _silenced(channel: str) -> str:
    return f"somebody wants silence in #{channel}, also from an earlier start; /resume there lifts it"


def _spoken_by(agent: AgentSettings) -> str:
    """The model, with its provider where that is not the bot's own."""
    first = agent.usable[0]
    return first.model if first.provider == agent.spec.provider else first.name


def told_by(answer: Mapping[str, Any], attachments: Mapping[int, Attachment]) -> str:
    """What one person alone is told, the text of files that go along too; what all see is shown already."""
    if not answer.get("flags", 0) & EPHEMERAL:
        return ""
    files = [attachments[int(one["id"])].content for one in answer.get("attachments") or ()]
    return "\n".join([str(answer["content"]), *(content.decode(errors="replace") for content in files)])


def _world(settings: Settings) -> World:
    bots = {name: (agent.display_name, _token(name)) for name, agent in settings.agents.items()}
    return kept_world(settings.data_dir / LOCAL, lambda ids: small_world(bots, CHANNELS, (PERSON,), ids=ids))


def local_personas(settings: Settings) -> Path:
    """The folder that PERSONAS_DIR names, else one beside the data, of which each bot's is made."""
    if "personas_dir" in settings.model_fields_set:
        return settings.personas_dir
    return personas_apart(settings.personas_dir, settings.data_dir / LOCAL / "personas", settings.agents)


def _apart(agent: AgentSettings, personas: Path, data: Path) -> CodingSettings | None:
    """A coding agent's folders, apart like everything else."""
    if agent.coding is None:
        return None
    workspace, home = personas / agent.name / "workspace", data / "agent-sdk" / agent.name
    return replace(agent.coding, workspace=workspace.absolute(), home=home.absolute())


def _token(agent: str) -> str:
    """What a bot logs in to the stand-in with; good for nothing else."""
    return f"local-{agent}"


async def _first_of(work: Awaitable[T], stop: Awaitable[object]) -> T | None:
    """The outcome of `work`, or None when `stop` came first."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop)
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await cancel([task, stopped])
