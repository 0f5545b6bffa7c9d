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
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

from rich.console import Console

from agent_cogs.slash_definitions import command_list
from agent_config import AgentSettings, Settings
from agent_coordinator.coordinator import Coordinator
from agent_coordinator.events import ConversationEnded, ConversationReport, Event
from agentic.agent.limits import is_free
from agentic.check.machine import setting_warnings_here
from agentic.console.app import free_port
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.types import Model
from agentic.local.discord.server import DiscordStandIn, routed_to
from agentic.local.discord.world import User, World
from agentic.local.models import Found, Thinking, WatchedModel, advice, looking_for_servers, nothing_found
from agentic.local.person import BrowserPerson, CommandUse
from agentic.local.session import LOG_FILE, allow_any_characters, fill_standard_streams, session_log, summary, writable
from agentic.local.settings import (
    CHANNELS,
    LOCAL,
    ONCE,
    PERSON,
    WATCHING,
    local_coordinator,
    local_settings,
    local_world,
)
from agentic.local.terminal.commands import TypedCommand
from agentic.local.terminal.terminal import LocalConversations, Terminal
from agentic.local.terminal.view import Header, Names, SavedFiles
from agentic.local.voices.scene import RoomLines
from agentic.local.voices.voice import ScriptedVoice
from agentic.personas.files import PERSONA_FILES
from agentic.process.logs import version_line
from agentic.runtime.bot import cancel
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import running
from agentic.runtime.services import Setup, provider_model
from agentic.themes import THEMES
from agentic.wire.reasons import ENDINGS

log = logging.getLogger(__name__)


T = TypeVar("T")

FILES = "files"  # the folder of saved files, below the data folder


NO_CONVERSATION = "no conversation is running here; mention a bot (@claude) or start one with /fire"
NO_ROOM = "the room isn't running; use /room resume to continue"

