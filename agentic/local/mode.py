"""Runs local mode (`python run_all.py --local`): the program as in production, with a Discord stand-in and a terminal.

Only settings, models and delays differ (settings.py). An agent whose key is set uses its real model, the others speak
with a scripted voice. Also here: conversations that the person starts, hints for a person who waits for an answer that
will not come, and the room of `--room TOPIC`, in which personas of the program debate.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

from rich.console import Console

from agent_cogs.slash_definitions import command_list
from agent_config import AgentSettings, Settings
from agent_coordinator.events import ConversationEnded, Event
from agentic.agent.services import AgentBook
from agentic.check.odd_settings import setting_warnings_here
from agentic.console.app import free_port
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Model
from agentic.local.discord.server import DiscordStandIn, routed_to
from agentic.local.models import KINDS, Found, Thinking, WatchedModel, advice, looking_for_servers
from agentic.local.person import BrowserPerson, CommandUse
from agentic.local.scene_order import ScenePolicies
from agentic.local.session import (
    LOG_FILE,
    allow_any_characters,
    fill_standard_streams,
    may_lose_terminal,
    session_log,
    summary,
    writable,
)
from agentic.local.settings import (
    CHANNELS,
    LOCAL,
    ONCE,
    ONCE_WITH_MODELS,
    PERSON,
    WATCHING,
    local_coordinator,
    local_settings,
    local_world,
)
from agentic.local.terminal.commands import TypedCommand
from agentic.local.terminal.terminal import LocalConversations, Screen, Terminal
from agentic.local.terminal.view import Header, Names, SavedFiles
from agentic.local.voices.scenes import Heard
from agentic.local.voices.voice import ScriptedVoice
from agentic.process.logs import version_line
from agentic.runtime.bot import cancel
from agentic.runtime.runtime import running
from agentic.runtime.services import ModelMakers, ProcessConfig, WebAccess, provider_model
from agentic.state.conversation_state import ConversationState
from agentic.text import listed
from agentic.themes import THEMES
from agentic.wire.reasons import ENDINGS

T = TypeVar("T")

log = logging.getLogger(__name__)

FILES = "files"  # the folder of saved files, below the data folder
NO_CONVERSATION = "no conversation is running here; mention a bot (@claude), or type /fire"
NO_ROOM = "the room isn't running; use /room resume to continue"

DEBATERS = ("historian", "optimist", "engineer", "sceptic", "economist", "ethicist")  # the first four debate
SEATS = 4
SHORT_TURNS = 10  # with --once
MAX_ROOM_SECONDS = 3600.0  # seconds that --once waits for the end of a room
CARD_SECONDS = 20.0  # and then for its closing card


def run_local(settings: Settings, *, once: bool, scripted: bool, topic: str | None = None) -> int:
    """Run until the person leaves; return the exit code. `topic`: begin with a room about it. Raises SettingsError."""
    fill_standard_streams()
    allow_any_characters()
    with writable():
        session = _Local(settings, once=once, scripted=scripted, topic=topic)
    with may_lose_terminal():
        return asyncio.run(session.run())
    return 0


class _Local:
    def __init__(self, settings: Settings, *, once: bool, scripted: bool, topic: str | None) -> None:
        self.once, self.topic, self.scripted = once, topic, scripted
        self.setting_warnings = setting_warnings_here(settings)  # before any folder is created
        self.rng, self.heard = random.Random(), Heard()
        self.console = Console(highlight=False)
        self.with_model = {} if scripted else {name: a for name, a in settings.agents.items() if a.usable}
        all_models = len(self.with_model) == len(settings.agents)
        self.pace = (ONCE_WITH_MODELS if all_models else ONCE) if once else WATCHING
        self.looks_for_servers = len(self.with_model) < len(settings.agents) and not (once and scripted)
        self.world = local_world(settings)
        self.thinking = Thinking(time.monotonic, lambda channel_id: self.world.channel(channel_id).name)
        self.settings = local_settings(settings, self.world, self.pace)
        self.names = {name: agent.display_name for name, agent in self.settings.agents.items()}
        ids = {name: self.world.app(name).user.id for name in self.names}
        # The words that mention a user after `@`: shown names, agents' keys and the person's name.
        self.mention_ids = {self.names[name]: user_id for name, user_id in ids.items()}
        self.mention_ids |= {**ids, PERSON: self.world.user(PERSON).id}
        role = self.world.role("bots")
        self.roles = {role.name: role.id}
        if once:
            self.settings = self.settings.with_(console=False)
        elif self.settings.console:
            port = free_port(self.settings.console_host, self.settings.console_port)
            self.settings = self.settings.with_(console_port=port)

    def _model(self, agent: AgentSettings) -> Model:
        if agent.usable and not self.scripted:
            model = provider_model(self.with_model.get(agent.name, agent))
            return model if isinstance(model, AgentSdkModel) else WatchedModel(model, agent.display_name, self.thinking)
        lacks = [] if agent.usable else [model.lacks for model in agent.models if model.lacks]
        step = f"put {lacks[0]} in .env" if lacks else "start without --scripted"
        return ScriptedVoice(
            agent.name,
            rng=random.Random(self.rng.random()),
            delay=lambda: self.rng.uniform(*self.pace.thinking),
            can_draw=bool(agent.image_model),
            remedy=f"for real answers from {agent.display_name}, {step}",
            heard=self.heard,
        )

    async def run(self) -> int:
        async with AsyncExitStack() as stack:
            self.show_warnings = stack.enter_context(session_log(self.settings))
            log.info("%s", version_line())
            for warning in self.setting_warnings:
                log.warning("%s", warning)
            kinds = KINDS.values() if self.looks_for_servers else ()
            found = await stack.enter_async_context(looking_for_servers(self.settings, kinds))
            self.server = await stack.enter_async_context(DiscordStandIn(self.world))
            stack.enter_context(routed_to(self.server))
            self.save = SavedFiles(self.settings.data_dir / FILES, self.world.attachments).save
            self.use = CommandUse(self.server, PERSON, self.settings.personas_dir, self.save)
            coordinator = local_coordinator(self.settings, self.pace)
            setup = ProcessConfig(
                settings=self.settings,
                agents=tuple(self.settings.agents),
                models=ModelMakers(make=self._model, lacks=lambda _: None),  # who has no model speaks with a script
                coordinator_config=coordinator,
                use_default_redis=False,
                tools=bool(self.with_model),  # scripted voices use none
                web=WebAccess(picture_origins=(self.server.api_base.split("/api")[0],)),
                rng=self.rng,
                resumes=False,  # its messages are gone
                people=BrowserPerson(
                    self.server,
                    PERSON,
                    tuple(self.names.values()),
                    self.mention_ids,
                    self.roles,
                    command_list(self.names),
                    self.use,
                ),
                holder=LOCAL,  # only one process runs in this folder, so leases that a killed one left are its own
            )
            self.runtime = await stack.enter_async_context(running(setup))
            assert self.runtime.coordinator is not None
            self.coordinator = self.runtime.coordinator
            if not self.with_model:
                self.coordinator.engine.policies = ScenePolicies(coordinator, self.heard)
            self.runtime.stopping.on_signals()
            if not await self.runtime.wait_online():
                print(f"No bot could start, see {self.settings.data_dir / LOG_FILE}", file=sys.stderr)
                return 1
            self.conversations = LocalConversations(self.runtime, self.world)
            self.terminal = self._terminal()
            return await (self._hold_one(found) if self.once else self._watch(found))

    async def _hold_one(self, found: Found) -> int:
        """--once: show one conversation or room, then its summary."""
        if refusal := self.conversations.refusal(self.world.channel(CHANNELS[0]).id):
            print(f"No conversation: {refusal}.", file=sys.stderr)
            return 1
        runtime = self.runtime
        async with self.terminal.watching():
            await self._begin(found)
            runtime.start(self._show_slow(), "slow models", essential=False)
            one = self._one_conversation() if self.topic is None else self._one_room(self.topic)
            report = await _first_of(one, runtime.stop.wait())
        if report is None:
            if self.topic is not None and not runtime.stop.is_set():
                return 1  # the terminal has said why
            print("Stopped during the conversation; no summary.", file=sys.stderr)
            return runtime.exit_code
        self.console.print()
        self.console.print(summary(report, runtime.services.agents.roster.names))
        return runtime.exit_code if report.messages else 1

    async def _one_conversation(self) -> ConversationState | None:
        """Wait for the owner's tool servers first; otherwise the conversation would be over before they are up."""
        if self.runtime.services.agents.tools is not None:
            await self.runtime.services.agents.tools.servers.tried()
        return await self.coordinator.start_conversation(self.world.channel(CHANNELS[0]).id)

    async def _one_room(self, topic: str) -> ConversationState | None:
        """Open a short room and wait for its closing card. Return None if it wasn't opened."""
        ended = dict[int, ConversationState]()

        def on_ended(event: Event) -> None:
            if isinstance(event, ConversationEnded):
                ended[event.state.channel_id] = event.state

        self.coordinator.engine.observers.append(on_ended)
        thread_id = await self._open_room(topic, short=True)
        if thread_id is None:
            return None
        report = await self.server.wait_for(lambda: ended.get(thread_id), MAX_ROOM_SECONDS)
        with suppress(TimeoutError):  # the debate itself was shown
            await self.server.wait_for(lambda: self.world.channel(thread_id).archived, CARD_SECONDS)
        return report

    async def _open_room(self, topic: str, *, short: bool = False) -> int | None:
        """Open the room as the person and go there. Return None if that failed; the terminal says why."""

        def newest_thread() -> int | None:
            return max((channel.id for channel in self.world.channels() if channel.is_thread), default=None)

        before = newest_thread()
        members = choose_debaters(self.runtime.services.agents)
        values: dict[str, str | int] = {"topic": topic, "personas": ", ".join(members)}
        await self.terminal.use(TypedCommand("room create", {**values, "turns": SHORT_TURNS} if short else values))
        thread_id = newest_thread()
        if thread_id is None or thread_id == before:
            return None
        self.terminal.go_to(thread_id)
        return thread_id

    async def _watch(self, found: Found) -> int:
        """Start a conversation that the person at the terminal can join."""
        terminal, runtime = self.terminal, self.runtime
        async with terminal.watching():
            await self._begin(found)
            self._give_hints()
            if not terminal.has_toolbar:
                runtime.start(self._show_slow(), "slow models", essential=False)
            opening = runtime.start(self._open(), "opening", essential=False)
            ending = await _first_of(terminal.run(), runtime.stop.wait())
            if ending == "eof" and not sys.stdin.isatty():  # the input was piped: show the answers to it
                await _first_of(asyncio.gather(asyncio.wait([opening]), terminal.tasks_done()), runtime.stop.wait())
        return runtime.exit_code

    async def _begin(self, found: Found) -> None:
        """Show warnings and the model servers on this machine."""
        self.show_warnings(self.terminal.note)
        for server in await found():
            self.terminal.note(advice(server))
        if not self.scripted and (line := self._personas_without_model()):
            self.terminal.note(line)

    def _personas_without_model(self) -> str:
        """Name the personas that speak prepared lines although a bot has a model, and the reason; "" for none."""
        entries = [entry for entry in self.runtime.services.agents.roster.personas if entry.settings is not None]
        lacking = {entry.shown: entry.settings for entry in entries if entry.settings and not entry.settings.usable}
        if not (self.with_model and lacking):
            return ""
        keys = dict.fromkeys(model.lacks for agent in lacking.values() for model in agent.models if model.lacks)
        verb = "speaks" if len(lacking) == 1 else "speak"
        return f"{listed([*lacking])} {verb} prepared lines: {listed([*keys])} isn't set"

    async def _show_slow(self) -> None:
        """Name the bots that have been thinking for a while."""
        while True:
            await asyncio.sleep(1.0)
            if line := self.thinking.slow_line():
                self.terminal.note(line)

    async def _open(self) -> None:
        if self.topic is not None:
            await self._open_room(self.topic)
        elif why_not := await self.conversations.hold(self.world.channel(CHANNELS[0]).id, None):
            self.terminal.note(f"no conversation started: {why_not}")

    def _give_hints(self) -> None:
        """Tell the person from now on why something they did gets no answer, and what to type instead."""
        note, me, world = self.terminal.note, self.world.user(PERSON).id, self.world
        bots = {app.user.id for app in world.apps.values()}

        def is_room(channel_id: int) -> bool:
            """Return True for a thread, even if it's deleted."""
            channel = world.find_channel(channel_id)
            return channel is None or channel.is_thread

        def on_ended(event: Event) -> None:
            if isinstance(event, ConversationEnded) and not is_room(event.state.channel_id):
                line = ended_line(event.state, world.channel(event.state.channel_id).name)
                if line is not None:
                    note(line)

        def on_message(event: str, data: Mapping[str, Any]) -> None:
            if event != "MESSAGE_CREATE" or int(data["author"]["id"]) != me:
                return
            words, channel_id = str(data["content"]), int(data["channel_id"])
            if not words:  # the report of a pin
                return
            if words.startswith(".config"):
                note("it takes effect once it is pinned: /pin")
            elif words.startswith(".") and not words.startswith((".history", "..")):
                note("bots don't see messages that begin with a period")
            elif data["mentions"] or data["mention_roles"] or words.startswith("."):
                return
            elif words.startswith("m "):  # a command in a message
                if not any(message.author.id in bots for message in world.channel(channel_id).messages.values()):
                    note("no bot has written here yet; name one: @claude m continue")
            elif channel_id not in self.coordinator.engine.locks.busy:
                note(self.conversations.stopped(channel_id) or (NO_ROOM if is_room(channel_id) else NO_CONVERSATION))

        self.coordinator.engine.observers.append(on_ended)
        self.server.subscribe(on_message)

    def _terminal(self) -> Terminal:
        agents = self.settings.agents
        users = {
            self.mention_ids[name]: (agent.display_name, f"#{agent.spec.color:06x}") for name, agent in agents.items()
        }
        person = self.world.user(PERSON)
        names = Names(
            channels={self.world.channel(name).id: name for name in CHANNELS},
            users={**users, person.id: (PERSON, "bold white")},
            roles={role_id: name for name, role_id in self.roles.items()},
            personas={
                entry.shown: f"#{entry.settings.spec.color:06x}"
                for entry in self.runtime.services.agents.roster.personas
                if entry.settings is not None
            },
            mention_ids=self.mention_ids,
            themes=tuple(THEMES),
            commands=command_list(self.names),
            guild=self.world.guild.id,
        )
        header = Header(
            {
                agent.display_name: _model_name(agent) if name in self.with_model else None
                for name, agent in agents.items()
            },
            [_model_name(agent) for agent in self.with_model.values() if all(model.is_free for model in agent.usable)],
            str(self.settings.data_dir),
            self.runtime.console,
            joinable=not self.once,
            room=self.topic or "",
        )
        log_file = str(self.settings.data_dir / LOG_FILE)
        return Terminal(
            Screen(console=self.console, header=header, status=self.thinking.render, log_file=log_file),
            self.server,
            names=names,
            me=person.id,
            conversations=self.conversations,
            use=self.use,
            save=self.save,
        )


