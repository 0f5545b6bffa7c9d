"""The whole companion over sockets: people talk, then nobody writes for hours, and the tasks come in their order, each
once. The hours pass on the program's clock."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

from agentic.ids import sent_at
from agentic.wire.entries import LoggedMessage
from tests.support.asking import explained
from tests.support.flow import decision, flow
from tests.support.moved_clock import MovedClock
from tests.support.recorded import recorded
from tests.support.redis_server import until
from tests.support.tools.search_web import search_web

IDLE = {
    "IDLE_TASKS": "summarise,profile,follow_up,discover",
    "UNASKED_MESSAGES": "everyone",
    "UNASKED_PERSON_HOURS": "0",
    "UNASKED_CHANNEL_HOURS": "0",
    "IDLE_BUDGET_SHARE": "1",
    "COORDINATOR_ACTIVE_START": "0",
    "COORDINATOR_ACTIVE_END": "24",
}
IDLE_AFTER, FOLLOW_UP_AT_LAST, DISCOVER_AT_LAST = 300.0, 300.0 + 7_200, 300.0 + 14_400  # seconds without people
UNASKED = "SELECT 1 FROM unasked"
FOLLOW_UP = "That one was measured again this week: it has grown by four centimetres since the spring."
DISCOVERY = "Alice, a lighthouse on the coast of Brittany opens its doors to visitors for the first time on Sunday."


def kind_of(request):
    """The task that a request is for."""
    if "You take notes on a conversation" in request.system:
        return "summarise"
    if "You keep a list of the subjects" in request.system:
        return "profile"
    if "Nobody answered the last message" in request.tail:
        return "follow_up"
    return "discover" if "likes to talk about the subjects" in request.tail else "answer"


class Companion:
    """The model behind Gemini: what it is asked, by task. `held` is a task that it thinks about until it is let go."""

    def __init__(self, held=None):
        self.kinds, self.held, self.go_on = [], held, asyncio.Event()

    async def __call__(self, request):
        kind = kind_of(request)
        self.kinds.append(kind)
        if kind == self.held:
            await self.go_on.wait()
        return {
            "summarise": "Alice asked for the tallest tree; Gemini named Hyperion.",
            "profile": "- trees\n- lighthouses",
            "follow_up": decision(FOLLOW_UP),
            "discover": decision(DISCOVERY),
        }.get(kind, decision("It is Hyperion, a redwood in California."))

    @property
    def tasks(self):
        """In the order in which each was first asked for."""
        return list(dict.fromkeys(kind for kind in self.kinds if kind != "answer"))


@asynccontextmanager
async def companion(tmp_path, monkeypatch, model):
    monkeypatch.setattr("agent_coordinator.idle.background.TICK_SECONDS", 0.05)
    clock = MovedClock()
    setup = {"GEMINI_MODEL": "gemini-2.5-flash", "CHEAP_MODEL": "none", "TAVILY_API_KEY": "tavily-key-1"}
    async with (
        search_web() as web,
        flow(tmp_path, **setup, **IDLE) as f,
        f.running(agents=("gemini",), clock=clock, **web.setup) as runtime,
    ):
        f.models.answer = model
        yield f, runtime, clock


async def talk(f, runtime, tmp_path):
    """Alice asks, is answered, and says a last word, all of which is logged."""
    channel = f.channel("debate")
    alice = await f.discord.say("Alice", "debate", f"<@{f.user_id('gemini')}> which tree is the tallest of all?")
    await f.discord.wait_for(lambda: len(f.said("debate", "gemini")) == 1)
    answer = f.discord.messages("debate")[-1]
    last = await f.discord.say("Alice", "debate", "I would like to stand below it once, and look up.")
    chain = ((alice, None), (answer, int(alice["id"])), (last, int(answer["id"])))
    for message, reply_to in chain:
        bot = bool(message["author"].get("bot"))
        runtime.services.record.notes.log(
            "gemini",
            LoggedMessage(
                message_id=int(message["id"]),
                channel_id=channel,
                guild_id=next(iter(f.world.guilds)),
                author="agent" if bot else "person",
                author_id=None if bot else int(message["author"]["id"]),
                agent="gemini" if bot else None,
                name="Gemini" if bot else "Alice",
                text=message["content"],
                reply_to=reply_to,
                at=sent_at(int(message["id"])),
                read_at=time.time(),
            ),
        )
    await until(lambda: len(recorded(tmp_path, "SELECT 1 FROM message_log")) == len(chain), 60)
    return int(last["id"]), int(alice["author"]["id"])


async def test_while_nobody_writes_the_tasks_come_in_their_order_each_once(tmp_path, monkeypatch):
    model = Companion()
    async with companion(tmp_path, monkeypatch, model) as (f, runtime, clock):
        last, alice = await talk(f, runtime, tmp_path)

        def summary_and_profile():
            return recorded(tmp_path, "SELECT 1 FROM summaries, profiles")

        await clock.nobody_writes_for(IDLE_AFTER, runtime, summary_and_profile)
        assert model.tasks == ["summarise", "profile"]
        await clock.nobody_writes_for(FOLLOW_UP_AT_LAST, runtime, lambda: recorded(tmp_path, UNASKED))
        await clock.nobody_writes_for(DISCOVER_AT_LAST, runtime, lambda: len(recorded(tmp_path, UNASKED)) == 2)
        assert model.tasks == ["summarise", "profile", "follow_up", "discover"]
        assert recorded(tmp_path, "SELECT text FROM summaries") == [
            ("Alice asked for the tallest tree; Gemini named Hyperion.",)
        ]
        assert recorded(tmp_path, "SELECT user_id FROM profiles") == [(alice,)]
        sent = recorded(tmp_path, "SELECT message_id, task, person_id FROM unasked ORDER BY at")
        assert [(task, person) for _, task, person in sent] == [("follow_up", alice), ("discover", alice)]
        first, second = (next(m for m in f.discord.messages("debate") if int(m["id"]) == one[0]) for one in sent)
        assert first["content"].startswith(FOLLOW_UP)
        assert int(first["message_reference"]["message_id"]) == last
        assert second["content"].startswith(DISCOVERY)
        assert (second.get("message_reference"), first["mentions"], second["mentions"]) == (None, [], [])
        said = await explained(runtime.services, {"id": sent[0][0]})
        assert "followed up on a conversation while nobody was writing. Why: a conversation on" in said
        calls = len(model.kinds)
        for _ in range(24):
            clock.ahead += 3600
            await runtime.coordinator.idle.tick(runtime._idle_memory)
        assert len(model.kinds) == calls, "for a day nothing new was written, and no model is asked"


async def test_a_person_who_writes_ends_what_runs_and_nothing_is_posted(tmp_path, monkeypatch):
    model = Companion(held="follow_up")
    async with companion(tmp_path, monkeypatch, model) as (f, runtime, clock):
        await talk(f, runtime, tmp_path)
        await clock.nobody_writes_for(FOLLOW_UP_AT_LAST, runtime, lambda: "follow_up" in model.kinds)
        before = len(f.said("debate", "gemini"))
        await f.discord.say("Bob", "casual", "good morning")

        def ended():
            return recorded(tmp_path, "SELECT reason FROM turns WHERE kind = 'reflection' AND trigger = 'follow_up'")

        await until(lambda: ended() == [("person_wrote",)], 60)
        assert len(f.said("debate", "gemini")) == before
        assert recorded(tmp_path, "SELECT cost_usd > 0 FROM turns WHERE trigger = 'follow_up'") == [(1,)]
        assert recorded(tmp_path, UNASKED) == []


async def test_who_has_not_agreed_is_not_written_to(tmp_path, monkeypatch):
    monkeypatch.setitem(IDLE, "UNASKED_MESSAGES", "opt_in")
    model = Companion()
    async with companion(tmp_path, monkeypatch, model) as (f, runtime, clock):
        await talk(f, runtime, tmp_path)
        await clock.nobody_writes_for(IDLE_AFTER, runtime, lambda: recorded(tmp_path, "SELECT 1 FROM profiles"))

        def both_wait():
            return all("turned on" in _why(runtime, task) for task in ("follow_up", "discover"))

        await clock.nobody_writes_for(DISCOVER_AT_LAST, runtime, both_wait)
        assert model.tasks == ["summarise", "profile"]


def _why(runtime, task):
    return runtime.coordinator.idle._board.schedule_of(task, "gemini").state.why
