"""A world in which things go wrong while the bots talk, and the count of what can be seen of it afterwards.

Each answer of a model begins with what it answers (`q3`: the third question, `t1`: the first conversation), who gives
it, and a number of its own: `t1 grok a7`. So whatever was thought twice, posted twice or never shows in the channels.
People ask in one channel and the bots converse in another: a person who barges in would change the conversation.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agent_config import AGENTS
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from tests.chaos.tally import Tally
from tests.support.discord.faults import RequestInfo
from tests.support.flow import Flow, decision
from tests.support.models.wire.values import Answer, ModelRequest

TALK, ASK = "debate", "casual"
NAMES = {spec.provider: name for name, spec in AGENTS.items()}
WITHIN = 60.0  # seconds for whatever must come in the end
BABBLE = "bla "
HEAD = re.compile(r"^([qt]\d+) (\w+) a(\d+)(?: p(\d+))?")
IN_ORDER = {"round_limit", "agreed"}

Action = Callable[[], Awaitable[object]]
Misbehave = Callable[[ModelRequest], "Answer | str | None"]


@dataclass
class Trap:
    """Something to happen at the nth moment of a kind; what comes to this moment waits until it has happened."""

    moment: str
    nth: int
    action: Action
    sprung: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Question:
    """What a person asked; `tag` is in it, and in its answer."""

    tag: str
    agent: str
    message_id: int


async def until(condition: Callable[[], object], within: float = WITHIN) -> None:
    """Looks again and again: what happens in Redis or another process tells nobody."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Scene:
    """`quick`: as short as `make test` needs it. `present`: the agents of which each has one turn in a conversation."""

    def __init__(
        self,
        f: Flow,
        link: RedisConnection,
        seed: int,
        *,
        quick: bool = False,
        present: tuple[str, ...] = tuple(AGENTS),
    ) -> None:
        self.f, self.link, self.quick, self.present = f, link, quick, present
        self.reseed(seed)
        self.misbehave: Misbehave = lambda _request: None
        self._number = self._talks = self._asked = 0
        self._traps: list[Trap] = []
        self._moments: Counter[str] = Counter()
        f.models.answer = self._answer
        f.discord.faults.on_request = self._requested
        self._forget()

    def _forget(self) -> None:
        self.questions: list[Question] = []
        self.talks: list[str] = []
        self.orderly = 0  # conversations that ended in order
        self.excused: set[str] = set()  # agents whose turn may come to nothing
        self.wrong: list[str] = []
        # Calls that may be charged although the server never heard of them: each is noted before it is made, and then a
        # person stopped it or its process was killed.
        self.cut_off = 0
        self.unreplicated = 0  # calls whose booking a master may have answered and not passed on before it died
        self._calls_before = len(self.f.models.requests)
        self._answered = 0  # calls that were well answered, be it to nobody
        self._began = time.monotonic()

    async def begin(self) -> None:
        """Counts from here on."""
        self._forget()
        self._charged_before = await self._charged()

    def reseed(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(seed)

    async def emptied(self) -> None:
        """Redis was emptied on purpose: what was charged before is not there any more."""
        self._charged_before, self._answered = 0.0, 0

    # -- what the bots' models say, and what happens meanwhile --------------------------------------------------------

    def at(self, moment: str, nth: int, action: Action) -> Trap:
        """`moment`: "thinking" (a model is asked for a conversation's turn) or "posting" (its answer is posted)."""
        trap = Trap(moment, self._moments[moment] + nth, action)
        self._traps.append(trap)
        return trap

    async def _come_to(self, moment: str) -> None:
        self._moments[moment] += 1
        for trap in [t for t in self._traps if (t.moment, t.nth) == (moment, self._moments[moment])]:
            self._traps.remove(trap)
            await trap.action()
            trap.sprung.set()

    async def _answer(self, request: ModelRequest) -> Answer | str:
        self._number += 1
        number, tags = self._number, self._tags_in(request)
        if not tags:
            await self._come_to("thinking")
        bad = self.misbehave(request)
        if bad is not None:
            return bad
        self._answered += 1
        return decision(f"{self.head(request, tags, number)} said", topic="t")

    def head(self, request: ModelRequest, tags: list[str] | None = None, number: int | None = None) -> str:
        """What an answer to the request begins with."""
        tags = self._tags_in(request) if tags is None else tags
        where = tags[-1] if tags else self.talks[-1]
        return f"{where} {NAMES[request.provider]} a{number or self._number}"

    def _tags_in(self, request: ModelRequest) -> list[str]:
        """The questions that it asks; behind the results of tools they are not in the tail."""
        return re.findall(r"\bq\d+\b", " ".join(request.texts) if request.results else request.tail)

    async def _requested(self, info: RequestInfo) -> None:
        if info.method == "POST" and info.path == f"/channels/{self.f.channel(TALK)}/messages":
            await self._come_to("posting")

    # -- what people do -----------------------------------------------------------------------------------------------

    async def ask(self, agent: str, person: str = "Alice") -> Question:
        self._asked += 1
        tag = f"q{self._asked}"
        said = await self.f.discord.say(person, ASK, f"<@{self.f.user_id(agent)}> {tag}?")
        question = Question(tag, agent, int(said["id"]))
        self.questions.append(question)
        return question

    async def answered(self, question: Question, within: float = WITHIN) -> None:
        """Returns when something of an answer can be seen, be it an excuse or a sign."""
        await until(lambda: self._seen_of(question), within)

    async def ask_and_hear(self, agent: str) -> None:
        await self.answered(await self.ask(agent))

    def next_talk(self) -> str:
        """The name of the conversation that is begun now."""
        self._talks += 1
        self.talks.append(f"t{self._talks}")
        return self.talks[-1]

    # -- what came of it ----------------------------------------------------------------------------------------------

    def _bot_posts(self, channel: str) -> list[tuple[str, str, int]]:
        bots = {self.f.user_id(name): name for name in AGENTS}
        shown = self.f.discord.messages(channel)
        return [(bots[int(m["author"]["id"])], m["content"], int(m["id"])) for m in shown if m["author"].get("bot")]

    def _seen_of(self, question: Question) -> int:
        """How many answers: a model's in all its parts is one, as is an excuse or a sign."""
        of_agent = [q.message_id for q in self.questions if q.agent == question.agent]
        later = min((i for i in of_agent if i > question.message_id), default=float("inf"))
        told: set[str] = set()
        excuses = 0
        for agent, text, message_id in self._bot_posts(ASK):
            head = HEAD.match(text)
            if head and head[1] == question.tag:
                told.add(head[3])
            elif text.startswith(BABBLE):  # a later part of an answer in plain words
                continue
            elif not head and agent == question.agent and question.message_id < message_id < later:
                excuses += 1
        message = next(m for m in self.f.discord.messages(ASK) if int(m["id"]) == question.message_id)
        return len(told) + excuses + len(message.get("reactions", ()))

    def posted_in(self, talk: str) -> set[str]:
        """The agents that said something in a conversation."""
        heads = [HEAD.match(text) for _, text, _ in self._bot_posts(TALK)]
        return {head[2] for head in heads if head and head[1] == talk}

    def _doubles(self) -> int:
        named = {*self.talks, *(q.tag for q in self.questions)}
        heads = [head for c in (TALK, ASK) for _, text, _ in self._bot_posts(c) if (head := HEAD.match(text))]
        mine = [head for head in heads if head[1] in named]
        repeated = sum(count - 1 for count in Counter(head[0] for head in mine).values())
        thought: dict[tuple[str, str], set[str]] = defaultdict(set)
        for head in mine:
            thought[head[1], head[2]].add(head[3])
        again = sum(len(answers) - 1 for (where, _), answers in thought.items() if where.startswith("t"))
        return repeated + again + sum(max(0, self._seen_of(question) - 1) for question in self.questions)

    def _lost(self) -> int:
        silent = sum(len(set(self.present) - self.excused - self.posted_in(talk)) for talk in self.talks)
        return silent + sum(not self._seen_of(question) for question in self.questions)

    async def miscounted(self) -> list[str]:
        """Agents whose turns of the day are not as many as their records: none where no limit stood against one."""
        found = []
        for name in AGENTS:
            records = await self.link.call(lambda redis, name=name: redis.xlen(keys.turns(name)))
            found_keys = await self.link.call(lambda redis, name=name: redis.keys(keys.daily_count(name, "*")))
            days = [key for key in found_keys if not key.endswith(":turns")]
            counts = [int(await self.link.call(lambda redis, day=day: redis.get(day)) or 0) for day in days]
            if sum(counts) != records:
                found.append(f"{name}: {sum(counts)} turns counted, {records} recorded")
        return found

    async def _charged(self) -> float:
        found = 0.0
        for name in AGENTS:
            for key in await self.link.call(lambda redis, name=name: redis.keys(keys.cost(name, "*"))):
                found += float(await self.link.call(lambda redis, key=key: redis.hget(key, "ai_calls")) or 0)
        return found

    async def tally(self) -> Tally:
        """Of what was counted since `begin`; Redis must be there."""
        calls = len(self.f.models.requests) - self._calls_before
        charged = await self._charged() - self._charged_before
        named = {*self.talks, *(q.tag for q in self.questions)}
        heads = [HEAD.match(text) for c in (TALK, ASK) for _, text, _ in self._bot_posts(c)]
        return Tally(
            posts=sum(head is not None and head[1] in named for head in heads),
            double_posts=self._doubles(),
            model_calls=calls,
            double_charges=max(0, round(charged - calls) - self.cut_off),
            free=max(0, self._answered - round(charged) - self.unreplicated),
            lost=self._lost(),
            conversations=len(self.talks),
            ended=self.orderly,
            slowest=time.monotonic() - self._began,
            wrong=tuple(self.wrong),
        )
