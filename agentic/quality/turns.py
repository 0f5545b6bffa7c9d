"""Hold the conversations that the bench measures, as local mode does: the whole program with a Discord stand-in.

`hold` lets the coordinator hold conversations of the four bots, one subject after another, and a room of personas.
`answer_again` gives another side the same turns: the same bot is asked with the same messages before it, whatever this
side has answered so far.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from agent_config import Settings
from agent_coordinator.events import ConversationEnded, Event
from agentic.llm.embeddings import Embedder, cosine
from agentic.llm.errors import ModelError
from agentic.local.discord import messages
from agentic.local.discord.channels import add_channel
from agentic.local.discord.server import DiscordStandIn, routed_to
from agentic.local.discord.world import DEFAULT, REPLY, Channel
from agentic.local.mode import choose_debaters
from agentic.local.settings import LOCAL, PERSON, Pace, local_coordinator, local_settings, local_world
from agentic.personas.files import PERSONA_FILES
from agentic.quality.measure import Fault, Post, faults_of
from agentic.record.database import connect
from agentic.record.queries.turns import calls_of_turn
from agentic.runtime.bot import cancel
from agentic.runtime.process import Runtime
from agentic.runtime.runtime import running
from agentic.runtime.services import ProcessConfig, WebAccess, embedder_of
from agentic.state.turn_records import TurnRecord
from agentic.wire.bus import AgentAbsent, AgentTimedOut
from agentic.wire.connection import StateUnavailable
from agentic.wire.messages import Instruction

TOPICS = (
    "Is a night train better than a short flight?",
    "Should cities ban cars from their centers?",
    "Is it worth learning to cook, or is eating out fine?",
    "Do we need school homework?",
    "What makes a good board game?",
    "Should we bring back extinct animals?",
    "Is working from home better than the office?",
    "Are paper books better than e-readers?",
)
ROOM_TOPIC = "Should museums return objects to the countries they came from?"
THEME = "debate"
ROUNDS = 3  # of a conversation, about twelve turns
PACE = Pace(thinking=(0.0, 0.0), between_turns=(0.0, 0.0), min_rounds=ROUNDS, max_rounds=ROUNDS)
POLL_SECONDS = 0.2
SEED = 1

_MENTION = re.compile(r"<@[!&]?(\d+)>")


class BenchFailed(Exception):
    """The bench can't go on. The text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is measured. `settings` have the model, `options` are channel options everywhere. `persona` is a folder
    that replaces the one of the bot with its name, or a folder of such folders."""

    title: str
    settings: Settings
    options: dict[str, object] = field(default_factory=dict)
    persona: Path | None = None

    @property
    def agents(self) -> Sequence[str]:
        """The bots whose turns differ by the persona, or all."""
        is_one = self.persona is not None and any((self.persona / name).is_file() for name in PERSONA_FILES)
        return (self.persona.name,) if is_one and self.persona else tuple(self.settings.agents)

    def settings_in(self, folder: Path) -> Settings:
        """Return the settings with data in `folder`, where the persona and the options are copied too."""
        settings = self.settings.with_(data_dir=folder)
        if self.persona is not None:
            personas = folder / "personas"
            if len(self.agents) == 1:
                shutil.copytree(settings.personas_dir, personas)
                shutil.rmtree(personas / self.persona.name, ignore_errors=True)
                shutil.copytree(self.persona, personas / self.persona.name)
            else:
                shutil.copytree(self.persona, personas)
            settings = settings.with_(personas_dir=personas)
        if self.options:
            config = folder / "config"
            shutil.copytree(settings.config_files_dir, config) if settings.config_files_dir.is_dir() else config.mkdir()
            shared = config / "shared.yaml"
            there = yaml.safe_load(shared.read_text(encoding="utf-8")) if shared.exists() else None
            shared.write_text(yaml.safe_dump({**(there or {}), **self.options}), encoding="utf-8")
            settings = settings.with_(config_files_dir=config)
        return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn of a bot. `earlier` are the messages before it, as (author, text); `raw` is the model's last answer."""

    record: TurnRecord
    speaker: str
    channel: str
    topic: str
    in_room: bool = False
    text: str = ""
    earlier: tuple[tuple[str, str], ...] = ()
    others: tuple[str, ...] = ()
    raw: str = ""
    faults: tuple[Fault, ...] = ()

    @property
    def is_good(self) -> bool:
        return bool(self.text) and not self.faults


Report = Callable[[Turn], None]


async def hold(side: Side, folder: Path, turns: int, room_turns: int, seconds: float, report: Report) -> list[Turn]:
    """Hold conversations for `turns` turns, `room_turns` of them in a room, within `seconds`. Raises BenchFailed."""
    async with _opened(side, folder, seconds, report) as scene:
        if turns > room_turns:
            await scene.converse(turns - room_turns)
        if room_turns and not scene.is_over:
            await scene.hold_room(room_turns)
        taken = [*scene.taken]
    return await _judged(side, scene.settings, taken)


