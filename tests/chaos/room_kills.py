"""One trial: the program in a process of its own is killed with SIGKILL at a step of a room and started again.

Personas without a bot speak in the room, by turns. The steps are seen from outside, by what reaches the model server,
Discord and Redis. A point names the room and the steps of which chance takes one, in a turn that chance chooses:

    opening    a person has asked for the room, Discord has not made its thread yet
    asked      the coordinator has asked the next persona
    thinking   the model has been asked and has not answered
    answered   the post is on its way, Discord has not taken it
    posted     Discord has taken the post, the persona was not told
    settled    the room has counted the turn, the next one is not asked yet, or was just now
    slot       the thread is open to its audience
    waiting    the same, and a question waits for an answer
    phase      Discord has taken the line about a phase, the program was not told; so for `over`, `failed` and `left`:
               the audience's time is over, a persona's model failed, a persona left
    ledger     the cheap model has been asked for the list of arguments
    votes      the last post is out, and people have time to vote in a poll and on posts
    poll       Discord has taken the last poll, the program was not told
    card       Discord has taken the closing card, the program was not told

A debate is killed in each of its phases. Somebody asks something in its audience's time, which one turn must answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import signal
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from agentic.formats import FORMATS, FormatName
from agentic.local.discord.world import Channel
from agentic.rooms.notices import HIDDEN
from agentic.rooms.polls import AFTER, BEFORE
from agentic.state.conversations import ConversationStore
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
from tests.support.models.wire.values import Answer, ModelRequest
from tests.support.program import Program, at
from tests.support.redis_server import PATIENT, RedisServer

BOT, CHANNEL, PERSON = "chatgpt", "debate", "Alice"
PERSONAS = {"ada": "Ada", "ben": "Ben", "cyd": "Cyd"}
QUESTION, ANSWERING = "Who pays for it?", "Answer what they said first"
TURNS = 6
DEBATE_TURNS = 10  # all five phases, each with a turn of both
SLOT_SECONDS = 1.0
MOST_JITTER = 0.03  # seconds between what is seen and the kill
WITHIN = 40.0  # seconds for a trial's every wait
LEASES = (keys.owner(BOT), keys.COORDINATOR_OWNER, keys.PERSONAS_OWNER)
STEPS, FAILING = ("thinking", "answered", "posted", "settled"), ("thinking", "failed", "left")
BEFORE_A_CALL = ("asked", "settled", "ledger", "phase", "over", "failed", "left")
"""Steps in which a call may be booked and not made: killed calls stay on the books."""
PHASES = tuple(phase.name for phase in FORMATS["debate"].phases)
FLOOR, LAST_POST = "The floor is yours", "That was the last post"
LINES = {"phase": "phase", "over": "slot", "failed": "failed", "left": "left"}  # step → the room's line
WORDS = {
    "over": "time is over",
    "failed": "couldn't take its turn",
    "left": "has left the room",
    "poll": AFTER[:20],
    "card": "This room is closed",
}
"""Step → the words in the thread that Discord has taken."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """`steps`: chance takes one. `first` and `last`: the turns of which chance takes one. `audience`: seconds of each
    slot; without any, a person ends a debate's slots. `fails`: the persona whose model returns errors."""

    steps: tuple[str, ...]
    first: int = 2
    last: int = TURNS - 1
    rooms: int = 1
    members: tuple[str, ...] = ("ada", "ben")
    turns: int = TURNS
    format: FormatName = "open"
    phase: str = ""
    audience: float = 0.0
    poll: bool = False
    cheap: bool = False
    fails: str = ""


def _in_phase(number: int, name: str) -> Point:
    steps = (*STEPS, "waiting", "over") if name == "audience" else (*STEPS, "phase")
    first = 2 * number + 1
    return Point(steps=steps, first=first, last=first + 1, turns=DEBATE_TURNS, format="debate", phase=name)


POINTS: Mapping[str, Point] = {
    "opening": Point(steps=("opening",)),
    "asked": Point(steps=("asked",)),
    **{step: Point(steps=(step,)) for step in STEPS},
    "slot": Point(steps=("slot",), audience=SLOT_SECONDS),
    "ledger": Point(steps=("ledger",), format="debate", cheap=True),
    "votes": Point(steps=("votes",), format="debate", audience=SLOT_SECONDS, poll=True),
    "poll": Point(steps=("poll", "card"), format="debate", audience=SLOT_SECONDS, poll=True),
    "card": Point(steps=("card",), cheap=True),
    **{name: _in_phase(number, name) for number, name in enumerate(PHASES)},
    "two rooms": Point(steps=STEPS, rooms=2, last=2 * TURNS - 2, format="debate"),
    "a model fails": Point(steps=FAILING, last=6, members=tuple(PERSONAS), turns=12, format="debate", fails="cyd"),
}


