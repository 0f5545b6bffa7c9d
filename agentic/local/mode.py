"""`python run_all.py --local`: the program as in production, with a Discord stand-in on loopback and a terminal.

Only settings, models and delays differ (local_settings.py). An agent whose key is set uses its real model, the others
speak with a scripted voice.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TypeVar

from rich.console import Console

from agent_cogs.slash_definitions import command_list
from agent_config import AgentSettings, Settings
from agent_coordinator.coordinator import Coordinator
from agent_coordinator.events import ConversationReport
from agentic.agent.limits import is_free
from agentic.check.machine import setting_warnings_here
from agentic.console.app import free_port
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Model
from agentic.local.browser_person import BrowserPerson
from agentic.local.command_use import CommandUse
from agentic.local.discord.server import DiscordStandIn, routed_to
from agentic.local.hints import give_hints
from agentic.local.local_conversations import LocalConversations
from agentic.local.local_settings import (
    CHANNELS,
    LOCAL,
    ONCE,
    PERSON,
    WATCHING,
    local_coordinator,
    local_settings,
    local_world,
)
from agentic.local.opened_room import one_room, open_room
from agentic.local.server_kinds import advice
from agentic.local.server_search import Found, looking_for_servers, nothing_found
from agentic.local.session_log import LOG_FILE, SessionLog, writable
from agentic.local.standard_streams import allow_any_characters, fill_standard_streams
from agentic.local.summary import summary
from agentic.local.terminal.saved_files import SavedFiles
from agentic.local.terminal.terminal import Header, Terminal
from agentic.local.terminal.view import Names
from agentic.local.thinking import Thinking, WatchedModel
from agentic.local.voices.memory import SaidInRooms
from agentic.local.voices.voice import ScriptedVoice
from agentic.personas.files import PERSONA_FILES
from agentic.process.version import version_line
from agentic.runtime.bot_run import cancel
from agentic.runtime.models import provider_model
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import running
from agentic.runtime.services import Setup
from agentic.themes import THEMES

T = TypeVar("T")
FILES = "files"  # the folder of saved files, below the data folder

log = logging.getLogger(__name__)


def run_local(settings: Settings, *, once: bool, scripted: bool, topic: str | None = None) -> int:
    """Run until the person leaves; return the exit code. `topic`: begin with a room about it instead of a conversation.
    Raises SettingsError if the data folder is not writable."""
    fill_standard_streams()
    allow_any_characters()
    with writable():
        session = _Local(settings, once=once, scripted=scripted, topic=topic)
    return asyncio.run(session.run())


class _Local:
    """A run of local mode."""

    def __init__(self, settings: Settings, *, once: bool, scripted: bool, topic: str | None) -> None:
        self.once, self.topic = once, topic
        self.setting_warnings = setting_warnings_here(settings)  # before any folder is created
        self.pace = ONCE if once else WATCHING
        self.rng, self.rooms = random.Random(), SaidInRooms()
        self.console = Console(highlight=False)
        self.with_model = {} if scripted else {name: a for name, a in settings.agents.items() if a.usable}
        self.looks_for_servers = len(self.with_model) < len(settings.agents) and not (once and scripted)
        self.world = local_world(settings)
        self.thinking = Thinking(time.monotonic, lambda channel_id: self.world.channel(channel_id).name)
        self.settings = local_settings(settings, self.world, self.pace)
        if once:
            self.settings = self.settings.with_(console=False)
        elif self.settings.console:
            port = free_port(self.settings.console_host, self.settings.console_port)
            self.settings = self.settings.with_(console_port=port)
        self.log = SessionLog(self.settings)

    def _model(self, agent: AgentSettings) -> Model:
        if agent.name in self.with_model:
            model = provider_model(self.with_model[agent.name])
            return model if isinstance(model, AgentSdkModel) else WatchedModel(model, agent.display_name, self.thinking)
        return ScriptedVoice(
            agent.name,
            rng=random.Random(self.rng.random()),
            delay=self._thinking_time,
            can_draw=bool(agent.image_model),
            remedy=_remedy(agent),
            rooms=self.rooms,
        )

    def _thinking_time(self) -> float:
        return self.rng.uniform(*self.pace.thinking)

    async def run(self) -> int:
        async with AsyncExitStack() as stack:
            stack.enter_context(self.log.open())
            log.info("%s", version_line())
            for warning in self.setting_warnings:
                log.warning("%s", warning)
            found = nothing_found
            if self.looks_for_servers:
                found = await stack.enter_async_context(looking_for_servers(self.settings))
            server = await stack.enter_async_context(DiscordStandIn(self.world))
            stack.enter_context(routed_to(server))
            setup = Setup(
                settings=self.settings,
                agents=tuple(self.settings.agents),
                make_model=self._model,
                lacks=lambda _: None,  # who has no model speaks with a script
                coordinator_config=local_coordinator(self.settings),
                use_default_redis=False,
                tools=bool(self.with_model),  # scripted voices use none
                picture_origins=(server.api_base.split("/api")[0],),
                rng=self.rng,
                resumes=False,  # its messages are gone
                people=self._browser_person(server),
                holder=LOCAL,  # only one process runs in this folder, so leases that a killed one left are its own
            )
            runtime = await stack.enter_async_context(running(setup))
            runtime.stopping.on_signals()
            if not await runtime.wait_online():
                print(f"No bot could start, see {self.settings.data_dir / LOG_FILE}", file=sys.stderr)
                return 1
            hold = self._hold_one if self.once else self._watch
            return await hold(server, runtime, found)

    async def _hold_one(self, server: DiscordStandIn, runtime: Runtime, found: Found) -> int:
        """--once: show one conversation or room, then its summary."""
        terminal, channel_id = self._terminal(server, runtime), self.world.channel(CHANNELS[0]).id
        if refusal := LocalConversations(runtime, self.world).refusal(channel_id):
            print(f"No conversation: {refusal}.", file=sys.stderr)
            return 1
        async with terminal.watching():
            await self._begin(terminal, found)
            runtime.start(self._show_slow(terminal), "slow models", essential=False)
            report = await _first_of(self._one(terminal, server, runtime), runtime.stop.wait())
        if report is None:
            if self.topic is not None and not runtime.stop.is_set():
                return 1  # the terminal has said why there is no room
            print("Stopped during the conversation; no summary.", file=sys.stderr)
            return 1 if runtime.failed else 0
        self.console.print()
        self.console.print(summary(report, runtime.services.roster.names))
        return 0 if report.messages and not runtime.failed else 1

    async def _one(self, terminal: Terminal, server: DiscordStandIn, runtime: Runtime) -> ConversationReport | None:
        """Hold one room or conversation. This one waits for the owner's tool servers first, or it would be over before
        they are available."""
        if self.topic is not None:
            return await one_room(self.topic, terminal, server, runtime)
        if runtime.services.tools is not None:
            await runtime.services.tools.servers.tried()
        return await _coordinator(runtime).fire(self.world.channel(CHANNELS[0]).id)

    async def _watch(self, server: DiscordStandIn, runtime: Runtime, found: Found) -> int:
        """Start a conversation that the person at the terminal can join."""
        terminal = self._terminal(server, runtime)
        async with terminal.watching():
            await self._begin(terminal, found)
            conversations = LocalConversations(runtime, self.world)
            give_hints(terminal.note, server, _coordinator(runtime), conversations, self.world.user(PERSON))
            if not terminal.has_toolbar:
                runtime.start(self._show_slow(terminal), "slow models", essential=False)
            opening = runtime.start(self._open(terminal, runtime), "opening", essential=False)
            ending = await _first_of(terminal.run(), runtime.stop.wait())
            if ending == "eof" and not sys.stdin.isatty():  # the input was piped: show the answers to it
                await _first_of(asyncio.gather(asyncio.wait([opening]), terminal.tasks_done()), runtime.stop.wait())
        return 1 if runtime.failed else 0

    async def _begin(self, terminal: Terminal, found: Found) -> None:
        """Show what there is to know at the start."""
        self.log.show_warnings(terminal.note)
        for server in await found():
            terminal.note(advice(server))

    async def _show_slow(self, terminal: Terminal) -> None:
        """Name the bots that think for long, where nothing else shows it."""
        while True:
            await asyncio.sleep(1.0)
            if line := self.thinking.slow_line():
                terminal.note(line)

    async def _open(self, terminal: Terminal, runtime: Runtime) -> None:
        if self.topic is not None:
            await open_room(self.topic, self.world, terminal, runtime)
        elif why_not := await LocalConversations(runtime, self.world).hold(self.world.channel(CHANNELS[0]).id, None):
            terminal.note(f"no conversation started: {why_not}")

    def _terminal(self, server: DiscordStandIn, runtime: Runtime) -> Terminal:
        agents = self.settings.agents
        ids = {name: self.world.app(name).user.id for name in agents}
        users = {ids[name]: (agent.display_name, f"#{agent.spec.colour:06x}") for name, agent in agents.items()}
        person = self.world.user(PERSON)
        role = self.world.role("bots")
        save = SavedFiles(self.settings.data_dir / FILES, content_of(server)).save
        return Terminal(
            self.console,
            server,
            names=Names(
                channels={self.world.channel(name).id: name for name in CHANNELS},
                users={**users, person.id: (PERSON, "bold white")},
                roles={role.id: role.name},
                personas={
                    entry.shown: f"#{entry.settings.spec.colour:06x}"
                    for entry in runtime.services.roster.personas
                    if entry.settings is not None
                },
            ),
            me=person.id,
            conversations=LocalConversations(runtime, self.world),
            mention_ids=self._mention_ids(),
            themes=tuple(THEMES),
            use=CommandUse(server, PERSON, self.settings.personas_dir, save),
            commands=command_list(self._shown(), tuple(THEMES), PERSONA_FILES),
            save=save,
            guild=self.world.guild.id,
            status=self.thinking.shown,
            header=Header(
                self._voices(),
                self._free(),
                str(self.settings.data_dir),
                runtime.console,
                joinable=not self.once,
                room=self.topic or "",
            ),
            log_file=str(self.settings.data_dir / LOG_FILE),
        )

    def _mention_ids(self) -> Mapping[str, int]:
        """The words that mention a user after `@`: shown names, agents' keys and the person's name."""
        ids = {name: self.world.app(name).user.id for name in self.settings.agents}
        shown = {self._shown()[name]: user_id for name, user_id in ids.items()}
        return {**shown, **ids, PERSON: self.world.user(PERSON).id}

    def _browser_person(self, server: DiscordStandIn) -> BrowserPerson:
        role = self.world.role("bots")
        return BrowserPerson(server, PERSON, tuple(self._shown().values()), self._mention_ids(), {role.name: role.id})

    def _shown(self) -> Mapping[str, str]:
        return {name: agent.display_name for name, agent in self.settings.agents.items()}

    def _voices(self) -> Mapping[str, str | None]:
        return {
            agent.display_name: _spoken_by(agent) if name in self.with_model else None
            for name, agent in self.settings.agents.items()
        }

    def _free(self) -> frozenset[str]:
        agents = self.with_model.values()
        return frozenset(_spoken_by(agent) for agent in agents if all(map(is_free, agent.usable)))


def content_of(server: DiscordStandIn) -> Callable[[int], bytes | None]:
    """A function that returns the content of an attachment by its id."""
    attachments = server.backend.attachments
    return lambda attachment_id: attachments[attachment_id].content if attachment_id in attachments else None


def _coordinator(runtime: Runtime) -> Coordinator:
    assert runtime.coordinator is not None
    return runtime.coordinator


def _remedy(agent: AgentSettings) -> str:
    """The step after which the agent's model speaks instead of a script."""
    lacks = [] if agent.usable else [model.lacks for model in agent.models if model.lacks]
    step = f"set {lacks[0]}" if lacks else "start without --scripted"
    return f"{step} and {agent.display_name} answers itself"


def _spoken_by(agent: AgentSettings) -> str:
    """The model's name, with its provider if that is not the bot's own."""
    first = agent.usable[0]
    return first.model if first.provider == agent.spec.provider else first.name


async def _first_of(work: Awaitable[T], stop: Awaitable[object]) -> T | None:
    """Return the outcome of `work`, or None if `stop` came first."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop)
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await cancel([task, stopped])
