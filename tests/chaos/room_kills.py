"""One trial: the program in a process of its own is killed with SIGKILL at a step of a room and started again.

Two personas without a bot speak in the room, by turns. The steps are seen from outside, by what reaches the model
server, Discord and Redis, and each kill is in a turn that chance chooses.

    opening    a person has asked for the room, Discord has not made its thread yet
    asked      the coordinator has asked the next persona
    thinking   the model has been asked and has not answered
    answered   the post is on its way, Discord has not taken it
    posted     Discord has taken the post, the persona was not told
    settled    the room has counted the turn, the next one is not asked yet, or was just now
    slot       the thread is open to its audience
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import time
from pathlib import Path
from typing import Any

from aiohttp import web

from agentic.state.rooms import Room, RoomMember, RoomStore
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import Command, RoomOrder
from tests.benchmarks.texts import Chat
from tests.chaos.kills import until_true
from tests.chaos.tally import Tally
from tests.support.discord.faults import RequestInfo, RestFault
from tests.support.flow import QUICK, Flow, decision, flow
from tests.support.models.wire.values import ModelRequest
from tests.support.program import Program, at
from tests.support.redis_server import PATIENT, RedisServer

POINTS = ("opening", "asked", "thinking", "answered", "posted", "settled", "slot")
BEFORE_A_CALL = ("asked", "settled")  # the call may be booked and not made: killed calls stay on the books
BOT, CHANNEL, PERSON = "chatgpt", "debate", "Alice"
PERSONAS = {"ada": "Ada", "ben": "Ben"}
TURNS = 6
SLOT_SECONDS = 1.0
MOST_JITTER = 0.03  # seconds between what is seen and the kill
WITHIN = 40.0  # seconds for a trial's every wait
LEASES = (keys.owner(BOT), keys.COORDINATOR_OWNER, keys.PERSONAS_OWNER)


class RoomTrial:
    def __init__(self, f: Flow, link: RedisConnection, folder: Path, point: str, seed: int) -> None:
        self.f, self.link, self.folder, self.point = f, link, folder, point
        self.rng = random.Random(seed)
        self.turn = self.rng.randrange(2, TURNS)  # the one of the kill
        self.bus, self.rooms = Bus(link), RoomStore(link)
        self.thread = 0
        self.numbers: list[int] = []  # of the room's turns, as they were published
        self._numbered, self._chat = itertools.count(1), Chat(seed)
        self._asked = 0
        self._seen, self._released = asyncio.Event(), asyncio.Event()

    async def run(self) -> Tally:
        began = time.monotonic()
        self._set_the_trap()
        with self._process() as first:
            await until_true(self._up)
            await self._open()
            await self._sprung()
            await asyncio.sleep(self.rng.uniform(0, MOST_JITTER))
            first.kill()
        self._released.set()
        self.f.discord.faults.clear()
        self.f.discord.world._nonces.clear()  # Discord remembers them for minutes only
        await self.link.call(lambda redis: redis.delete(*LEASES))  # they would run out within five seconds
        with self._process() as second:
            await until_true(self._up)  # the first may have ended the room before it was killed
            await until_true(self._closed)
            second.tell(signal.SIGTERM)
            assert await second.ended(WITHIN) == 0, second.stderr
        return await self._tally(time.monotonic() - began)

    # what is seen from outside

    async def _sprung(self) -> None:
        if self.point == "posted":
            await self.f.discord.wait_for(lambda: len(self._posts()) == self.turn, timeout=WITHIN)
        else:
            await asyncio.wait_for(self._seen.wait(), WITHIN)

    def _set_the_trap(self) -> None:
        self.f.models.answer = self._answer
        self.f.discord.faults.on_request = self._hold  # type: ignore[assignment]
        self.bus.subscribe(keys.ROOM_NOTICES, self._on_notice)
        for persona in PERSONAS:
            self.bus.subscribe(keys.instructions(persona), self._on_instruction)

    async def _answer(self, _: ModelRequest) -> str:
        number = next(self._numbered)
        if number == self.turn and self.point == "posted":
            self.f.discord.faults.add(RestFault("POST", "^/webhooks/", status=None, cut="after"))
        if number == self.turn and self.point == "thinking":
            self._seen.set()
            await self._released.wait()
        return decision(self._chat.text(120))  # what repeats itself would end the room

    async def _hold(self, info: RequestInfo) -> object:
        """Stop a request that the point waits for; the process that made it is gone before it would be answered."""
        opens = self.point == "opening" and info.path.endswith("/threads")
        posts = self.point == "answered" and info.path.startswith("/webhooks/") and len(self._posts()) == self.turn - 1
        if info.method != "POST" or not (opens or posts):
            return None
        self._seen.set()
        await self._released.wait()
        raise web.HTTPServiceUnavailable

    def _on_instruction(self, _: str) -> None:
        self._asked += 1
        if self.point == "asked" and self._asked == self.turn:
            self._seen.set()

    async def _on_notice(self, _: str) -> None:
        for room in await self.rooms.list():
            self.numbers.append(room.turn_number)
            settled = self.point == "settled" and room.turn_number == self.turn
            if settled or (self.point == "slot" and room.slot_until is not None):
                self._seen.set()

    def _posts(self) -> list[str]:
        """What the personas said in threads, oldest first."""
        threads = [channel for channel in self.f.world.guild.channels.values() if channel.is_thread]
        return [each.content for thread in threads for each in thread.messages.values() if each.webhook_id]

    # the program

    def _process(self) -> Program:
        personas = self.folder / "personas"
        for key, shown in PERSONAS.items():
            (personas / key).mkdir(parents=True, exist_ok=True)
            text = f"---\ndisplay_name: {shown}\nmodel: openai/gpt-6-luna\n---\nYou are {shown}.\n"
            (personas / key / "identity.md").write_text(text)
        environment = {
            **QUICK,
            "BOT_TOKEN_CHATGPT": f"token-{BOT}",
            "OPENAI_API_KEY": "a-key",
            "OPENAI_BASE_URL": self.f.models.base_url("openai"),
            "REDIS_URL": str(self.f.settings.redis_url),
            "CHANNEL_THEME_MAP": f"{self.f.channel(CHANNEL)}:debate",
            "PERSONAS_DIR": str(personas),
            "BUDGET_DAILY_USD": "none",
            "CHEAP_MODEL": "none",  # the closing card's call may be cut off by the end of the process
        }
        return Program(self.folder, before=at(self.f.discord), environment=environment)

    async def _up(self) -> bool:
        channels = [keys.COORDINATOR_COMMANDS, *(keys.instructions(persona) for persona in PERSONAS)]
        heard = await self.link.call(lambda redis: redis.pubsub_numsub(*channels))
        listening = {channel: int(count) for channel, count in heard}
        commands = self.f.world.app(BOT).commands.get(self.f.world.guild.id)
        return bool(commands) and all(listening[each] > (each != channels[0]) for each in channels)

    async def _open(self) -> None:
        if self.point == "opening":
            wanted = {"topic": "Is P equal to NP?", "personas": ", ".join(PERSONAS.values()), "turns": TURNS}
            await self.f.discord.interact(PERSON, CHANNEL, BOT, "room create", wanted)
            return
        thread = await self.f.discord.create_thread(PERSON, CHANNEL, "Is P equal to NP?")
        room = self._room(int(thread["id"]))
        order = Command(command="room-open", channel_id=room.thread_id, room=RoomOrder(room=room.model_dump_json()))
        await self.bus.publish(keys.COORDINATOR_COMMANDS, order)

    def _room(self, thread: int) -> Room:
        return Room(
            thread_id=thread,
            channel_id=self.f.channel(CHANNEL),
            conversation_id="room",
            topic="Is P equal to NP?",
            members=tuple(RoomMember(name=name, shown=shown) for name, shown in PERSONAS.items()),
            rules="",
            turns=TURNS,
            audience_seconds=SLOT_SECONDS if self.point == "slot" else 0.0,
        )

    async def _closed(self) -> bool:
        return any(room.status != "active" for room in await self.rooms.list())

    # what came of it

    async def _tally(self, seconds: float) -> Tally:
        posts, calls = self._posts(), len(self.f.models.requests)
        charged = sum([await self._charged(persona) for persona in PERSONAS])
        return Tally(
            posts=len(posts),
            double_posts=len(posts) - len(set(posts)),
            model_calls=calls,
            double_charges=max(0, charged - calls - (self.point in BEFORE_A_CALL)),
            free=max(0, calls - charged),
            lost=max(0, TURNS - len(posts)),
            slowest=seconds,
            wrong=tuple(await self._faults(posts)),
        )

    async def _charged(self, persona: str) -> int:
        days = await self.link.call(lambda redis: redis.keys(keys.cost(persona, "*")))
        counts = [await self.link.call(lambda redis, day=day: redis.hget(day, "ai_calls")) for day in days]
        return round(sum(float(count or 0) for count in counts))

    async def _faults(self, posts: list[str]) -> list[str]:
        found = await self.rooms.list()
        rooms: list[Any] = [(room.status, room.why, room.turn_number) for room in found]
        wrong = [] if rooms == [("closed", "turn_limit", TURNS)] else [f"the rooms are {rooms}"]
        if any(after - before not in (0, 1) for before, after in itertools.pairwise(self.numbers)):
            wrong.append(f"turn numbers {self.numbers}")
        if len(posts) > TURNS:
            wrong.append(f"{len(posts)} posts in {TURNS} turns")
        return wrong


async def run_trial(folder: Path, point: str, seed: int) -> Tally:
    """A world of its own for each trial."""
    with RedisServer() as redis:
        async with flow(folder, redis_url=redis.url) as f, RedisConnection(redis.url, command_timeout=PATIENT) as link:
            trial = RoomTrial(f, link, folder, point, seed)
            hearing = asyncio.create_task(trial.bus.run())
            try:
                return await trial.run()
            finally:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)
