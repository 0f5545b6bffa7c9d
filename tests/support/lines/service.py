"""The chat of lines as a chat service: one connection for all accounts, and every room with all of them in it."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from agentic.actions.base import File
from agentic.chat.heard import HeardChannels, HeardMessage, HeardView
from agentic.chat.outlet import CannotPost, Outlet, Post, Posted, ServiceInfo, SinkWithoutSigns, ignore_post
from agentic.chat.service import AgentChannels, ChannelInfo, IncomingMessage
from agentic.chat.splitting import split_text
from agentic.context.commands import order_in
from agentic.context.entries import Addressees, Entry, Speaker, hidden_by_text
from agentic.ids import EPOCH_MS, FIRST_ELSEWHERE, LOW_BITS
from agentic.process.tasks import BackgroundTasks
from agentic.services.context import HostedService, ServiceContext
from agentic.services.handler import AccountHandler
from agentic.services.text_commands import TextCommands
from agentic.state.leases import AnyLease
from tests.support.lines.settings import LineSettings

LINES = ServiceInfo(
    key="lines",
    name="Lines",
    membership="an AI in a chat of lines",
    members="AIs in a chat of lines",
    heading="The room {}",
    markup="plain text",
)
THEME = "casual"
LONGEST = 1000  # characters of a line
ECHO_SECONDS = 10.0  # for the server to show a line of ours


def number_of(kind: str, name: str) -> int:
    """The number of a room or person: beyond all of Discord's."""
    digest = hashlib.sha256(f"{kind}\0{name}".encode()).digest()
    return FIRST_ELSEWHERE | int.from_bytes(digest[:8], "big") & (FIRST_ELSEWHERE - 1)


def message_id(at: int) -> int:
    return (at - EPOCH_MS) << LOW_BITS


class LineView(HeardView):
    """A room as one account reads it."""

    service = LINES

    def __init__(self, lines: LineService, agent: str, room: str) -> None:
        super().__init__(number_of("room", room), room, lines.context.services.chats.transcripts, is_group=True)
        self.own_name, self.own_ids = lines.names[agent], frozenset({number_of("person", lines.names[agent])})


class LineSink(SinkWithoutSigns):
    """A room as one agent writes into it. A line is claimed before it is sent: the server takes one twice."""

    may_attach = may_react = False

    def __init__(self, lines: LineService, agent: str, view: LineView, lease: AnyLease) -> None:
        self._lines, self._agent, self._view, self._lease = lines, agent, view, lease

    def refusal(self) -> str | None:
        return None if self._lines.is_connected else "unknown_channel"

    def set_channel_names(self, channel_names: Mapping[str, str]) -> None:
        """Nobody is mentioned by a line."""

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignore_post) -> Posted:
        services = self._lines.context.services
        below = [f"{source.title}: {source.url}" for source in post.sources]
        text = services.chats.redact("\n".join((post.text or "", *below)))
        sent: list[int] = []
        for number, part in enumerate(split_text(text, LONGEST)):
            if not self._lease.is_held:
                raise CannotPost("not_ours")
            if await services.state.posts.claims.first(self._agent, f"{turn_id}/{number}"):
                sent.append(await self._lines.send(self._agent, self._view, part, post.reply_to))
                noted(Posted(sent[0], message_ids=tuple(sent)))
        return Posted(sent[0] if sent else 0, message_ids=tuple(sent))

    async def acknowledge(self, message_id: int, emoji: str) -> bool:
        """Write the sign as a line, also in a stopped room."""
        await self._lines.send(self._agent, self._view, emoji, message_id)
        return True


class LineChannels(HeardChannels):
    """The rooms of one agent's account."""

    def __init__(self, lines: LineService, agent: str) -> None:
        super().__init__(lines.context.services.silence, lines.context.lease_of(agent))
        self._lines, self._agent = lines, agent

    def own_id(self, channel_id: int) -> int | None:
        return number_of("person", self._lines.names[self._agent])

    def known(self) -> Sequence[ChannelInfo]:
        return [ChannelInfo(number, room, THEME, group=True) for number, room in self._lines.rooms.items()]

    def view_of(self, channel_id: int) -> LineView | None:
        room = self._lines.rooms.get(channel_id)
        return LineView(self._lines, self._agent, room) if room is not None else None

    def make_outlet(self, channel_id: int, lease: AnyLease) -> Outlet | None:
        view = self.view_of(channel_id)
        return Outlet(view, LineSink(self._lines, self._agent, view, lease)) if view is not None else None


class LineCommands(TextCommands):
    """The commands of one agent, who answers those in which it is mentioned."""

    left_messages: ClassVar[str] = "The lines on the server."

    def __init__(self, agent: str, lines: LineService, channels: LineChannels) -> None:
        self._lines = lines
        super().__init__(agent, lines.context.services, channels)

    def agent_names(self) -> Iterable[str]:
        return self._lines.names.values()

    def name_of(self, person: int) -> str:
        return self._lines.people.get(person, "")

    def is_mine(self, heard: HeardMessage) -> bool:
        return self._channels.own_id(heard.facts.channel_id) in heard.facts.mentioned_users

    async def send_file(self, heard: HeardMessage, text: str, file: File) -> None:
        await self.post(heard, f"{text}\n{file.text}")


