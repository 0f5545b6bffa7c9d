"""Agents among doubles, as the cogs' tests see them: people speak, the coordinator instructs, time passes."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import discord

from agent_cogs.base import BaseAgentCog, parse_messages_once
from agent_config import AGENTS, AgentSpec, load_settings
from agentic.agent.notices import Cancels, PersonNotices
from agentic.agent.options import load_options
from agentic.agent.roster import Roster
from agentic.agent.services import AgentBook, IgnoredPeople, Moderators, Record, Services, SharedModels
from agentic.chat.attachments import AttachmentReader
from agentic.chat.directory import Directory
from agentic.chat.service import ServedChannels, ServiceRegistry
from agentic.chat.transcript import Transcripts
from agentic.llm.types import Drawing, Message, Picture, Prompt, Reply, Usage
from agentic.process.redaction import Redactor
from agentic.record.memories import MemoryReader
from agentic.services.discord.service import DiscordService
from agentic.state.budgets import Caps
from agentic.state.leases import ConditionalLease
from agentic.state.record_stream import TurnWords
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import Entry as RecordEntry
from agentic.wire.messages import HistoryEntry, Instruction, MentionNotice, Result, TurnNotice
from tests.support.doubles import (
    GUILD,
    PNG,
    Client,
    Clock,
    MemoryBus,
    MemoryTold,
    Pictures,
    SceneState,
    Snowflakes,
    TextChannel,
    Thread,
    lone_silence,
    message,
    settle,
    user,
)

LOUNGE, MEMES, DEBATE, ELSEWHERE, THREAD = 100, 200, 300, 400, 101
BOTS_ROLE = 900_000_000_000_000_000
OWN_ROLE = 800_000_000_000_000_000
SETTINGS = {
    "CHANNEL_THEME_MAP": f"{LOUNGE}:casual,{MEMES}:memes,{DEBATE}:debate",
    "GUILD_IDS": str(GUILD),
    "BOTS_ROLE_ID": str(BOTS_ROLE),
    "AGENT_COOLDOWN_SECONDS": "0",
    "TIMEZONE": "UTC",
}
CALL = Usage(model="scripted/one", calls=1, input_tokens=100, output_tokens=10, text_cost_usd=0.01)
PAINTING = Usage(model="scripted/brush", calls=1, pictures=1, picture_cost_usd=0.05)

Answer = Mapping[str, Any] | str | Reply | Exception | Callable[[], Awaitable[object]]


class Model:
    """Of a model what a cog asks for besides completions."""

    def __init__(self, can_draw: bool, name: str = "scripted/one", *, free: bool = False) -> None:
        self.can_draw, self.name, self.free = can_draw, name, free


class NoResets:
    """Everything is context."""

    async def since(self, agent: str, channel_id: int) -> int:
        return 0


class NoWebhooks:
    """Shows no tool calls."""

    async def send(self, *_: Any) -> None:
        return None


class ScriptedCog(BaseAgentCog):
    """Gives the answers of its list, then "Hello." for ever; an answer that is a wait comes before a "Hello."."""

    provider = "scripted"
    answers: list[Answer]
    asked: list[tuple[Prompt, Sequence[Message]]]
    drawn: list[str]
    brush: Exception | Callable[[], Awaitable[Any]] | None = None

    async def _call_ai(self, prompt: Prompt | str, history: Sequence[Message] = ()) -> Reply:
        self.asked.append((Prompt.of(prompt), history))
        answer: Any = self.answers.pop(0) if self.answers else {"text": "Hello."}
        if callable(answer):
            await answer()
            answer = {"text": "Hello."}
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Reply):
            return answer
        return Reply(text=answer if isinstance(answer, str) else json.dumps(answer), usage=CALL)

    async def _generate_image(self, prompt: str) -> Drawing:
        self.drawn.append(prompt)
        if isinstance(self.brush, Exception):
            raise self.brush
        if self.brush is not None:
            await self.brush()
        return Drawing(picture=Picture(PNG, "image/png"), usage=PAINTING)


class Watcher:
    """Keeps what turns report."""

    def __init__(self) -> None:
        self.began_turns: list[TurnNotice] = []
        self.ended_turns: list[tuple[TurnRecord, TurnWords]] = []

    def began(self, notice: TurnNotice) -> None:
        self.began_turns.append(notice)

    def ended(self, record: TurnRecord, words: TurnWords) -> None:
        self.ended_turns.append((record, words))


class KeptNotes(list[RecordEntry]):
    """The notes for the record."""

    def note(self, entry: RecordEntry) -> None:
        self.append(entry)

    def log(self, agent: str, entry: RecordEntry) -> None:
        self.append(entry)


class Gateway:
    """Of py-cord's connection state what takes new messages. `parsed` has those that it made an object of."""

    def __init__(self) -> None:
        self.parsed: list[discord.Message] = []
        self.parsers: dict[str, Callable[[Any], None]] = {"MESSAGE_CREATE": self._parse}
        self.dispatch: Callable[..., None] = lambda *_: None

    def _parse(self, data: Mapping[str, Any]) -> None:
        self.parsed.append(data["made"])
        self.dispatch("message", data["made"])