class RoomTrial:
    def __init__(self, f: Flow, link: RedisConnection, folder: Path, point: str, seed: int) -> None:
        self.f, self.link, self.folder, self.point = f, link, folder, POINTS[point]
        self.rng = random.Random(seed)
        self.turn = self.rng.randint(self.point.first, self.point.last)  # the one of the kill
        self.step = self.rng.choice(self.point.steps)
        self.bus, self.rooms, self.conversations = Bus(link), RoomStore(link), ConversationStore(link)
        self.numbers = defaultdict[int, list[int]](list)  # thread → its room's turns, as they were published
        self._numbered, self._chat = itertools.count(1), Chat(seed)
        self._asked, self._refused, self._cut, self._killed = 0, 0, False, False
        self._questions: dict[int, int] = {}  # thread → the question in it
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
        self._killed = True
        for persona in self._overheard:  # or the coordinator would take this for the persona and wait
            self.bus.unsubscribe(keys.instructions(persona))
        self._released.set()
        self.f.discord.faults.clear()
        self.f.discord.world.nonces.clear()  # Discord remembers them for minutes only
        await self.link.call(lambda redis: redis.delete(*LEASES))  # they would run out within five seconds
        with self._process() as second:
            await until_true(self._up)  # the first may have ended the room before it was killed
            await until_true(self._closed)
            second.tell(signal.SIGTERM)
            assert await second.ended(WITHIN) == 0, second.stderr
        return await self._tally(time.monotonic() - began)

    # what is seen from outside

    @property
    def _overheard(self) -> tuple[str, ...]:
        """The personas whose instructions this trial hears, too."""
        return self.point.members if self.step == "asked" else ()

    async def _sprung(self) -> None:
        words = {**WORDS, "phase": f"**{self.point.phase.capitalize()}**"}.get(self.step)
        if self.step == "posted":
            await self.f.discord.wait_for(lambda: len(self._posts()) >= self.turn, timeout=WITHIN)
        elif words is not None:
            await self.f.discord.wait_for(lambda: self._notices(words), timeout=WITHIN)
        else:
            await asyncio.wait_for(self._seen.wait(), WITHIN)

    def _set_the_trap(self) -> None:
        self.f.models.answer = self._answer
        self.f.discord.faults.on_request = self._hold  # type: ignore[assignment]
        self.f.discord.subscribe(self._on_event)
        self.bus.subscribe(keys.ROOM_NOTICES, self._on_notice)
        for persona in self._overheard:
            self.bus.subscribe(keys.instructions(persona), self._on_instruction)

    async def _answer(self, request: ModelRequest) -> str | Answer:
        if "You keep the list of arguments" in request.system:
            if not self._seen.is_set():
                self._seen.set()
                await self._released.wait()
            return json.dumps({"arguments": [{"by": "Ada", "claim": "Nobody has a proof", "answered_by": ""}]})
        if "You report on a debate" in request.system:
            return json.dumps({"positions": {"ada": "Nobody knows."}, "arguments": [], "agreed": [], "unsettled": []})
        number = next(self._numbered)
        if number == self.turn and self.step == "posted":
            self.f.discord.faults.add(RestFault("POST", "^/webhooks/", status=None, cut="after"))
        if number == self.turn and self.step == "thinking":
            self._seen.set()
            await self._released.wait()  # it's booked, and whoever made it is gone
        elif self.point.fails and f"You are {PERSONAS[self.point.fails]}." in request.system:
            self._refused += 1
            return Answer(status=400)
        answers = f"To {PERSON}: " if ANSWERING in request.tail else ""
        return decision(answers + self._chat.text(120))  # what repeats itself would end the room

    async def _hold(self, info: RequestInfo) -> object:
        """Stop a request that the step waits for; the process that made it is gone before it would be answered."""
        opens = self.step == "opening" and info.path.endswith("/threads")
        posts = self.step == "answered" and info.path.startswith("/webhooks/") and len(self._posts()) == self.turn - 1
        if info.method != "POST" or not (opens or posts):
            return None
        self._seen.set()
        await self._released.wait()
        raise web.HTTPServiceUnavailable

    def _on_instruction(self, _: str) -> None:
        self._asked += 1
        if self.step == "asked" and self._asked == self.turn:
            self._seen.set()

    def _on_event(self, name: str, data: dict[str, Any]) -> None:
        if self.step == "poll" and name == "MESSAGE_CREATE" and LAST_POST in data["content"]:
            self._cut_next()

    async def _on_notice(self, _: str) -> None:
        rooms = await self.rooms.list()
        for room in rooms:
            self.numbers[room.thread_id].append(room.turn_number)
            in_slot = room.slot_until is not None
            if (self.step == "slot" and in_slot) or (self.step == "votes" and room.closing_because and in_slot):
                self._seen.set()
            told = [line for line in room.lines if line.kind == LINES.get(self.step)]
            if any(self.step != "phase" or line.why == self.point.phase for line in told):
                self._cut_next()
            if self.step == "card" and room.status == "closed":
                self._cut_next()
        if self.step == "settled" and sum(room.turn_number for room in rooms) >= self.turn:
            self._seen.set()

    def _cut_next(self) -> None:
        """Let Discord take the program's next message, and cut the answer off."""
        if not self._cut:
            self._cut = True
            self.f.discord.faults.add(RestFault("POST", "/messages$", status=None, cut="after"))

    async def attend(self) -> None:
        """Be the audience of a debate: ask once in its time, and end each slot once the question is known."""
        while self.point.format == "debate" and not self.point.audience:
            for room in await self.rooms.list():
                if room.slot_until is not None and await self._has_asked(room):
                    order = Command(command="room-next", channel_id=room.thread_id)
                    await self.bus.publish(keys.COORDINATOR_COMMANDS, order)
            await asyncio.sleep(0.05)

    async def _has_asked(self, room: Room) -> bool:
        """Whether the slot may end: it was announced, and the question is known. In the step "waiting", only after the
        kill."""
        thread = self.f.world.channel(room.thread_id)
        if not self._notices(LAST_POST if room.closing_because else FLOOR, thread):
            return False
        if room.closing_because is not None:
            return True
        if room.thread_id not in self._questions:
            said = await self.f.discord.say(PERSON, room.thread_id, QUESTION)
            self._questions[room.thread_id] = int(said["id"])
        running = await self.conversations.read(room.thread_id)
        if running is None or running.talk.known(self._questions[room.thread_id]) is None:
            return False
        if self.step == "waiting":
            self._seen.set()
        return self.step != "waiting" or self._killed

    def _posts(self, *threads: Channel) -> list[str]:
        """What the personas said in these threads, or in all, oldest first."""
        places = threads or self._threads()
        return [each.content for place in places for each in place.messages.values() if each.webhook_id]

    def _notices(self, words: str = "", *threads: Channel) -> list[str]:
        """What the program itself says in these threads, or in all, oldest first."""
        places = threads or self._threads()
        said = (each for place in places for each in place.messages.values() if not each.webhook_id)
        return [each.content for each in said if each.content.startswith(HIDDEN) and words in each.content]

    def _threads(self) -> list[Channel]:
        return [channel for channel in self.f.world.guild.channels.values() if channel.is_thread]

    # the program

    def _process(self) -> Program:
        personas = self.folder / "personas"
        for key in self.point.members:
            (personas / key).mkdir(parents=True, exist_ok=True)
            shown = PERSONAS[key]
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
            "CHEAP_MODEL": "openai/gpt-6-luna" if self.point.cheap else "none",
        }
        return Program(self.folder, before=at(self.f.discord), environment=environment)

    async def _up(self) -> bool:
        channels = [keys.COORDINATOR_COMMANDS, *(keys.instructions(persona) for persona in self.point.members)]
        heard = await self.link.call(lambda redis: redis.pubsub_numsub(*channels))
        listening = {channel: int(count) for channel, count in heard}
        commands = self.f.world.app(BOT).commands.get(self.f.world.guild.id)
        own = bool(self._overheard) and not self._killed
        return bool(commands) and all(listening[each] > (own and each != channels[0]) for each in channels)

    async def _open(self) -> None:
        if self.step == "opening":
            names = ", ".join(PERSONAS[each] for each in self.point.members)
            wanted = {"topic": "Is P equal to NP?", "personas": names, "turns": TURNS}
            await self.f.discord.interact(PERSON, CHANNEL, BOT, "room create", wanted)
            return
        for _ in range(self.point.rooms):
            thread = await self.f.discord.create_thread(PERSON, CHANNEL, "Is P equal to NP?")
            room = self._room(int(thread["id"]))
            order = Command(command="room-open", channel_id=room.thread_id, room=RoomOrder(room=room.model_dump_json()))
            await self.bus.publish(keys.COORDINATOR_COMMANDS, order)

    def _room(self, thread: int) -> Room:
        return Room(
            thread_id=thread,
            channel_id=self.f.channel(CHANNEL),
            conversation_id=f"room {thread}",
            topic="Is P equal to NP?",
            members=tuple(RoomMember(name=name, shown=PERSONAS[name]) for name in self.point.members),
            rules="",
            turns=self.point.turns,
            format=self.point.format,
            poll=self.point.poll,
            audience_seconds=self.point.audience,
        )

    async def _closed(self) -> bool:
        rooms = await self.rooms.list()
        ended = len(rooms) == self.point.rooms and all(room.status != "active" for room in rooms)
        return ended and all(thread.archived for thread in self._threads())

    # what came of it

    async def _tally(self, seconds: float) -> Tally:
        posts, calls = self._posts(), len(self.f.models.requests) - self._refused
        charged = sum([await self._charged(persona) for persona in self.point.members])
        return Tally(
            posts=len(posts),
            double_posts=len(posts) - len(set(posts)),
            model_calls=calls,
            double_charges=max(
                0, charged - calls - self.point.rooms * (self.step in BEFORE_A_CALL or self.point.rooms > 1)
            ),
            free=max(0, calls - charged),
            lost=max(0, self.point.rooms * self.point.turns - len(posts)),
            slowest=seconds,
            wrong=tuple(await self._faults()),
        )

    async def _charged(self, persona: str) -> int:
        """The calls that are booked. A phase may end before its list is made again: nobody resumes the killed call
        then, and what it reserved is charged after its deadline."""
        lists = await self.link.call(lambda redis: redis.keys(keys.turn(persona, "ledger-*")))
        states = [await self.link.call(lambda redis, made=made: redis.hget(made, "state")) for made in lists]
        days = await self.link.call(lambda redis: redis.keys(keys.cost(persona, "*")))
        counts = [await self.link.call(lambda redis, day=day: redis.hget(day, "ai_calls")) for day in days]
        return round(sum(float(count or 0) for count in counts)) + states.count("open")

    async def _faults(self) -> list[str]:
        rooms = {room.thread_id: room for room in await self.rooms.list()}
        wrong = [f"{len(rooms)} rooms"] if len(rooms) != self.point.rooms else []
        for thread in self._threads():
            if (room := rooms.get(thread.id)) is not None:
                wrong += [f"{self.step} in turn {self.turn}: {fault}" for fault in self._faults_in(room, thread)]
        return wrong

    def _faults_in(self, room: Room, thread: Channel) -> list[str]:
        """What is wrong in one room, in words."""
        wrong, posts, notices = list[str](), self._posts(thread), self._notices("", thread)
        if (room.status, room.why, room.turn_number) != ("closed", "turn_limit", len(posts)):
            wrong.append(f"the room is {room.status}, {room.why}, turn {room.turn_number}, with {len(posts)} posts")
        if len(posts) > self.point.turns:
            wrong.append(f"{len(posts)} posts in {self.point.turns} turns")
        numbers = self.numbers[thread.id]
        if any(after - before not in (0, 1) for before, after in itertools.pairwise(numbers)):
            wrong.append(f"turn numbers {numbers}")
        if not self.point.audience and len(notices) != len(set(notices)):  # slots of a length have the same lines
            wrong.append(f"notices twice: {notices}")
        for words, times in self._lines(room).items():
            if (found := len(self._notices(words, thread))) != times:
                wrong.append(f"{found} times {words!r}: {notices}")
        answers = sum(post.startswith(f"To {PERSON}") for post in posts)
        if answers != (thread.id in self._questions) or (self.point.phase and not answers):
            wrong.append(f"{answers} answers to the question")
        if "ledger" in self.point.steps and not room.ledger:
            wrong.append("no list of arguments")
        return wrong

    def _lines(self, room: Room) -> dict[str, int]:
        """Words in a thread → how often it must have been told them."""
        polls, phases = int(self.point.poll), [phase.name for phase, _ in room.schedule()]
        times = {WORDS["card"]: 1, BEFORE: polls, AFTER: polls}
        times |= {f"**{name.capitalize()}**": int(name in phases and name != "audience") for name in PHASES}
        if self.point.fails:
            times |= {WORDS["failed"]: 1, WORDS["left"]: 1}
        if room.thread_id in self._questions:
            times |= {FLOOR: 1, "The next speakers answer 1 message.": 1, LAST_POST: 1}
        return times


async def run_trial(folder: Path, point: str, seed: int) -> Tally:
    """A world of its own for each trial."""
    with RedisServer() as redis:
        async with flow(folder, redis_url=redis.url) as f, RedisConnection(redis.url, command_timeout=PATIENT) as link:
            trial = RoomTrial(f, link, folder, point, seed)
            aside = [asyncio.create_task(trial.bus.run()), asyncio.create_task(trial.attend())]
            try:
                return await trial.run()
            finally:
                for task in aside:
                    task.cancel()
                await asyncio.gather(*aside, return_exceptions=True)