async def answer_again(side: Side, folder: Path, plan: Sequence[Turn], seconds: float, report: Report) -> list[Turn]:
    """Give the turns of `plan` to this side's bots, as many as they take in `seconds`. Raises BenchFailed."""
    async with _opened(side, folder, seconds, report) as scene:
        for turn in plan:
            if scene.is_over:
                break
            await scene.answer_again(turn)
        taken = [*scene.taken]
    return await _judged(side, scene.settings, taken)


@asynccontextmanager
async def _opened(side: Side, folder: Path, seconds: float, report: Report) -> AsyncIterator[_Scene]:
    settings = side.settings_in(folder)
    world = local_world(settings)
    channels = [add_channel(world, world.guild, f"talk-{number}") for number in range(1, len(TOPICS) + 1)]
    settings = local_settings(settings, world, PACE).with_(
        console=False, agent_cooldown_seconds=0.0, channel_theme_map={channel.id: THEME for channel in channels}
    )
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(DiscordStandIn(world))
        stack.enter_context(routed_to(server))
        setup = ProcessConfig(
            settings=settings,
            agents=tuple(settings.agents),
            coordinator_config=local_coordinator(settings, PACE),
            use_default_redis=False,
            web=WebAccess(picture_origins=(server.api_base.split("/api")[0],)),
            rng=random.Random(SEED),
            resumes=False,
            holder=LOCAL,
        )
        runtime = await stack.enter_async_context(running(setup))
        runtime.stopping.on_signals()
        if not await runtime.wait_online():
            raise BenchFailed("no bot could start")
        yield _Scene(settings, server, runtime, channels, time.monotonic() + seconds, report)


