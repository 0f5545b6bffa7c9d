"""What the tests of the agents' side put in place of Discord, Redis, models and time.

Messages are py-cord's own, made from payloads as the gateway sends them; channels, guilds and the client are doubles
that answer at once and record what was asked of them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import discord

from agentic.ids import id_at
from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.state.budgets import BudgetUse, Caps
from agentic.state.context import Summary
from agentic.state.idle import ProactiveMessage
from agentic.state.rooms import Room
from agentic.state.shared_state import SharedState
from agentic.state.silence import Silence
from agentic.state.turn_records import TurnRecord
from agentic.state.turns import Checkpoint, Turns
from agentic.wire import keys
from agentic.wire.connection import StateUnavailable, or_default
from agentic.wire.messages import PersonNotice, WireMessage, read_result
from tests.support.redis_server import BlockingLink

GUILD = 7
ALICE, BOB = 11, 12
NOON = 1_780_000_000.0  # unix seconds
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1" + bytes(8)
NAMES = {ALICE: "Alice", BOB: "Bob"}

ROUNDS = 60  # of the event loop; a whole turn among doubles needs about a dozen


async def until(condition: Callable[[], object]) -> None:
    """Lets the event loop run until the condition holds; fails when it never does."""
    for _ in range(10 * ROUNDS):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never came true")


async def settle() -> None:
    """Lets everything run that can run without time passing: what has not happened then does not happen."""
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


class Clock:
    """Unix seconds that stand still until they are moved."""

    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class LoopTime:
    """The running event loop's time, standing still until it is moved: timers fire without anybody waiting."""

    def __init__(self) -> None:
        self.now = 1000.0
        asyncio.get_running_loop().time = lambda: self.now  # type: ignore[method-assign]

    async def run(self, seconds: float, *, step: float = 0.5) -> None:
        """Lets `seconds` pass, in steps, with room in between for whatever they set off."""
        end = self.now + seconds
        while self.now < end:
            await settle()
            self.now = min(end, self.now + step)
        await settle()


# -- Discord ----------------------------------------------------------------------------------------------------------


class Snowflakes:
    """Ids that grow with time, as Discord's do."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._count = clock, itertools.count(1)

    def __call__(self) -> int:
        return id_at(self._clock()) + next(self._count)


class State:
    """Of py-cord's connection state what a message asks for."""

    def __init__(self) -> None:
        self.self_id = 0
        self.http = None
        self.allowed_mentions = None
        self._polls: dict[int, discord.Poll] = {}

    def store_user(self, data: Any, **_: Any) -> discord.User:
        return discord.User(state=self, data=data)  # type: ignore[arg-type]

    create_user = store_user

    def store_poll(self, poll: discord.Poll, message_id: int) -> None:
        self._polls[message_id] = poll

    def get_channel(self, _: int) -> None:
        return None

    def _get_message(self, _: int) -> None:
        return None

    def _get_guild(self, _: int | None) -> None:
        return None


def user_payload(user_id: int, name: str, *, bot: bool = False) -> dict[str, Any]:
    plain = {"discriminator": "0", "avatar": None, "global_name": None}
    return {"id": str(user_id), "username": name, "bot": bot, **plain}


def user(user_id: int, name: str, *, bot: bool = False) -> discord.User:
    return State().store_user(user_payload(user_id, name, bot=bot))


def message(
    channel: Any,
    message_id: int,
    text: str,
    *,
    author: int = ALICE,
    name: str | None = None,
    bot: bool = False,
    mentions: Iterable[Any] = (),
    **more: Any,
) -> discord.Message:
    """A message as the gateway brings it; `more` are further fields of its payload."""
    payload = {
        "id": str(message_id),
        "author": user_payload(author, name or NAMES.get(author, f"user{author}"), bot=bot),
        "content": text,
        "mentions": [user_payload(who.id, who.name, bot=who.bot) for who in mentions],
        "attachments": [],
        "embeds": [],
        "edited_timestamp": None,
        "type": 0,
        "pinned": False,
        "mention_everyone": False,
        "mention_roles": [],
        "tts": False,
        **more,
    }
    made = discord.Message(state=State(), channel=channel, data=payload)  # type: ignore[arg-type]
    return made