def choose_debaters(agents: AgentBook) -> list[str]:
    """Return at most four: the program's own debaters, then other personas, then bots."""
    personas = [entry.key for entry in agents.roster.personas if entry.why_not is None]
    known = [name for name in DEBATERS if name in personas]
    return list(dict.fromkeys((*known, *personas, *agents.names)))[:SEATS]


def _model_name(agent: AgentSettings) -> str:
    """Return the model's name, with its provider if that isn't the bot's own."""
    first = agent.usable[0]
    return first.model if first.provider == agent.spec.provider else first.name


async def _first_of(work: Awaitable[T], stop: Awaitable[object]) -> T | None:
    """Return the result of `work`, or None if `stop` came first."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop)
    try:
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await cancel([task, stopped])


def ended_line(report: ConversationState, channel: str) -> str | None:
    """Say why a conversation in this channel ended, and what to type next. Return None for a conversation of an earlier
    start, which this terminal has not shown."""
    assert report.ended_because is not None
    if report.ended_because == "too_old":
        return None
    what = f"the conversation in #{channel} has ended" if report.messages else f"no bot spoke in #{channel}"
    next_step = "/resume lets the bots speak again" if report.ended_because == "stopped" else "/fire starts another"
    return f"{what}: {ENDINGS[report.ended_because]}; {next_step}"