DEBATERS = ("historian", "optimist", "engineer", "sceptic", "economist", "ethicist")  # the first four debate
SEATS = 4
SHORT_TURNS = 10  # with --once
MAX_ROOM_SECONDS = 3600.0  # seconds that --once waits for the end of a room
CARD_SECONDS = 20.0  # and then for its closing card


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
        self.rng, self.rooms = random.Random(), RoomLines()
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

    def _model(self, agent: AgentSettings) -> Model:
        if agent.name in self.with_model:
            model = provider_model(self.with_model[agent.name])
            return model if isinstance(model, AgentSdkModel) else WatchedModel(model, agent.display_name, self.thinking)
        lacks = [] if agent.usable else [model.lacks for model in agent.models if model.lacks]
        step = f"set {lacks[0]}" if lacks else "start without --scripted"
        return ScriptedVoice(
            agent.name,
            rng=random.Random(self.rng.random()),
            delay=lambda: self.rng.uniform(*self.pace.thinking),
            can_draw=bool(agent.image_model),
            remedy=f"{step} and {agent.display_name} answers itself",  # after which its model speaks
            rooms=self.rooms,
        )

    async def run(self) -> int:
        async with AsyncExitStack() as stack:
            self.show_warnings = stack.enter_context(session_log(self.settings))
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
                people=BrowserPerson(server, PERSON, tuple(self._names().values()), self._mention_ids(), self._roles()),
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
        terminal = self._terminal(server, runtime)
        if refusal := LocalConversations(runtime, self.world).refusal(self.world.channel(CHANNELS[0]).id):
            print(f"No conversation: {refusal}.", file=sys.stderr)
            return 1
        async with terminal.watching():
            await self._begin(terminal, found)
            runtime.start(self._show_slow(terminal), "slow models", essential=False)
            if self.topic is not None:
                one = one_room(self.topic, terminal, server, runtime)
            else:
                one = self._one_conversation(runtime)
            report = await _first_of(one, runtime.stop.wait())
        if report is None:
            if self.topic is not None and not runtime.stop.is_set():
                return 1  # the terminal has said why there is no room
            print("Stopped during the conversation; no summary.", file=sys.stderr)
            return 1 if runtime.failed else 0
        self.console.print()
        self.console.print(summary(report, runtime.services.roster.names))
        return 0 if report.messages and not runtime.failed else 1

    async def _one_conversation(self, runtime: Runtime) -> ConversationReport | None:
        """Wait for the owner's tool servers first, or it would be over before they are available."""
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
        self.show_warnings(terminal.note)
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
        save = SavedFiles(self.settings.data_dir / FILES, content_of(server)).save
        return Terminal(
            self.console,
            server,
            names=Names(
                channels={self.world.channel(name).id: name for name in CHANNELS},
                users={**users, person.id: (PERSON, "bold white")},
                roles={role_id: name for name, role_id in self._roles().items()},
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
            commands=command_list(self._names(), tuple(THEMES), PERSONA_FILES),
            save=save,
            guild=self.world.guild.id,
            status=self.thinking.render,
            header=Header(
                {
                    agent.display_name: _model_name(agent) if name in self.with_model else None
                    for name, agent in agents.items()
                },
                [_model_name(agent) for agent in self.with_model.values() if all(map(is_free, agent.usable))],
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
        shown = {self._names()[name]: user_id for name, user_id in ids.items()}
        return {**shown, **ids, PERSON: self.world.user(PERSON).id}

    def _names(self) -> Mapping[str, str]:
        return {name: agent.display_name for name, agent in self.settings.agents.items()}

    def _roles(self) -> Mapping[str, int]:
        role = self.world.role("bots")
        return {role.name: role.id}


def _model_name(agent: AgentSettings) -> str:
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


def content_of(server: DiscordStandIn) -> Callable[[int], bytes | None]:
    """A function that returns the content of an attachment by its id."""
    attachments = server.backend.attachments
    return lambda attachment_id: attachments[attachment_id].content if attachment_id in attachments else None


def ended_line(report: ConversationReport, channel: str) -> str | None:
    """Say why a conversation in the channel of this name has ended, and what to type next. None for one that an earlier
    start left: this terminal has shown nothing of it."""
    if report.ended_because == "too_old":
        return None
    what = f"the conversation in #{channel} has ended" if report.messages else f"no bot spoke in #{channel}"
    next_step = "/resume lets the bots speak again" if report.ended_because == "stopped" else "/fire starts another"
    return f"{what}: {ENDINGS[report.ended_because]}; {next_step}"


def give_hints(
    note: Callable[[str], None],
    server: DiscordStandIn,
    coordinator: Coordinator,
    conversations: LocalConversations,
    person: User,
) -> None:
    """Pass hints to `note` from now on, about what this person does."""

    def on_ended(event: Event) -> None:
        if isinstance(event, ConversationEnded) and not _is_room(event.report.channel_id):
            line = ended_line(event.report, server.world.channel(event.report.channel_id).name)
            if line is not None:
                note(line)

    def _is_room(channel_id: int) -> bool:
        """Its end is said in its thread, which may be gone."""
        channel = server.world.find_channel(channel_id)
        return channel is None or channel.is_thread

    def on_message(event: str, data: Mapping[str, Any]) -> None:
        if event != "MESSAGE_CREATE" or int(data["author"]["id"]) != person.id:
            return
        words, channel_id = str(data["content"]), int(data["channel_id"])
        if not words:  # the report of a pin
            return
        if words.startswith(".config"):
            note("it takes effect once it is pinned: /pin")
        elif words.startswith(".") and not words.startswith((".history", "..")):
            note("the bots do not see a message that begins with a period")
        elif data["mentions"] or data["mention_roles"] or words.startswith("."):
            return
        elif words.startswith("m "):  # a command in a message
            if last_bot_message(server, channel_id) is None:
                note("no bot has written here yet; name one: @claude m continue")
        elif channel_id not in coordinator.engine.holds.busy:
            silent = NO_ROOM if _is_room(channel_id) else NO_CONVERSATION
            note(conversations.stopped(channel_id) or silent)

    coordinator.engine.observers.append(on_ended)
    server.subscribe(on_message)


def last_bot_message(server: DiscordStandIn, channel_id: int) -> str | None:
    """The id of the newest message of a bot, None without one."""
    bots = {app.user.id for app in server.world.apps.values()}
    said = (message for message in reversed(server.messages(channel_id)) if int(message["author"]["id"]) in bots)
    return next((str(message["id"]) for message in said), None)


async def one_room(
    topic: str, terminal: Terminal, server: DiscordStandIn, runtime: Runtime
) -> ConversationReport | None:
    """Open a short room and wait for its end, and for the card that closes it; None if it was not opened."""
    world, ended = server.world, dict[int, ConversationReport]()

    def on_ended(event: Event) -> None:
        if isinstance(event, ConversationEnded):
            ended[event.report.channel_id] = event.report

    _coordinator(runtime).engine.observers.append(on_ended)
    thread_id = await open_room(topic, world, terminal, runtime, short=True)
    if thread_id is None:
        return None
    report = await server.wait_for(lambda: ended.get(thread_id), MAX_ROOM_SECONDS)
    with suppress(TimeoutError):  # the debate itself was shown
        await server.wait_for(lambda: world.channel(thread_id).archived, CARD_SECONDS)
    return report


async def open_room(
    topic: str, world: World, terminal: Terminal, runtime: Runtime, *, short: bool = False
) -> int | None:
    """Open the room as the person, and go there; None if the terminal says why there is none."""
    personas = [entry.key for entry in runtime.services.roster.personas if entry.why_not is None]
    before = newest_thread(world)
    # At most four: the program's own debaters, then other personas, then bots.
    known = [name for name in DEBATERS if name in personas]
    others = [name for name in personas if name not in known]
    members = [*known, *others, *runtime.services.settings.agents][:SEATS]
    values: dict[str, str | int] = {"topic": topic, "personas": ", ".join(members)}
    await terminal.use(TypedCommand("room create", {**values, "turns": SHORT_TURNS} if short else values))
    thread_id = newest_thread(world)
    if thread_id is None or thread_id == before:
        return None
    terminal.go_to(thread_id)
    return thread_id


def newest_thread(world: World) -> int | None:
    """The thread that was made last; None for none."""
    return max((channel.id for channel in world.channels() if channel.is_thread), default=None)


def _coordinator(runtime: Runtime) -> Coordinator:
    assert runtime.coordinator is not None
    return runtime.coordinator