def attachment(attachment_id: int, filename: str = "cat.png", media_type: str = "image/png") -> dict[str, Any]:
    url = f"https://cdn.discordapp.com/attachments/1/{attachment_id}/{filename}"
    plain = {"id": str(attachment_id), "filename": filename, "size": 32, "url": url, "proxy_url": url}
    return {**plain, "content_type": media_type}


def http_error(status: int) -> discord.HTTPException:
    """What py-cord raises for an answer with that status."""
    kinds: dict[int, type[discord.HTTPException]] = {403: discord.Forbidden, 404: discord.NotFound}
    response: Any = SimpleNamespace(status=status, reason="by the test")
    return kinds.get(status, discord.HTTPException)(response, {"code": 0, "message": "by the test"})


class Guild:
    """One guild, seen by one bot."""

    def __init__(self, me: Any, *, role: int | None = None) -> None:
        self.id = GUILD
        self.me = me
        self.self_role = SimpleNamespace(id=role) if role else None
        self.unavailable = False
        self.members: dict[int, Any] = {}
        self._threads: dict[int, Any] = {}  # where py-cord's channels look for theirs
        self.roles: list[Any] = []
        self.default_role = SimpleNamespace(id=GUILD)
        self.channels: list[Any] = []
        self.threads: list[Any] = []
        self.emojis: tuple[Any, ...] = ()

    def get_member(self, user_id: int) -> Any:
        return self.members.get(user_id)

    async def fetch_member(self, user_id: int) -> Any:
        if user_id not in self.members:
            raise http_error(404)
        return self.members[user_id]

    def get_channel(self, channel_id: int) -> Any:
        return next((one for one in self.channels if one.id == channel_id), None)

    def get_channel_or_thread(self, channel_id: int) -> Any:
        return self.get_channel(channel_id) or self._threads.get(channel_id)


@dataclass(frozen=True)
class Sent:
    """One message that a bot posted; `options` is everything that was handed to send()."""

    id: int
    text: str | None
    options: dict[str, Any] = field(repr=False)

    @property
    def pinged(self) -> list[int]:
        allowed = self.options["allowed_mentions"]
        return [who.id for who in allowed.users or ()]


class _Speaking:
    """What text channels and threads have in common; `wrong` holds errors for the next requests, None for success."""

    id: int
    guild: Any

    def _open(self, channel_id: int, guild: Guild, name: str, ids: Snowflakes) -> None:
        self.id, self.guild, self.name, self._ids = channel_id, guild, name, ids
        self.last_message_id: int | None = None
        self.permissions = discord.Permissions(view_channel=True, read_message_history=True)
        self.permissions.update(send_messages=True, send_messages_in_threads=True)
        self.permissions.update(attach_files=True, embed_links=True, add_reactions=True)
        self.sent: list[Sent] = []
        self.reacted: list[tuple[int, str]] = []
        self.deleted: list[int] = []
        self._overwrites: Any = []
        self.typed = 0
        self.past: list[discord.Message] = []  # newest first
        self.reads: list[int | None] = []  # the `before` of each read
        self.pinned: list[Any] = []  # SimpleNamespace(message, pinned_at), the pin made last first
        self.pin_reads = 0
        self.wrong: list[Exception | None] = []
        self.hold: asyncio.Event | None = None  # requests wait for it
        self.hold_reactions: asyncio.Event | None = None

    async def _request(self) -> None:
        if self.hold is not None:
            await self.hold.wait()
        error = self.wrong.pop(0) if self.wrong else None
        if error is not None:
            raise error

    def permissions_for(self, _: Any) -> discord.Permissions:
        return self.permissions

    async def send(self, content: str | None = None, **options: Any) -> discord.Message:
        await self._request()
        files = [attachment(50 + n, file.filename) for n, file in enumerate(options.get("files", ()))]
        post = Sent(self._ids(), content, options)
        self.sent.append(post)
        me = self.guild.me
        return message(self, post.id, content or "", author=me.id, name=me.name, bot=True, attachments=files)

    async def trigger_typing(self) -> None:
        self.typed += 1
        await self._request()

    def get_partial_message(self, message_id: int, /) -> Any:
        async def add_reaction(emoji: str) -> None:
            if self.hold_reactions is not None:
                await self.hold_reactions.wait()
            await self._request()
            self.reacted.append((message_id, emoji))

        async def delete() -> None:
            await self._request()
            self.deleted.append(message_id)

        return SimpleNamespace(id=message_id, add_reaction=add_reaction, delete=delete)

    def pins(self, limit: int | None = None, before: Any = None) -> Any:
        async def flatten() -> Sequence[Any]:
            self.pin_reads += 1
            await self._request()
            older = [one for one in self.pinned if before is None or one.pinned_at < before]
            return older[:limit]

        return SimpleNamespace(flatten=flatten)

    def history(self, limit: int | None = 100, before: Any = None, *_: Any, **__: Any) -> Any:
        async def flatten() -> Sequence[discord.Message]:
            self.reads.append(before.id if before else None)
            await self._request()
            older = [one for one in self.past if before is None or one.id < before.id]
            return older[:limit]

        return SimpleNamespace(flatten=flatten)


