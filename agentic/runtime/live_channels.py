"""The channels of the console's Live page: the transcripts of this process, named by what its bots see. Chats of Signal
are not on that page; other pages have their names, and those of the people in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentic.agent.agent import ChannelInfo
from agentic.agent.services import AgentServices
from agentic.chat.directory import clean_name
from agentic.chat.outlet import unfinished, without_mark
from agentic.console.parts import Channel, File, Message, OnChange, Picture, Reaction
from agentic.context.entries import Entry
from agentic.runtime.bot import BotSupervisor

PICTURES_AT_ONCE = 2  # turns fetch pictures too, and come first
LISTED_SECONDS = 2.0  # a list of channels or people is used again for so long


class TranscriptChannels:
    """Implements agentic.console's LiveChannels. `bots` gives those of this process."""

    def __init__(self, services: AgentServices, bots: Callable[[], Iterable[BotSupervisor]]) -> None:
        self._services, self._bots = services, bots
        self._fetching = asyncio.Semaphore(PICTURES_AT_ONCE)
        self._listed: tuple[float, Sequence[Channel]] = (float("-inf"), ())
        self._names: tuple[float, Mapping[int, str]] = (float("-inf"), {})
        self._people: tuple[float, Mapping[int, str]] = (float("-inf"), {})

    def names(self) -> Mapping[int, str]:
        now = asyncio.get_running_loop().time()
        if now - self._names[0] > LISTED_SECONDS:
            self._names = (now, {**self._chats(), **{channel.id: channel.name for channel in self.channels()}})
        return self._names[1]

    def people(self) -> Mapping[int, str]:
        now = asyncio.get_running_loop().time()
        if now - self._people[0] > LISTED_SECONDS:
            transcripts = [self._services.transcripts.known(channel_id) for channel_id in self.names()]
            speakers = (speaker for transcript in transcripts if transcript for speaker in transcript.speakers())
            self._people = (now, {speaker.id: speaker.name for speaker in speakers if speaker.kind == "person"})
        return self._people[1]

    def channels(self) -> Sequence[Channel]:
        now = asyncio.get_running_loop().time()
        if now - self._listed[0] > LISTED_SECONDS:
            self._listed = (now, self._list())
        return [self._with_newest(channel) for channel in self._listed[1]]

    def messages(self, channel_id: int, count: int, before: int | None = None) -> Sequence[Message] | None:
        transcript = self._services.transcripts.known(channel_id)
        if not self.is_shown(channel_id):
            return None
        entries = transcript.entries() if transcript is not None else []
        older = [entry for entry in entries if before is None or entry.id < before]
        return [_message(channel_id, entry) for entry in older[-count:]]

    def message(self, channel_id: int, message_id: int) -> Message | None:
        transcript = self._services.transcripts.known(channel_id)
        entry = transcript.get(message_id) if transcript is not None else None
        return _message(channel_id, entry) if entry is not None and self.is_shown(channel_id) else None

    def is_shown(self, channel_id: int) -> bool:
        return any(bot.cog.channels.info(channel_id) is not None for bot in self._bots())

    def subscribe(self, on_change: OnChange) -> Callable[[], None]:
        return self._services.transcripts.watch(on_change)

    async def picture(self, message_id: int, file_id: int) -> Picture | None:
        for channel in self.channels():
            transcript = self._services.transcripts.known(channel.id)
            entry = transcript.get(message_id) if transcript is not None else None
            for attachment in entry.attachments if entry is not None else ():
                if attachment.id == file_id and attachment.is_picture:
                    async with self._fetching:
                        picture = await self._services.attachments.original(attachment)
                    return None if picture is None else Picture(picture.data, picture.media_type)
        return None

    def _chats(self) -> Mapping[int, str]:
        """The chats of Signal, by name. One with a person has the person's name."""
        accounts = self._services.signal.values()
        return {chat.channel_id: clean_name(chat.name) for account in accounts for chat in account.chats.all()}

    def _list(self) -> Sequence[Channel]:
        found: dict[int, Channel] = {}
        for bot in self._bots():
            for info in bot.cog.channels.known():
                if info.channel_id not in found:
                    found[info.channel_id] = _channel(bot, info)
        order = {channel_id: place for place, channel_id in enumerate(found)}
        return sorted(found.values(), key=lambda channel: _place(channel, order))

    def _with_newest(self, channel: Channel) -> Channel:
        transcript = self._services.transcripts.known(channel.id)
        return channel if transcript is None else channel.with_newest(transcript.newest)


def _place(channel: Channel, order: Mapping[int, int]) -> tuple[int, int]:
    """Threads stand behind their channel."""
    own, parents = order[channel.id], order.get(channel.parent_id or 0)
    return (own, -1) if parents is None else (parents, own)


def _channel(bot: BotSupervisor, info: ChannelInfo) -> Channel:
    guild = bot.client.get_guild(info.guild_id) if info.guild_id is not None else None
    server = clean_name(guild.name) if guild is not None else ""
    return Channel(info.channel_id, clean_name(info.name), info.theme, server, info.parent_id)


def _message(channel_id: int, entry: Entry) -> Message:
    growing = entry.speaker.kind == "agent" and unfinished(entry.text)
    return Message(
        id=entry.id,
        channel_id=channel_id,
        author_id=entry.speaker.id,
        author=entry.speaker.name,
        kind=entry.speaker.kind,
        agent=entry.speaker.agent,
        at=entry.created_at,
        text=without_mark(entry.text) if growing else "\n".join(filter(None, (entry.text, *entry.extras))),
        reply_to=entry.reply_to,
        edited=entry.edited,
        growing=growing,
        files=tuple(File(one.id, one.filename, one.size, one.is_picture) for one in entry.attachments),
        reactions=tuple(Reaction(one.emoji, one.count, one.by) for one in entry.reactions),
    )
