"""The commands of a bot on a Redis inside the process, without Discord: what a person uses, and what they read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agent_cogs.slash import STYLE
from agent_config import load_settings
from agentic.actions.base import FORM, MENU, ActionContext, ActionRequest, File, Form, Menu, Outcome
from agentic.actions.base import Place as ActionPlace
from agentic.actions.registry import Actions
from agentic.actions.values import extra_of
from agentic.agent.forgetting import Forgetting
from agentic.agent.options import OptionBook, base_layer
from agentic.agent.privacy import OwnMemory, Privacy
from agentic.agent.roster import Roster
from agentic.agent.services import IgnoredPeople, Moderators
from agentic.chat.directory import Directory
from agentic.chat.service import Person, ServedChannels
from agentic.chat.transcript import Transcripts
from agentic.process.redaction import Redactor
from agentic.record.notes import ChannelReaders, Consents
from agentic.rooms.opening import RoomOpener
from agentic.rooms.room_bot import ThreadNow
from agentic.runtime.services import caps_of
from agentic.state.leases import ALWAYS_HELD
from agentic.state.live_options import LiveOptions
from agentic.state.rooms import WRITE_ROOM, Room, RoomMember, room_args, room_keys
from agentic.state.shared_state import SharedState
from agentic.state.silence import ChannelRef, Silence
from agentic.wire import keys
from agentic.wire.bus import Bus, CoordinatorCommands
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import ActionNote
from agentic.wire.messages import Command, CommandOutcome, read
from tests.support.redis_server import PATIENT, empty_redis, until
from tests.support.remembered import Remembered

SECRET = "a-secret-of-the-settings"
NOW = 1_800_000_000.0
GUILD, LOUNGE, DEBATE, ELSEWHERE, THREAD, DIRECT = 1, 10, 11, 12, 13, 14
ANN, BOB = 100, 101
NAMES = {"claude": "Claude", "grok": "Grok"}
MANAGER = Person(ANN, manages_messages=True, manages_guild=True, name="Ann")
MEMBER = Person(BOB)


def a_room(thread_id: int = THREAD, topic: str = "Is P equal to NP?", **more: Any) -> Room:
    """A room of Claude and Grok, opened by Ann in the lounge."""
    members = tuple(RoomMember(name=name, shown=shown) for name, shown in NAMES.items())
    fields = {"members": members, "guild_id": GUILD, "opened_by": ANN, "opened_at": NOW, "changed_at": NOW}
    return Room(
        **{"thread_id": thread_id, "channel_id": LOUNGE, "conversation_id": "c", "topic": topic, **fields, **more}
    )


async def write_room(link: RedisConnection, room: Room) -> None:
    """Keep a room as the coordinator does."""
    await link.script(f"{WRITE_ROOM} write_room(1, 1) return 1", room_keys(room), room_args(room))


class Channel:
    """The threads of a server, which a bot makes for rooms. `problem` and `webhook_problem` say why none can be made
    there."""

    def __init__(self) -> None:
        self.messages: dict[int, str] = {}
        self.names: dict[int, tuple[str, int]] = {}
        self.problem: str | None = None
        self.webhook_problem: str | None = None
        self.fault: Exception | None = None
        self.thread: ThreadNow | None = None  # as it is in Discord

    async def read_thread(self, channel_id: int, thread_id: int) -> ThreadNow | None:
        return self.thread

    def room_problem(self, _: int, *, webhooks: bool) -> str | None:
        return self.problem or (self.webhook_problem if webhooks else None)

    async def post_opening(self, channel_id: int, text: str, request: int, *, again: bool) -> int:
        if self.fault is not None:
            raise self.fault
        message_id = 10**15 + len(self.messages)
        self.messages[message_id] = text
        return message_id

    async def start_thread(self, channel_id: int, message_id: int, name: str, minutes: int) -> None:
        self.names[message_id] = (name, minutes)

    async def edit_opening(self, channel_id: int, message_id: int, text: str) -> None:
        self.messages[message_id] = text


@dataclass(frozen=True)
class Reply:
    """What a person sees besides a plain text."""

    text: str
    public: bool = False
    file: tuple[str, str] | None = None


def shown(outcome: Outcome) -> Any:
    """What Discord shows: a text, a form, a menu, or a Reply with more."""
    reply, text = outcome.reply, STYLE.text_of(outcome)
    if isinstance(reply, Form | Menu):
        return reply
    if isinstance(reply, File):
        return Reply(text, file=(reply.name, reply.text))
    return Reply(text, public=True) if outcome.is_public else text


class KnownPlaces(ActionPlace):
    """What the bot knows of channels: `guilds`, the `parents` of threads, and the `private` ones that few read."""

    def __init__(self, opener: RoomOpener) -> None:
        self.guilds, self.parents, self.private = {LOUNGE: GUILD, DEBATE: GUILD}, dict[int, int](), set[int]()
        self.application_owners, self.asked_discord = set[int](), 0
        self._opener = opener

    def guild_of(self, channel_id: int) -> int | None:
        return self.guilds.get(channel_id)

    def parent(self, channel_id: int) -> int | None:
        return self.parents.get(channel_id)

    def may_see(self, here: int) -> Callable[[int], bool]:
        return lambda channel: channel == here or channel not in self.private

    async def owners(self) -> Collection[int]:
        self.asked_discord += 1
        return self.application_owners

    @property
    def opener(self) -> RoomOpener:
        return self._opener


KEYS = {"ANTHROPIC_API_KEY": "a-key", "XAI_API_KEY": "a-key"}


class Place:
    """The commands with their services; the bus runs. `env` are settings."""

    def __init__(self, link: RedisConnection, personas: Path | None = None, **env: str) -> None:
        self.now, self.notes = NOW, list[ActionNote]()
        self.link, self.bus = link, Bus(link)
        channels = {"CHANNEL_THEME_MAP": f"{LOUNGE}:casual,{DEBATE}:debate", "TIMEZONE": "UTC"}
        tokens = {f"BOT_TOKEN_{name.upper()}": f"a-token-{name}" for name in NAMES}
        nowhere = {"DATA_DIR": "/nonexistent"}
        settings = load_settings({**channels, **tokens, **KEYS, **nowhere, **env}, None)
        self.state = SharedState(link, self.clock, holder="here", caps=caps_of(settings))
        self.directory = Directory(NAMES)
        for number, name in enumerate(NAMES):
            self.directory.learn(name, 500 + number)
        self.silence = Silence(link, self.bus, self.clock)
        self.live = LiveOptions(link, self.bus)
        self.transcripts = Transcripts(self.directory)
        self.orders = self.bus.orders = CoordinatorCommands(self.bus, patience=0.01)
        roster = Roster(settings, self.directory, self.state.coordination.presence, personas)
        done: Any = SimpleNamespace(last=0, keep=lambda _, **__: None)
        self.memory, self.channel_readers, record = (
            Remembered(),
            ChannelReaders(),
            SimpleNamespace(note=self.notes.append),
        )
        record.log = lambda _, entry: self.notes.append(entry)
        options = OptionBook(roster.names, base_layer(settings), live=self.live)
        consents = Consents(record, self.state.posts.proactive, self.clock)
        forgetting = Forgetting(self.state, NAMES, done)
        own = OwnMemory(self.memory, record, consents, self.clock, settings, forgetting)  # type: ignore[arg-type]

        async def online() -> Collection[str]:
            return await self.state.coordination.presence.online(NAMES)

        self.services: Any = SimpleNamespace(
            settings=settings.with_(personas_dir=personas or settings.personas_dir),
            clock=self.clock,
            state=self.state,
            bus=self.bus,
            silence=self.silence,
            chats=SimpleNamespace(
                scope=ServedChannels(settings.channels, frozenset({GUILD}), "casual" if settings.allow_dms else None),
                directory=self.directory,
                transcripts=self.transcripts,
                redact=Redactor([SECRET]),
            ),
            agents=SimpleNamespace(
                names=NAMES,
                roster=roster,
                personas=personas,
                options=options,
                live_options=self.live,
                tools=None,
                ignored=IgnoredPeople(settings, self.silence),
                moderators=Moderators(settings, options),
            ),
            record=record,
        )
        record.memory, record.own_memory, record.forgetting = self.memory, own, forgetting
        record.privacy = Privacy(own, self.channel_readers, settings, NAMES, online=online, fronts=dict)
        self.channel = Channel()
        opener = RoomOpener("grok", self.services, self.channel, lease=ALWAYS_HELD)
        self.known = KnownPlaces(opener)
        self.guilds, self.parents, self.private = self.known.guilds, self.known.parents, self.known.private
        self.actions = Actions(ActionContext(self.services, self.known))
        self._ids = count(1)

    def coordinator(self, *outcomes: str) -> list[Command]:
        """A coordinator that carries out each order with the next outcome, the last one again; the orders it got."""
        got: list[Command] = []

        async def carry_out(raw: str) -> None:
            command = read(Command, raw)
            assert command is not None
            got.append(command)
            outcome = outcomes[min(len(got), len(outcomes)) - 1]
            report = CommandOutcome(command_id=command.command_id or "", outcome=outcome, channel_id=command.channel_id)
            await self.bus.publish(keys.COORDINATOR_OUTCOMES, report)

        self.orders._patience = 5.0
        self.bus.subscribe(keys.COORDINATOR_COMMANDS, carry_out)
        return got

    async def has(self, *rooms: Room) -> None:
        """The rooms are in Redis, as the coordinator keeps them."""
        for room in rooms:
            await write_room(self.link, room)

    def clock(self) -> float:
        return self.now

    async def use(
        self,
        command: str,
        who: Person = MANAGER,
        /,
        *,
        channel: int = LOUNGE,
        parent: int | None = None,
        chosen: tuple[str, ...] = (),
        **values: Any,
    ) -> Any:
        named = {name.rstrip("_").replace("_", "-"): value for name, value in values.items()}
        where = ChannelRef(channel, parent, named.pop("guild", GUILD))
        action = self.actions.on("slash").get(command)
        if action is not None and not command.startswith((FORM, MENU)):  # Discord sends what the command has, alone
            fields = action.values.model_fields.items()
            options = {field.alias or name for name, field in fields if extra_of(field)["only"] in (None, "slash")}
            named = {name: value for name, value in named.items() if name in options}
        number = next(self._ids)
        request = ActionRequest(
            id=number, name=command, who=who, place=where, values=named, chosen=chosen, source=f"c{number}"
        )
        return shown(await self.actions.perform(request))


@asynccontextmanager
async def a_place(personas: Path | None = None, **env: str) -> AsyncIterator[Place]:
    async with RedisConnection(empty_redis(), command_timeout=PATIENT) as link:
        place = Place(link, personas, **env)
        for memory in (place.silence, place.orders, place.live):
            memory.start()
        running = [asyncio.create_task(work) for work in (place.bus.run(), place.silence.run())]
        try:
            await asyncio.wait_for(place.bus.ready.wait(), 10)
            await until(lambda: not place.silence.is_out_of_sync)
            yield place
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