class TextChannel(_Speaking, discord.TextChannel):
    def __init__(self, channel_id: int, guild: Guild, name: str, ids: Snowflakes) -> None:
        self._open(channel_id, guild, name, ids)


class Thread(_Speaking, discord.Thread):
    def __init__(self, channel_id: int, guild: Guild, name: str, ids: Snowflakes, parent_id: int) -> None:
        self._open(channel_id, guild, name, ids)
        self.parent_id = parent_id
        self.locked = self.archived = False
        self._type = discord.ChannelType.public_thread
        guild._threads[channel_id] = self


class Client:
    """A logged-in bot."""

    def __init__(self, who: discord.User, *, role: int | None = None) -> None:
        self.user = who
        self.guild = Guild(who, role=role)
        self.guilds = [self.guild]
        self.channels: dict[int, Any] = {}

    def get_channel(self, channel_id: int) -> Any:
        return self.channels.get(channel_id)

    def get_guild(self, _: int) -> Guild:
        return self.guild


class Pictures:
    """The fetcher of pictures: knows the addresses that it was given."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}

    async def fetch(self, url: str) -> Picture:
        if url not in self.known:
            raise FetchRefused("not there")
        return Picture(self.known[url], "image/png")

    async def fetch_bytes(self, url: str, max_bytes: int) -> bytes:
        return (await self.fetch(url)).data


# -- Redis ------------------------------------------------------------------------------------------------------------


class _Away:
    """`away` says that Redis cannot be reached."""

    away = False

    def _here(self) -> None:
        if self.away:
            raise StateUnavailable("the double is away")


class MemoryBus(_Away):
    """`noticed`: what people wrote; all other messages are in `published`."""

    def __init__(self) -> None:
        self.published: list[tuple[str, WireMessage]] = []
        self.noticed: list[PersonNotice] = []
        self.handlers: dict[str, Callable[[str], Awaitable[None]]] = {}

    async def publish(self, channel: str, message: WireMessage) -> int:
        self._here()
        if isinstance(message, PersonNotice):
            self.noticed.append(message)
        else:
            self.published.append((channel, message))
        return 1

    @or_default(0, "nothing is sent")
    async def announce(self, channel: str, message: WireMessage) -> int:
        return await self.publish(channel, message)

    def subscribe(self, channel: str, handler: Callable[[str], Awaitable[None]]) -> None:
        self.handlers[channel] = handler

    def unsubscribe(self, channel: str) -> None:
        self.handlers.pop(channel, None)


class NoRedis:
    """A connection to a Redis that never answers."""

    async def script(self, *_: object) -> Any:
        raise StateUnavailable("there is none in this test")

    call = publish = script

    @property
    def redis(self) -> NoRedis:
        return self


def lone_silence(clock: Callable[[], float]) -> Silence:
    """Who is silenced, as one process knows it that has no Redis."""
    nowhere: Any = NoRedis()
    return Silence(nowhere, nowhere, clock)


class MemoryCosts(_Away):
    def __init__(self) -> None:
        self.days: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    async def read(self, agent: str, date: str) -> dict[str, float]:
        self._here()
        return dict(self.days[agent, date])


class MemoryPresence(_Away):
    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.first: dict[str, float] = {}

    @or_default(None, "nobody is present")
    async def renew(self, agent: str, text: str, servers: Mapping[int, int]) -> None:
        self._here()
        self.texts[agent], self.servers = text, servers

    async def first_seen(self, agent: str) -> float | None:
        self._here()
        return self.first.get(agent)

    @or_default(None, "nobody leaves")
    async def clear(self, agent: str) -> None:
        self._here()
        self.texts.pop(agent, None)

    @or_default(None, "nobody is known")
    async def read(self, agents: Iterable[str]) -> dict[str, str]:
        self._here()
        return {agent: self.texts[agent] for agent in agents if agent in self.texts}


class MemoryWindows:
    """Where windows begin, over restarts."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, int, str], dict[str, Any]] = {}
        self.reads = 0

    async def keep(self, agent: str, channel_id: int, kind: str, state: Mapping[str, Any]) -> None:
        self.states[agent, channel_id, kind] = dict(state)

    async def kept(self, agent: str, channel_id: int, kind: str) -> dict[str, Any] | None:
        self.reads += 1
        return self.states.get((agent, channel_id, kind))