class _Scene:
    """A running program, and the turns that its bots have taken."""

    def __init__(
        self,
        settings: Settings,
        server: DiscordStandIn,
        runtime: Runtime,
        channels: Sequence[Channel],
        end: float,
        report: Report,
    ) -> None:
        self.settings, self._server, self._runtime, self._report = settings, server, runtime, report
        self._world, self._channels, self._end = server.world, channels, end
        self._topics: dict[int, str] = {}  # by channel
        self._noted: set[str] = set()  # ids of turns
        self.taken: list[Turn] = []
        assert runtime.coordinator is not None
        self._coordinator = runtime.coordinator

    @property
    def is_over(self) -> bool:
        """Whether the time is used up."""
        return time.monotonic() > self._end

    @property
    def _names(self) -> dict[str, str]:
        return dict(self._runtime.services.agents.roster.names)

    async def converse(self, count: int) -> None:
        """Let the bots talk about one subject after another for `count` turns."""
        for number in range(count):  # a conversation has one turn or more
            channel, topic = self._channels[number % len(TOPICS)], TOPICS[number % len(TOPICS)]
            self._topics[channel.id] = topic
            before = len(self.taken)
            conversation = self._coordinator.start_conversation(channel.id, topic=topic)
            await self._until(conversation, count)
            if len(self.taken) >= count or self.is_over:
                return
            if len(self.taken) == before:
                raise BenchFailed("no bot took a turn; see the warnings above")

    async def hold_room(self, count: int) -> None:
        """Let personas debate in a room for `count` turns."""
        before, total = len(self.taken), len(self.taken) + count
        members = choose_debaters(self._runtime.services.agents)
        options: dict[str, str | int] = {"topic": ROOM_TOPIC, "personas": ", ".join(members), "turns": max(count, 2)}
        ended = asyncio.Event()

        def on_ended(event: Event) -> None:
            if isinstance(event, ConversationEnded) and event.state.room is not None:
                ended.set()

        self._coordinator.engine.observers.append(on_ended)
        used = await self._server.use_command(PERSON, self._channels[0].id, "room create", options)
        with suppress(TimeoutError):
            await self._server.wait_for(lambda: used.done or self._threads())
        thread = next(iter(self._threads()), None)
        if thread is None:
            said = used.answers[-1]["content"] if used.answers else "no answer"
            raise BenchFailed(f"the room wasn't opened: {said}")
        self._topics[thread.id] = ROOM_TOPIC
        await self._until(ended.wait(), total)
        if len(self.taken) == before and not self.is_over:
            raise BenchFailed("nobody took a turn in the room; see the warnings above")

    def _threads(self) -> list[Channel]:
        return [channel for channel in self._world.channels() if channel.is_thread]

    async def answer_again(self, turn: Turn) -> None:
        """Ask the turn's bot with the messages that were there before the turn."""
        channel = self._world.channel(turn.channel)
        self._topics[channel.id] = turn.topic
        keys = {shown: key for key, shown in self._names.items()}
        there = [message.content for message in channel.messages.values()]
        for author, text in turn.earlier[len(there) :]:
            said = await self._server.say(keys.get(author, PERSON), channel.id, text)
            transcript = self._runtime.services.record.transcripts.of(channel.id)
            await self._server.wait_for(lambda last=int(said["id"]), known=transcript: last in known)  # type: ignore[misc]
        record, seconds = turn.record, self._runtime.setup.coordinator_config
        assert seconds is not None
        instruction = Instruction(
            instruction_id=str(uuid.uuid4()),
            channel_id=channel.id,
            channel_theme=THEME,
            round_number=record.round_number or 1,
            conversation_id=record.conversation_id or "",
            is_conversation_starter=record.trigger == "starter",
            topic=turn.topic,
            guild_id=self._world.guild.id,
            deadline=time.time() + seconds.turn_seconds,
        )
        with suppress(AgentTimedOut, AgentAbsent):
            await self._runtime.services.bus.ask(record.agent, instruction)
        await self._note()
        for message in list(channel.messages.values())[len(turn.earlier) :]:
            messages.delete(self._world, channel, message.id)

    async def _until(self, work: object, total: int) -> None:
        """Run `work` to its end, or until `total` turns were taken."""
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        try:
            while not (task.done() or self.is_over) and len(self.taken) < total:
                await asyncio.wait([task], timeout=POLL_SECONDS)
                await self._note(total)
                if self._runtime.stop.is_set():
                    raise BenchFailed("stopped")
            if task.done():
                task.result()
                await self._note(total)
        finally:
            await cancel([task])

    async def _note(self, total: int | None = None) -> None:
        """Note the turns that have ended since."""
        records = self._runtime.services.state.turns.records
        try:
            found = [record for name in self._names for record in await records.last(name, count=100)]
        except StateUnavailable:  # a busy machine; the next look finds them
            return
        for record in sorted(found, key=lambda each: each.at):
            if record.kind == "instruction" and record.id not in self._noted and len(self.taken) != total:
                self._noted.add(record.id)
                self.taken.append(self._turn(record))
                self._report(self.taken[-1])

    def _turn(self, record: TurnRecord) -> Turn:
        channel = self._world.channel(record.channel_id)
        names = self._names
        posted = [message for message in channel.messages.values() if message.id in record.posted]
        first = min((message.id for message in posted), default=None)
        earlier = [
            (message.author.display_name, message.content)
            for message in channel.messages.values()
            if message.content and message.type in (DEFAULT, REPLY) and (first is None or message.id < first)
        ]
        speaker = names[record.agent]
        authors = dict.fromkeys(author for author, _ in earlier)
        known = dict.fromkeys([*authors, *(names[name] for name in self.settings.agents)])
        return Turn(
            record=record,
            speaker=speaker,
            channel=channel.name,
            topic=self._topics.get(channel.id, ""),
            in_room=channel.is_thread,
            text="\n".join(message.content for message in posted),
            earlier=tuple(earlier),
            others=tuple(name for name in known if name != speaker),
        )


# -- judging -----------------------------------------------------------------------------------------------------------


async def _judged(side: Side, settings: Settings, turns: Iterable[Turn]) -> list[Turn]:
    """Return the turns with their faults, by the words of their calls in the history."""
    embedder, judged = embedder_of(side.settings), list[Turn]()
    try:
        async with connect(settings.record_file) as db:
            for turn in turns:
                calls = [call.words for call in await calls_of_turn(db, turn.record.agent, turn.record.id)]
                words = [each for each in calls if each is not None]
                raw = words[-1].completion if words else ""
                faults: tuple[Fault, ...] = ()
                if turn.text:
                    instructions = f"{words[-1].system}\n{words[-1].text}" if words else ""
                    earlier = [text for _, text in turn.earlier]
                    post = Post(
                        speaker=turn.speaker,
                        text=turn.text,
                        topic=turn.topic,
                        earlier=earlier,
                        others=turn.others,
                        instructions=instructions,
                        meaning=await _meaning(embedder, turn.text, [turn.topic, *earlier[-1:]]),
                    )
                    faults = faults_of(post)
                judged.append(replace(turn, raw=raw, faults=faults))
    finally:
        if embedder is not None:
            await embedder.aclose()
    return judged


async def _meaning(embedder: Embedder | None, text: str, subject: Sequence[str]) -> float | None:
    """Return the cosine of the text and the nearer of its subjects. None without an embedding model, or if it fails."""
    if embedder is None:
        return None
    try:
        own, *others = (await embedder.embed([text, *filter(None, subject)])).vectors
    except ModelError:
        return None
    return max((cosine(own, other) for other in others), default=None)