class LineService(HostedService):
    """`names`: agent → its name in the rooms. `people`: user id → name."""

    info = LINES

    def __init__(self) -> None:
        self.rooms: dict[int, str] = {}
        self.names: dict[str, str] = {}
        self.people: dict[int, str] = {}
        self._handlers: dict[str, AccountHandler] = {}
        self.is_connected = False
        self._echoes: dict[str, asyncio.Future[int]] = {}
        self._numbers = itertools.count()
        self._handling = BackgroundTasks()

    async def open(self, context: ServiceContext) -> None:
        self.context, settings = context, LineSettings.of(context.services.settings)
        self.names = settings.line_accounts
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", settings.line_port)
        greeting = json.loads(await self._reader.readline())
        self.rooms = {number_of("room", room): room for room in greeting["rooms"]}
        for agent, name in self.names.items():
            context.services.chats.directory.learn_also(agent, number_of("person", name))

    def listen(self) -> None:
        self.is_connected = True
        for agent in (agent for agent in self.context.accounts if agent in self.names):
            channels = LineChannels(self, agent)
            commands = LineCommands(agent, self, channels)
            self._handlers[agent] = AccountHandler(agent, self.context, channels, commands, THEME)
        self._task = self.context.start(self._listen(), "lines", essential=False)

    async def stop_listening(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._handling.cancel()
        await asyncio.gather(*(handler.aclose() for handler in self._handlers.values()))

    async def aclose(self) -> None:
        self._writer.close()

    def owns(self, channel_id: int) -> bool:
        return channel_id in self.rooms

    def channels_for(self, agent: str) -> AgentChannels | None:
        return LineChannels(self, agent) if agent in self.names else None

    def health(self) -> Mapping[str, bool]:
        return {agent: self.is_connected for agent in self.context.accounts if agent in self.names}

    def chat_names(self) -> Mapping[int, str]:
        return self.rooms

    async def send(self, agent: str, view: LineView, text: str, reply_to: int | None) -> int:
        """Send a line; return its message's number once the server has shown it."""
        key = f"{agent} {next(self._numbers)}"
        self._echoes[key] = echo = asyncio.get_running_loop().create_future()
        answered = (reply_to >> LOW_BITS) + EPOCH_MS if reply_to is not None else None
        line = {"room": view.name, "author": self.names[agent], "text": text, "reply_to": answered, "key": key}
        self._writer.write(json.dumps(line).encode() + b"\n")
        try:
            async with asyncio.timeout(ECHO_SECONDS):
                return await echo
        except TimeoutError as error:
            raise CannotPost("unknown_channel") from error
        finally:
            self._echoes.pop(key, None)

    async def _listen(self) -> None:
        try:
            async for raw in self._reader:
                await self._hear(json.loads(raw))
        finally:
            self.is_connected = False

    async def _hear(self, line: dict[str, Any]) -> None:
        services, channel_id, number = self.context.services, number_of("room", line["room"]), message_id(line["at"])
        transcript = LineView(self, next(iter(self.names)), line["room"]).transcript
        if line.get("deleted"):
            services.chats.transcripts.changed(channel_id, (number,))
            transcript.delete(number)
            for handler in self._handlers.values():
                await handler.on_delete(channel_id, (number,))
            return
        heard = self._read(line, channel_id, number)
        if line.get("edited"):
            services.chats.transcripts.changed(channel_id, (number,))
            transcript.revise(heard.entry)
            return
        transcript.add(heard.entry)
        if (echo := self._echoes.pop(line["key"], None)) is not None and not echo.done():
            echo.set_result(number)
        for agent, handler in self._handlers.items():
            if heard.facts.by_person:  # beside this: an answer waits for its echo, which is heard here
                self._handling.start(handler.on_message(heard), "lines: hear")
            elif heard.entry.speaker.agent != agent:
                self._handling.start(handler.on_agent_message(heard), "lines: hear")

    def _read(self, line: dict[str, Any], channel_id: int, number: int) -> HeardMessage:
        """The line as plain values. An agent is mentioned by its name after an @."""
        services, agents = self.context.services, {name: agent for agent, name in self.names.items()}
        author, agent = number_of("person", line["author"]), agents.get(line["author"])
        self.people[author] = line["author"]
        answered = message_id(line["reply_to"]) if line["reply_to"] else None
        replied = services.chats.transcripts.of(channel_id).get(answered or 0)
        mentions = frozenset(number_of("person", name) for name in agents if f"@{name}" in line["text"])
        bare = re.sub("|".join(f"@{re.escape(name)}" for name in agents), "", line["text"]).strip()
        facts = IncomingMessage(
            message_id=number,
            author_id=author,
            by_person=agent is None,
            guild_id=None,
            group=True,
            channel_id=channel_id,
            mentioned_users=mentions,
            replied_to=replied.speaker.id if replied is not None else None,
        )
        entry = Entry(
            id=number,
            speaker=Speaker(author, line["author"], "person" if agent is None else "agent", agent),
            text=line["text"],
            created_at=line["at"] / 1000,
            reply_to=answered,
            addressees=Addressees(mentions, facts.replied_to),
            hidden=hidden_by_text(bare),
            order=order_in(bare) if agent is None else None,
        )
        return HeardMessage(facts=facts, entry=entry)