class MemoryPosts:
    """What our webhooks posted."""

    def __init__(self) -> None:
        self._channels: dict[int, dict[int, str]] = defaultdict(dict)

    async def add(self, channel_id: int, message_id: int, agent: str) -> None:
        self._channels[channel_id][message_id] = agent

    async def read(self, channel_id: int) -> Mapping[int, str]:
        return dict(self._channels[channel_id])


class MemoryTold:
    """What was told to people, as all processes know it."""

    def __init__(self) -> None:
        self.told: set[tuple[int, str]] = set()

    async def first(self, message_id: int, what: str) -> bool:
        known = (message_id, what) in self.told
        self.told.add((message_id, what))
        return not known


class MemoryTicks(_Away):
    """When things ran last, as agentic.state.turns has it for all processes."""

    def __init__(self) -> None:
        self.times: dict[tuple[str, str], float] = {}
        self.elsewhere: set[str] = set()  # fields whose next tick another process takes
        self.kept: dict[str, str] = {}  # turn → what it begins with
        self.keeps: dict[str, float] = {}  # turn → for how many seconds

    @or_default(None, "no times are known")
    async def load(self, agent: str) -> dict[str, float]:
        self._here()
        return {field: time for (name, field), time in self.times.items() if name == agent}

    def last(self, agent: str, field: str) -> float | None:
        return self.times.get((agent, field))

    async def run(
        self, agent: str, field: str, at: float, turn_id: str = "", event: str = "", keep_seconds: float = 0.0
    ) -> bool:
        self.times[agent, field] = at
        if field in self.elsewhere:
            self.elsewhere.discard(field)
            return False
        self.kept |= {turn_id: event} if event else {}
        self.keeps |= {turn_id: keep_seconds} if event else {}
        return True

    async def prune(self, agent: str, known: Iterable[str]) -> None:
        pass


class MemoryRooms(_Away):
    """The rooms, by thread."""

    def __init__(self) -> None:
        self.kept: dict[int, Room] = {}

    async def read(self, thread_id: int) -> Room | None:
        self._here()
        return self.kept.get(thread_id)

    @or_default(True, "threads count as rooms")
    async def may_exist(self, thread_id: int) -> bool:
        return await self.read(thread_id) is not None


class MemoryProactive(_Away):
    """Unasked messages, and who wants no more of them."""

    def __init__(self) -> None:
        self.posts: dict[int, ProactiveMessage] = {}
        self.unwanted: set[int] = set()

    async def note(self, message_ids: Iterable[int], message: ProactiveMessage) -> None:
        self.posts.update(dict.fromkeys(message_ids, message))

    async def read(self, message_id: int) -> ProactiveMessage | None:
        return self.posts.get(message_id)

    async def refuse(self, user_id: int) -> bool:
        first = user_id not in self.unwanted
        self.unwanted.add(user_id)
        return first

    async def allow(self, user_id: int) -> None:
        self.unwanted.discard(user_id)

    @or_default(True, "nothing is sent")
    async def is_unwanted(self, user_id: int) -> bool:
        self._here()
        return user_id in self.unwanted