class Scene:
    """`names` are the agents; `env` is put over SETTINGS. The first agent is the one that most methods mean."""

    def __init__(
        self,
        *names: str,
        env: Mapping[str, str] | None = None,
        table: Mapping[str, AgentSpec] = AGENTS,
        cog: type[BaseAgentCog] = ScriptedCog,
        can_draw: bool = True,
        free: bool = False,
        state: SceneState | None = None,
        caps: Caps | None = None,
    ) -> None:
        self.clock = Clock()
        self.ids = Snowflakes(self.clock)
        self.settings = load_settings({**SETTINGS, **(env or {})}, env_file=None, agents=table)
        self.bus, self.pictures = MemoryBus(), Pictures()
        self.state = state or SceneState(self.clock, caps=caps)
        self.state.bus = self.bus
        self.directory = Directory({name: agent.display_name for name, agent in self.settings.agents.items()})
        self.transcripts = Transcripts(self.directory)
        self.acts = True
        self.services = self._services()
        self.clients: dict[str, Client] = {}
        self.cogs: dict[str, Any] = {}
        self.gateways: dict[str, Gateway] = {}
        for number, name in enumerate(names or ("claude",)):
            self._add(name, 21 + number, cog, Model(can_draw, free=free))
        self.cog: Any = next(iter(self.cogs.values()))
        self.client = next(iter(self.clients.values()))

    def _services(self) -> Services:
        names = {name: agent.display_name for name, agent in self.settings.agents.items()}
        self.silence = lone_silence(self.clock)
        self.watcher, self.record = Watcher(), KeptNotes()
        fetcher: Any = self.pictures
        state: Any = self.state
        bus: Any = self.bus
        none: Any = None
        state.posts.notices, state.context.resets = MemoryTold(), NoResets()
        self.discord = DiscordService()
        self.discord.share(self.transcripts, Redactor())
        no_webhooks: Any = NoWebhooks()
        self.discord.webhooks = no_webhooks
        roster = Roster(self.settings, self.directory, state.coordination.presence)
        options = load_options(self.settings, names, notices=state.posts.notices)
        agents = AgentBook(
            names=names,
            roster=roster,
            options=options,
            live_options=none,
            ignored=IgnoredPeople(self.settings, self.silence),
            moderators=Moderators(self.settings, options),
            person_notices=PersonNotices(bus, self.directory, roster.names),
            cancels=Cancels(bus),
        )
        return Services(
            settings=self.settings,
            clock=self.clock,
            rng=random.Random(1),
            state=state,
            bus=bus,
            silence=self.silence,
            chats=ServiceRegistry(
                [self.discord],
                scope=ServedChannels(self.settings.channels, frozenset(self.settings.guild_ids)),
                directory=self.directory,
                transcripts=self.transcripts,
                attachments=AttachmentReader(fetcher),
                redact=Redactor(),
            ),
            agents=agents,
            record=Record(
                notes=self.record,
                memory=MemoryReader(),
                watcher=self.watcher,
                forgetting=none,
                settings=self.settings,
                clock=self.clock,
                state=state,
                transcripts=self.transcripts,
                agents=agents,
            ),
            models=SharedModels(),
        )

    def _add(self, name: str, user_id: int, cog: type[BaseAgentCog], made_model: Model) -> None:
        agent = self.settings.agents[name]
        client: Any = Client(user(user_id, agent.display_name, bot=True), role=OWN_ROLE + user_id)
        for channel_id, title in ((LOUNGE, "lounge"), (MEMES, "memes"), (DEBATE, "debate"), (ELSEWHERE, "other")):
            client.channels[channel_id] = TextChannel(channel_id, client.guild, title, self.ids)
        client.channels[THREAD] = Thread(THREAD, client.guild, "thread", self.ids, LOUNGE)
        model: Any = made_model
        guild_models: Any = {
            server: Model(there.image_model is not None, there.models[0].name, free=there.models[0].is_free)
            for server, there in agent.elsewhere.items()
        }
        made: Any = cog(client, agent, self.services, model, guild_models, lease=ConditionalLease(lambda: self.acts))
        made.answers, made.asked, made.drawn = [], [], []
        self.clients[name], self.cogs[name] = client, made
        self.gateways[name] = client._connection = Gateway()
        parse_messages_once(made)

    async def start(self) -> Scene:
        for cog in self.cogs.values():
            await cog.on_ready()
        return self

    async def aclose(self) -> None:
        for cog in self.cogs.values():
            await cog.aclose()
        await self.discord.fetcher.aclose()

    # -- who is there -------------------------------------------------------------------------------------------------

    @property
    def me(self) -> discord.User:
        return self.client.user

    def channel(self, channel_id: int = LOUNGE) -> Any:
        return self.client.channels[channel_id]

    def answers(self, *answers: Answer) -> None:
        self.cog.answers[:] = answers

    # -- what comes in ------------------------------------------------------------------------------------------------

    async def hear(self, text: str, *, channel: int = LOUNGE, message_id: int | None = None, **more: Any) -> int:
        """Somebody writes (Alice, unless `author` says otherwise), and every bot hears of it; the message's id."""
        message_id = message_id or self.ids()
        for name, cog in self.cogs.items():
            self.deliver(name, message(self.clients[name].channels[channel], message_id, text, **more))
            await cog._hearing.finish()
        return message_id

    def deliver(self, name: str, made: discord.Message) -> None:
        """Discord sends a message to one bot, which has not handled it yet."""
        data = {"id": str(made.id), "channel_id": str(made.channel.id), "made": made}
        self.gateways[name].parsers["MESSAGE_CREATE"](data)

    async def ask(self, text: str = "what do you think?", **more: Any) -> int:
        """A person mentions the first agent, and everything that follows happens."""
        message_id = await self.hear(f"<@{self.me.id}> {text}", mentions=[self.me], **more)
        await settle()
        return message_id

    async def edit(self, message_id: int, text: str, *, channel: int = LOUNGE, **more: Any) -> None:
        """Who wrote a message changes it; whom it mentions then is said by its words."""
        mentions = [self.me] if f"<@{self.me.id}>" in text else []
        data: Any = {"id": str(message_id), "channel_id": str(channel), "content": text}
        for name, cog in self.cogs.items():
            new = message(self.clients[name].channels[channel], message_id, text, mentions=mentions, **more)
            await cog.on_raw_message_edit(discord.RawMessageUpdateEvent(data, new))

    async def instruct(self, instruction_id: str = "i1", *, channel: int = LOUNGE, **fields: Any) -> Result | None:
        """The coordinator gives a turn; the newest result with that id, if there is one."""
        theme = self.settings.channels.get(channel, "casual")
        history = tuple(HistoryEntry(**entry) for entry in fields.pop("conversation_history", ()))
        made = Instruction(
            instruction_id=instruction_id,
            channel_id=channel,
            **{"channel_theme": theme, "conversation_history": history, **fields},
        )
        return await self.say(made.to_wire(), instruction_id)

    async def say(self, raw: str, instruction_id: str = "i1") -> Result | None:
        """The same with the wire's own words."""
        await self.cog.host.on_instruction(raw)
        await settle()
        results = [result for result in self.results if result.instruction_id == instruction_id]
        return results[-1] if results else None

    # -- what comes out -----------------------------------------------------------------------------------------------

    @property
    def results(self) -> list[Result]:
        return [sent for _, sent in self.bus.published if isinstance(sent, Result)]

    @property
    def notices(self) -> list[MentionNotice]:
        return [sent for _, sent in self.bus.published if isinstance(sent, MentionNotice)]

    def texts(self, channel: int = LOUNGE) -> list[str | None]:
        """What the first agent posted in the channel."""
        return [sent.text for sent in self.channel(channel).sent]

    @property
    def prompt(self) -> Prompt:
        """What the first agent's model was asked last."""
        prompt: Prompt = self.cog.asked[-1][0]
        return prompt

    @property
    def shown(self) -> list[str]:
        """The messages of the transcript that its model was shown last; only a mark at the margin begins one."""
        return [entry for block in self.cog.asked[-1][1] for entry in re.split(r"\n(?=\[msg:)", block.text)]

    def spent(self, name: str = "claude") -> dict[str, float]:
        """The agent's book of the day."""
        return self.state.spent(name)
