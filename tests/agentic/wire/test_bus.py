from __future__ import annotations

import asyncio
import json
import logging
import random
import time

import pytest
from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.bus import LATE_SECONDS, MAX_PAUSE, AgentAbsent, AgentTimedOut, Bus
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.messages import Instruction, MentionNotice, Result, RoomBrief, read_instruction
from tests.support.redis_server import RedisServer, until


class Always(random.Random):
    """Chance that is none."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def uniform(self, a: float, b: float) -> float:
        return min(max(self._value, a), b)


def instruction(instruction_id: str = "i1", **fields) -> Instruction:
    return Instruction(instruction_id=instruction_id, channel_id=7, **fields)


def answer_with(bus: Bus, text: str, agent: str = "claude", deaf_for: int = 0) -> list[str]:
    """Let `bus` play an agent that overhears its first instructions. Returns the ids that it heard."""
    heard: list[str] = []

    async def take(raw: str) -> None:
        asked = read_instruction(raw)
        heard.append(asked.instruction_id)
        if len(heard) > deaf_for:
            result = Result(instruction_id=asked.instruction_id, agent_name=agent, text=text)
            await bus.publish(keys.results(agent), result)

    bus.subscribe(keys.instructions(agent), take)
    return heard


async def test_an_instruction_is_answered_by_the_agents_result(address, open_bus):
    agent, coordinator = await open_bus(address), await open_bus(address)
    answer_with(agent, "hello")
    await until(agent.ready.is_set)
    result = await coordinator.ask("claude", instruction())
    assert (result.text, result.instruction_id) == ("hello", "i1")


async def test_many_questions_at_once_get_their_own_results(address, open_bus):
    bus = await open_bus(address)
    answer_with(bus, "hello")
    results = await asyncio.gather(*(bus.ask("claude", instruction(f"i{n}")) for n in range(50)))
    assert [result.instruction_id for result in results] == [f"i{n}" for n in range(50)]


async def test_an_instruction_without_deadline_is_sent_with_one(address, open_bus, clock):
    bus = await open_bus(address, clock=clock)
    sent: list[dict] = []
    bus.subscribe(keys.instructions("claude"), lambda raw: sent.append(json.loads(raw)))
    question = asyncio.create_task(bus.ask("claude", instruction()))
    await until(lambda: sent)
    assert sent[0]["deadline"] == clock() + 90
    clock.now += 91
    with pytest.raises(AgentTimedOut):
        await question


async def test_a_question_is_sent_again_until_it_is_answered(address, open_bus):
    bus = await open_bus(address)
    heard = answer_with(bus, "at last", deaf_for=2)
    assert (await bus.ask("claude", instruction())).text == "at last"
    assert heard == ["i1"] * 3


async def test_a_question_outlives_a_restart_of_redis(server: RedisServer, open_bus):
    slow = {"republish_every": 60.0}  # only the resubscription can send it again
    agent, coordinator = await open_bus(server.url), await open_bus(server.url, **slow)
    heard = answer_with(agent, "still here", deaf_for=1)
    await until(agent.ready.is_set)
    question = asyncio.create_task(coordinator.ask("claude", instruction()))
    await until(lambda: heard)
    server.kill()
    await until(lambda: not coordinator.ready.is_set() and not agent.ready.is_set())
    server.start()
    async with asyncio.timeout(10):
        assert (await question).text == "still here"
    assert heard[:2] == ["i1", "i1"]


async def test_a_question_asked_while_redis_is_away_is_answered_when_it_is_back(server: RedisServer, open_bus):
    bus = await open_bus(server.url)
    answer_with(bus, "back again")
    server.kill()
    await until(lambda: not bus.ready.is_set())
    question = asyncio.create_task(bus.ask("claude", instruction(), absent_grace=0))
    server.start()
    assert (await question).text == "back again"


async def test_a_second_result_and_an_unasked_one_are_dropped(address, open_bus):
    bus = await open_bus(address)
    answer_with(bus, "first")
    await bus.ask("claude", instruction("i1"))
    await bus.publish(keys.results("claude"), Result(instruction_id="i1", agent_name="claude", text="again"))
    await bus.publish(keys.results("claude"), Result(instruction_id="never", agent_name="claude"))
    assert (await bus.ask("claude", instruction("i2"))).text == "first"


async def test_the_same_instruction_cannot_be_asked_twice_at_once(address, open_bus, clock):
    bus = await open_bus(address, clock=clock)
    first = asyncio.create_task(bus.ask("claude", instruction()))
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="i1"):
        await bus.ask("claude", instruction())
    clock.now += 91
    with pytest.raises((AgentTimedOut, AgentAbsent)):
        await first


async def test_an_agent_that_nobody_plays_is_absent_at_once_when_asked_without_grace(address, open_bus, clock):
    bus = await open_bus(address, clock=clock)
    with pytest.raises(AgentAbsent):
        await bus.ask("grok", instruction(), absent_grace=0)


@pytest.fixture
def sent(monkeypatch):
    """How many listeners each instruction had, as often as it was sent."""
    batch, found = RedisConnection.batch, []

    async def counted(link, fill):
        outcome = await batch(link, fill)
        found.append(sum(count for _, count in outcome[1]))
        return outcome

    monkeypatch.setattr(RedisConnection, "batch", counted)
    return found


async def heard_within_the_grace(bus, sent, clock):
    """Asks for somebody who comes in the last moment, and then for one who does not."""
    question = asyncio.create_task(bus.ask("claude", instruction()))
    clock.now += 9.9
    await until(lambda: sent[-2:] == [0, 0])
    assert not question.done()
    answer_with(bus, "just in time")
    assert (await question).text == "just in time"
    clock.now += 0.2
    with pytest.raises(AgentAbsent):
        await bus.ask("grok", instruction())


async def test_absence_is_not_judged_before_the_grace_is_over(address, open_bus, clock, sent):
    await heard_within_the_grace(await open_bus(address, clock=clock), sent, clock)


async def test_whoever_follows_another_leader_grants_the_grace_anew(address, open_bus, clock, sent):
    bus = await open_bus(address, clock=clock)
    clock.now += 60
    bus.grant_grace()
    await heard_within_the_grace(bus, sent, clock)


async def test_a_monitor_that_listens_by_pattern_is_not_an_agent(server: RedisServer, open_bus):
    bus = await open_bus(server.url)
    async with Redis.from_url(server.url) as client, client.pubsub() as monitor:
        await monitor.psubscribe("agent:*")
        await monitor.get_message(timeout=5)
        with pytest.raises(AgentAbsent):
            await bus.ask("claude", instruction(), absent_grace=0)


async def test_the_deadline_ends_a_question(address, open_bus):
    bus = await open_bus(address)
    answer_with(bus, "never", deaf_for=10_000)
    with pytest.raises(AgentTimedOut):
        await bus.ask("claude", instruction(deadline=time.time() + 0.05))


def in_room(**fields) -> Instruction:
    return instruction(room=RoomBrief(turn_number=1), **fields)


@pytest.mark.promise(152)
async def test_in_a_room_a_result_that_comes_just_after_the_deadline_still_counts(address, open_bus, clock):
    bus, heard = await open_bus(address, clock=clock), []
    bus.subscribe(keys.instructions("claude"), heard.append)
    question = asyncio.create_task(bus.ask("claude", in_room(deadline=clock() + 1)))
    await until(lambda: heard)
    clock.now += 1 + LATE_SECONDS / 2
    await bus.publish(keys.results("claude"), Result(instruction_id="i1", agent_name="claude", text="in time"))
    assert (await question).text == "in time"


@pytest.mark.promise(152)
async def test_in_a_room_an_agent_that_took_its_turn_and_is_gone_since_may_have_posted_and_is_waited_for(
    address, open_bus, clock
):
    bus, heard = await open_bus(address, clock=clock), []
    bus.subscribe(keys.instructions("claude"), heard.append)
    plain = asyncio.create_task(bus.ask("claude", instruction("i0"), absent_grace=0))
    question = asyncio.create_task(bus.ask("claude", in_room(deadline=clock() + 60), absent_grace=0))
    await until(lambda: len(heard) >= 2)
    bus.unsubscribe(keys.instructions("claude"))
    with pytest.raises(AgentAbsent):
        await plain
    assert not question.done()
    answer_with(bus, "posted before it died")
    assert (await question).text == "posted before it died"
    with pytest.raises(AgentAbsent):
        await bus.ask("grok", in_room(), absent_grace=0)


@pytest.mark.promise(101)
async def test_a_clock_that_is_set_back_does_not_make_a_question_endless(address, open_bus, clock):
    bus = await open_bus(address, clock=clock)
    heard = answer_with(bus, "never", deaf_for=10_000)
    question = asyncio.create_task(bus.ask("claude", instruction(deadline=clock() + 0.2)))
    await until(lambda: heard)
    clock.now -= 3600
    with pytest.raises(AgentTimedOut):
        await question


async def test_a_mention_notice_reaches_those_who_want_it(address, open_bus):
    bus = await open_bus(address)
    notices: list[MentionNotice] = []
    bus.on_notice(notices.append)
    for _ in range(2):
        bus.listen_to("claude")
    await until(bus.ready.is_set)
    for message_id in (9, 10):
        notice = MentionNotice(agent_name="claude", channel_id=7, message_id=message_id)
        await bus.publish(keys.results("claude"), notice)
    await until(lambda: notices and notices[-1].message_id == 10)
    assert [notice.message_id for notice in notices] == [9, 10]


async def test_messages_are_handled_in_order_and_a_slow_handler_holds_back_its_own_channel_only(address, open_bus):
    bus = await open_bus(address)
    go, slow, quick = asyncio.Event(), [], []

    async def slowly(raw: str) -> None:
        await go.wait()
        slow.append(json.loads(raw)["instruction_id"])

    bus.subscribe("slow", slowly)
    bus.subscribe("quick", lambda raw: quick.append(json.loads(raw)["instruction_id"]))
    await until(bus.ready.is_set)
    for n in range(20):
        await bus.publish("slow", instruction(str(n)))
        await bus.publish("quick", instruction(str(n)))
    await until(lambda: len(quick) == 20)
    assert slow == []
    go.set()
    await until(lambda: len(slow) == 20)
    assert slow == quick == [str(n) for n in range(20)]


async def test_a_handler_that_raises_is_logged_and_hears_the_next_message(address, open_bus, caplog):
    bus = await open_bus(address)
    heard: list[str] = []

    def fail_once(raw: str) -> None:
        heard.append(raw)
        if len(heard) == 1:
            raise RuntimeError("broken")

    bus.subscribe("room", fail_once)
    await until(bus.ready.is_set)
    await bus.publish("room", instruction())
    await bus.publish("room", instruction())
    await until(lambda: len(heard) == 2)
    assert "a handler of room failed" in caplog.text


async def test_nothing_is_heard_after_unsubscribing(address, open_bus):
    bus = await open_bus(address)
    heard: list[str] = []
    bus.subscribe("room", heard.append)
    await until(bus.ready.is_set)
    assert await bus.publish("room", instruction()) == 1
    await until(lambda: heard)
    bus.unsubscribe("room")
    other: list[str] = []
    bus.subscribe("other", other.append)
    await until(bus.ready.is_set)
    assert await bus.publish("room", instruction()) == 0
    assert len(heard) == 1


async def test_what_waits_for_a_handler_is_dropped_when_nobody_listens_any_more(address, open_bus):
    bus = await open_bus(address)
    go, began, ended = asyncio.Event(), [], asyncio.Event()

    async def slowly(raw: str) -> None:
        began.append(json.loads(raw)["instruction_id"])
        await go.wait()

    bus.subscribe("room", slowly)
    bus.subscribe("other", lambda _: ended.set())
    await until(bus.ready.is_set)
    lane = bus._lanes["room"]
    for n in range(3):
        await bus.publish("room", instruction(str(n)))
    await until(lambda: began and lane._queue.qsize() == 2)
    bus.unsubscribe("room")
    go.set()
    await bus.publish("other", instruction())
    await asyncio.wait_for(ended.wait(), 10)
    assert began == ["0"]


@pytest.mark.promise(30)
async def test_bytes_that_are_no_text_do_not_end_the_connection(server: RedisServer, open_bus):
    bus = await open_bus(server.url)
    heard: list[str] = []
    bus.subscribe("room", heard.append)
    await until(bus.ready.is_set)
    since = bus.connected_since
    async with Redis.from_url(server.url) as client:
        await client.publish("room", b"\xff\xfe\x00")
        await client.publish("room", "fine")
    await until(lambda: "fine" in heard)
    assert bus.connected_since == since


async def test_a_loss_is_said_once_and_so_is_the_return(server: RedisServer, open_bus, caplog):
    bus = await open_bus(server.url)
    back: list[bool] = []
    bus.on_resubscribed(lambda: back.append(bus.ready.is_set()))
    heard: list[str] = []
    bus.subscribe("room", heard.append)
    await until(bus.ready.is_set)
    server.kill()
    await until(lambda: not bus.ready.is_set())
    assert bus.connected_since is None
    with pytest.raises(StateUnavailable):
        await bus.publish("room", instruction())
    server.start()
    await until(lambda: back)
    await until(lambda: not bus._link.away)
    await bus.publish("room", instruction())
    await until(lambda: heard)
    said = [r.getMessage() for r in caplog.records if r.name.startswith("agentic") and r.levelno >= logging.INFO]
    assert len(said) == 2
    assert said[0].startswith("Redis is unavailable")
    assert said[1] == "Redis is back"


@pytest.mark.promise(91)
async def test_a_server_that_hangs_is_noticed_and_found_again(server: RedisServer, open_bus):
    bus = await open_bus(server.url, heartbeat=0.05)
    server.pause()
    await until(lambda: not bus.ready.is_set())
    server.resume()
    await until(bus.ready.is_set)


async def test_a_bus_that_is_cancelled_in_the_moment_redis_dies_ends(server: RedisServer):
    async with RedisConnection(server.url) as link:
        bus = Bus(link)
        run = asyncio.create_task(bus.run())
        await until(bus.ready.is_set)
        server.kill()
        run.cancel()
        done, _ = await asyncio.wait({run}, timeout=10)
        assert done
        assert run.cancelled()


async def test_the_bus_starts_before_redis_does(server: RedisServer):
    server.kill()
    async with RedisConnection(server.url) as link:
        bus = Bus(link)
        heard: list[str] = []
        bus.subscribe("room", heard.append)
        run = asyncio.create_task(bus.run())
        await until(lambda: bus._loss_said)
        server.start()
        await until(bus.ready.is_set)
        await link.present.wait()
        await bus.publish("room", instruction())
        await until(lambda: heard)
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()


async def test_a_channel_that_is_listened_to_again_is_ready_when_redis_has_confirmed_it_again(address, open_bus):
    bus = await open_bus(address)
    heard = answer_with(bus, "hello")
    await until(bus.ready.is_set)
    bus.unsubscribe(keys.instructions("claude"))
    await until(lambda: keys.instructions("claude") not in bus._asked)
    answer_with(bus, "hello again")
    assert not bus.ready.is_set(), "what is said now would be heard by nobody"
    await until(bus.ready.is_set)
    assert (await bus.ask("claude", instruction())).text == "hello again"
    assert heard == []


async def test_a_connection_that_is_lost_is_closed(server: RedisServer, open_bus):
    bus = await open_bus(server.url)
    bus.subscribe("news", lambda _: None)
    for _ in range(3):
        await until(bus.ready.is_set)
        server.flush()  # which ends subscriptions
        await until(lambda: not bus.ready.is_set())
    await until(bus.ready.is_set)
    clients = await bus._link.call(lambda redis: redis.client_list(_type="pubsub"))
    assert len(clients) == 1


async def test_pauses_between_attempts_grow_up_to_a_bound_and_begin_anew_after_a_connection(monkeypatch, link):
    bus, pauses, sleep = Bus(link, rng=Always(1.0)), [], asyncio.sleep
    attempts = iter([False] * 8 + [True, False, False])

    async def hold():
        held = next(attempts, None)
        if held is None:
            raise asyncio.CancelledError
        bus.connected_since = 1.0 if held else None
        return ConnectionError("gone")

    async def paused(seconds):
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(bus, "_hold_connection", hold)
    monkeypatch.setattr("agentic.wire.bus.asyncio.sleep", paused)
    with pytest.raises(asyncio.CancelledError):
        await bus.run()
    growing = [min(MAX_PAUSE, 0.1 * 2**n) for n in range(1, 9)]
    assert pauses == pytest.approx([*growing, 0.1, 0.2, 0.4])


async def test_after_a_loss_nothing_counts_as_subscribed_until_it_is_confirmed_again(address, open_bus):
    bus = await open_bus(address)
    bus.subscribe("news", lambda _: None)
    await until(lambda: "news" in bus._confirmed)
    bus._disconnected()
    bus._check_ready()
    assert not bus.ready.is_set()