class MemorySummaries(_Away):
    """The summaries of rooms, by thread."""

    def __init__(self) -> None:
        self.kept: dict[int, Summary] = {}
        self.claims: dict[int, str] = {}
        self.asked_to_be_forgotten: dict[int, float] = {}

    async def read(self, thread_id: int) -> Summary | None:
        return self.kept.get(thread_id)

    async def claim(self, thread_id: int, former: Summary | None) -> str | None:
        if thread_id in self.claims or self.kept.get(thread_id) != former:
            return None
        self.claims[thread_id] = "token"
        return "token"

    async def keep(self, thread_id: int, token: str, summary: Summary) -> bool:
        if self.claims.pop(thread_id, None) != token:
            return False
        self.kept[thread_id] = summary
        return True

    @or_default(None, "no summary is made")
    async def forgotten(self) -> Mapping[int, float]:
        self._here()
        return self.asked_to_be_forgotten

    @or_default(None, "nothing is dropped")
    async def drop(self, thread_id: int) -> None:
        self._here()
        self.kept.pop(thread_id, None)
        self.claims.pop(thread_id, None)

    async def drop_covering(self, thread_id: int, message_ids: Iterable[int] | None) -> None:
        if thread_id in self.kept and (message_ids is None or any(map(self.kept[thread_id].covers, message_ids))):
            await self.drop(thread_id)


class SceneState(SharedState):
    """The program's own state on a real server, whose commands take no time, with doubles for stores that keep no
    rules. `bus` hears what is said with the end of a turn, `recorded` has its record. `checkpoints` are turns and
    names, in order."""

    def __init__(self, clock: Callable[[], float], bus: MemoryBus | None = None, caps: Caps | None = None) -> None:
        self.bus = bus or MemoryBus()
        self.recorded: list[TurnRecord] = []
        self.checkpoints: list[tuple[str, str]] = []
        self._clock, self._caps, self._processes = clock, caps or Caps(), 0
        self._doubles: dict[str, dict[str, Any]] = {
            "turns": {"last_runs": MemoryTicks()},
            "coordination": {"presence": MemoryPresence(), "rooms": MemoryRooms()},
            "context": {"windows": MemoryWindows(), "summaries": MemorySummaries()},
            "posts": {"proactive": MemoryProactive()},
        }
        self._start(BlockingLink())

    def _start(self, link: BlockingLink) -> None:
        self._processes += 1
        holder = f"process {self._processes}"
        super().__init__(link, self._clock, holder=holder, caps=self._caps)
        self.turns = SceneTurns(self, self._clock, holder)
        for group, doubles in self._doubles.items():
            vars(getattr(self, group)).update(doubles)

    @property
    def blocking(self) -> BlockingLink:
        assert isinstance(self.link, BlockingLink)
        return self.link

    @property
    def away(self) -> bool:
        return self.link.away

    @away.setter
    def away(self, away: bool) -> None:
        self.blocking.leave() if away else self.blocking.come_back()

    def crash(self) -> None:
        """The process is gone: what it knew is lost, what is in Redis is left."""
        self.blocking.lose()
        self.away = False
        self._start(self.blocking)

    async def take_over(self) -> None:
        """Another process claims the open turns."""
        other = SharedState(self.link, self._clock, holder="another").turns
        for agent in ("claude", "grok"):
            for turn_id in await other.open_ids(agent):
                await other.claim(agent, turn_id, self._clock() + 90)

    def spent(self, agent: str) -> dict[str, float]:
        """The agent's costs of today."""
        costs = self.blocking.client.hgetall(keys.cost(agent, self._today))
        return {str(field): float(text) for field, text in costs.items()}

    async def uses(self) -> dict[str, BudgetUse]:
        """What was reserved and spent today, by scope."""
        return await self.limits.budgets.uses(self._today, ())

    @property
    def _today(self) -> str:
        return f"{datetime.fromtimestamp(self._clock(), UTC):%Y-%m-%d}"


class SceneTurns(Turns):
    """The program's own turns, noted in their scene."""

    def __init__(self, scene: SceneState, clock: Callable[[], float], holder: str) -> None:
        super().__init__(scene.link, clock, scene.limits, scene.posts.instructed, holder)
        self._scene = scene

    async def checkpoint(self, agent: str, turn_id: str, name: Checkpoint, text: str) -> bool:
        self._scene.checkpoints.append((turn_id, name))
        return await super().checkpoint(agent, turn_id, name, text)

    async def settle(self, agent: str, turn_id: str, result_json: str, deadline: float, **more: Any) -> bool:
        scene = self._scene
        scene.recorded.append(more["record"])
        if scene.bus.away:
            scene.away = True
        done = await super().settle(agent, turn_id, result_json, deadline, **more)
        holder = scene.blocking.client.hget(keys.turn(agent, turn_id), "holder") if done else None
        if holder == self.holder and (message := read_result(more["say"])) is not None:
            scene.bus.published.append((keys.results(agent), message))
        return done
