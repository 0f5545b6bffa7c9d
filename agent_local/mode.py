"""`python run_all.py --local`: the program as in production, with a Discord stand-in on loopback and a terminal.

Only settings, models and delays differ (local_settings.py). An agent whose key is set uses its real model, the others
speak with a scripted voice.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar

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
from agent_local.discord.world.world import Attachment
from agent_local.hints import give_hints, last_bot_message
from agent_local.local_settings import CHANNELS, ONCE, PERSON, WATCHING, local_settings, local_world
from agent_local.own_personas import to_edit
from agent_local.session_log import LOG_FILE, SessionLog, writable
from agent_local.standard_streams import fill_standard_streams
from agent_local.summary import summary
from agent_local.terminal.bot_commands import Use
from agent_local.terminal.terminal import Header, Terminal
from agent_local.terminal.view import Names
from agent_local.voices.voice import ScriptedVoice
from agent_personas.files import PERSONA_FILES
from agent_process.version import version_line
from agent_runtime.bot_run import cancel
from agent_runtime.models import provider_model
from agent_runtime.process import Runtime
from agent_runtime.runtime import running
from agent_runtime.services import Setup
from agent_themes import THEMES

T = TypeVar("T")

log = logging.getLogger(__name__)


def run_local(settings: Settings, *, once: bool, scripted: bool) -> int:
    """Run until the person leaves; return the exit code. Raises SettingsError if the data folder is not writable."""
    fill_standard_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a character that the terminal lacks must not end the conversation
    with writable():
        session = _Local(settings, once=once, scripted=scripted)
    return asyncio.run(session.run())


class _Local:
    """A run of local mode."""

    def __init__(self, settings: Settings, *, once: bool, scripted: bool) -> None:
        self.once = once
        self.setting_warnings = setting_warnings_here(settings)  # before any folder is created
        self.pace = ONCE if once else WATCHING
        self.rng = random.Random()
        self.console = Console(highlight=False)
        self.paid = {} if scripted else {name: a for name, a in settings.agents.items() if a.usable}
        self.world = local_world(settings)
        self.settings = local_settings(settings, self.world, self.pace)
        self.log = SessionLog(self.settings)

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
            log.info("%s", version_line())
            for warning in self.setting_warnings:
                log.warning("%s", warning)
            server = await stack.enter_async_context(DiscordStandIn(self.world))
            stack.enter_context(routed_to(server))
            setup = Setup(
                settings=self.settings,
                agents=tuple(self.settings.agents),
                make_model=self._model,
                use_default_redis=False,
                tools=bool(self.paid),  # scripted voices use none
                picture_origins=(server.api_base.split("/api")[0],),
                rng=self.rng,
                resumes=False,  # its messages are gone
            )
            runtime = await stack.enter_async_context(running(setup))
            runtime.stopping.on_signals()
            if not await runtime.wait_online():
                print(self._why_not(runtime), file=sys.stderr)
                return 1
            return await (self._hold_one(server, runtime) if self.once else self._watch(server, runtime))

    def _why_not(self, runtime: Runtime) -> str:
        if not runtime.bots:
            return "Already running in this folder, in another terminal."
        return f"No bot could start, see {self.settings.data_dir / LOG_FILE}"

    async def _hold_one(self, server: DiscordStandIn, runtime: Runtime) -> int:
        """--once: show one conversation, then its summary."""
        terminal, channel = self._terminal(server, runtime), self.world.channel(CHANNELS[0])
        if runtime.services.stops.holds(channel.id):
            print(f"No conversation: {_stopped(channel.name)}.", file=sys.stderr)
            return 1
        async with terminal.watching():
            self.log.show_warnings(terminal.note)
            report = await _first_of(self._one_conversation(runtime), runtime.stop.wait())
        if report is None:
            print("Stopped during the conversation; no summary.", file=sys.stderr)
            return 1 if runtime.failed else 0
        self.console.print()
        self.console.print(summary(report, self._shown()))
        return 0 if report.messages and not runtime.failed else 1

    async def _one_conversation(self, runtime: Runtime) -> ConversationReport | None:
        """Wait for the owner's tool servers first, or the conversation would be over before they are available."""
        if runtime.services.tools is not None:
            await runtime.services.tools.servers.tried()
        return await _coordinator(runtime).fire(self.world.channel(CHANNELS[0]).id)

    async def _watch(self, server: DiscordStandIn, runtime: Runtime) -> int:
        """Start a conversation that the person at the terminal can join."""
        terminal = self._terminal(server, runtime)
        async with terminal.watching():
            self.log.show_warnings(terminal.note)
            give_hints(terminal.note, server, _coordinator(runtime), self.world.user(PERSON))
            opening = runtime.start(self._open(terminal, runtime), "opening", essential=False)
            ending = await _first_of(terminal.run(), runtime.stop.wait())
            if ending == "eof" and not sys.stdin.isatty():  # the input was piped: show the answers to it
                await _first_of(asyncio.gather(asyncio.wait([opening]), terminal.fires_done()), runtime.stop.wait())
        return 1 if runtime.failed else 0

    async def _open(self, terminal: Terminal, runtime: Runtime) -> None:
        if why_not := await self._fire(runtime, self.world.channel(CHANNELS[0]).id, None):
            terminal.note(f"no conversation started: {why_not}")

    async def _fire(self, runtime: Runtime, channel_id: int, theme: str | None) -> str:
        """Hold a conversation; return why none started, "" if one was held."""
        if runtime.services.stops.holds(channel_id):
            return _stopped(self.world.channel(channel_id).name)
        report = await _coordinator(runtime).fire(channel_id, theme)
        return "" if report is not None else "one is already running there"

    def _terminal(self, server: DiscordStandIn, runtime: Runtime) -> Terminal:
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
        """Use a command of the bots; return the answer. Raises LookupError and ValueError."""
        try:
            return await self._answer_to(server, channel_id, use)
        except TimeoutError:
            raise LookupError("no bot answered; try again in a moment") from None

    async def _answer_to(self, server: DiscordStandIn, channel_id: int, use: Use) -> str:
        guild_id = self.world.guild.id
        bots = self.world.apps.values()
        await server.wait_for(lambda: any(app.commands.get(guild_id) for app in bots))  # soon after the start
        bot = next(app for app in bots if app.commands.get(guild_id))
        values = dict(use.values)
        if use.command == "why" and "message" not in values:
            last = last_bot_message(server, channel_id)
            if last is None:
                raise LookupError("no bot has written in this channel yet")
            values["message"] = last
        used = await server.interact(PERSON, channel_id, bot.key, use.command, values)
        await server.wait_for(lambda: used.answers or used.form)
        if not used.answers:
            return f"in Discord a form opens here; instead, edit {self._file(values)}"
        return answer_text(used.answers[0], server.backend.attachments)

    def _file(self, values: Mapping[str, str | int]) -> Path:
        """The persona file that a command names."""
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


def _stopped(channel: str) -> str:
    return f"#{channel} is stopped, perhaps since an earlier start; /resume there lifts it"


def _spoken_by(agent: AgentSettings) -> str:
    """The model's name, with its provider if that is not the bot's own."""
    first = agent.usable[0]
    return first.model if first.provider == agent.spec.provider else first.name


def answer_text(answer: Mapping[str, Any], attachments: Mapping[int, Attachment]) -> str:
    """The text of an answer to one person, with that of its files; "" for one that everybody sees in the channel."""
    if not answer.get("flags", 0) & EPHEMERAL:
        return ""
    files = [attachments[int(one["id"])].content for one in answer.get("attachments") or ()]
    return "\n".join([str(answer["content"]), *(content.decode(errors="replace") for content in files)])


async def _first_of(work: Awaitable[T], stop: Awaitable[object]) -> T | None:
    """Return the outcome of `work`, or None if `stop` came first."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop)
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await cancel([task, stopped])
