"""A person is forgotten in every process, at once or when it is back, and nobody else is."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentic.agent import forgetting as forget
from agentic.agent.events import MentionEvent, save_event
from agentic.agent.forgetting import DONE_FILE, CompletedRequests, ForgetOutcome, Forgetting
from agentic.chat.directory import Directory
from agentic.chat.service import AgentChannels, ChatService
from agentic.chat.splitting import MAX_MESSAGE
from agentic.chat.transcript import Transcripts
from agentic.context.entries import Entry, Speaker
from agentic.personas.memory import Origin, append
from agentic.services.signal.contacts import Chats, Contacts
from agentic.services.signal.stores import SIGNAL_PEOPLE, AddressBook
from agentic.state.forget_requests import ForgetRequests, RemovedWords
from agentic.state.shared_state import SharedState
from agentic.state.turn_records import TurnRecord
from agentic.tools.call_log import ToolRecord, ToolRecords
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.support.redis_server import PATIENT, empty_redis, until

NOW = 1_800_000_000.0
LOUNGE = 10
ANN, BOB = 100, 101
NAMES = ("claude", "grok")


class Chat(ChatService):
    """A chat service that keeps something of people."""

    def __init__(self, forget: Callable[[int], Awaitable[None]]) -> None:
        self._forget = forget

    def owns(self, channel_id: int) -> bool:
        return False

    def channels_for(self, agent: str) -> AgentChannels | None:
        return None

    async def forget(self, person: int) -> None:
        await self._forget(person)


def removed(**counts: int) -> ForgetOutcome:
    return ForgetOutcome(Counter(counts))


class Machine:
    """A process and its files. `forgetting` is there while it runs."""

    def __init__(self, folder: Path) -> None:
        self.data, self.personas = folder / "data", folder / "personas"
        (self.personas / "claude").mkdir(parents=True, exist_ok=True)
        self.chats: list[ChatService] = []
        self.state: SharedState
        self.records: ToolRecords
        self.forgetting: Forgetting

    @asynccontextmanager
    async def running(self, link: RedisConnection) -> AsyncIterator[Machine]:
        bus, done = Bus(link), CompletedRequests(self.data)
        async with ToolRecords(self.data / "tools") as self.records:
            self.state = SharedState(link, lambda: NOW, holder="here")
            self.forgetting = Forgetting(
                self.state, NAMES, done, chats=self.chats, tools=self.records, personas=self.personas
            )
            self.forgetting.start(bus)
            tasks = [asyncio.create_task(work) for work in (bus.run(), self.forgetting.run())]
            try:
                await asyncio.wait_for(bus.ready.wait(), 10)
                yield self
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def note(self, text: str, person: int) -> None:
        append(self.personas / "claude", text, Origin(LOUNGE, 1, person))

    def call(self, number: int, person: int) -> None:
        values: dict[str, Any] = {"channel_id": LOUNGE, "turn_id": "m1", "after_message_id": 1, "at": NOW}
        self.records.add(
            ToolRecord(id=f"r{number}", agent="grok", name="clock", arguments={}, asked_by=person, **values)
        )

    @property
    def memory(self) -> str:
        return (self.personas / "claude" / "memory.md").read_text(encoding="utf-8")

    @property
    def calls(self) -> list[str]:
        return [record.id for record in self.records.for_channel("grok", LOUNGE)]

    @property
    def done(self) -> bool:
        return (self.data / DONE_FILE).exists()


@pytest.fixture
async def link() -> AsyncIterator[RedisConnection]:
    async with RedisConnection(empty_redis(), command_timeout=PATIENT) as link:
        yield link


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "there")


async def ask(state: SharedState, person: int, message_id: int) -> None:
    entry = Entry(message_id, Speaker(person, "Bob", "person"), "a private thing", NOW)
    event = MentionEvent.of(entry, channel_id=LOUNGE, theme="casual", to_all=False, now=NOW)
    await state.turns.claim("claude", event.id, event.deadline, save_event(event, 0))


def ended(number: int, person: int) -> TurnRecord:
    record = TurnRecord(id=f"m{number}", agent="grok", at=NOW, kind="mention", trigger="mention", channel_id=1)
    return record.model_copy(update={"asked_by": person})


async def record(state: SharedState, number: int, person: int) -> None:
    await state.turns.settle("grok", f"m{number}", "{}", NOW + 90, record=ended(number, person))


async def test_what_redis_holds_of_a_person_goes_and_nobody_elses(link: RedisConnection, here: Machine):
    async with here.running(link):
        await ask(here.state, BOB, 1)
        await ask(here.state, ANN, 2)
        for number, person in enumerate((BOB, BOB, ANN)):
            await record(here.state, number, person)
        assert await here.forgetting.forget(BOB) == removed(records=2, questions=1)
        assert await here.state.turns.open_ids("claude") == ["m2"]
        assert await link.commands.exists(keys.turn("claude", "m1")) == 0
        assert [record.asked_by for record in await here.state.turns.records.last("grok", count=9)] == [ANN]
        assert await here.forgetting.forget(BOB) == removed()


@pytest.mark.promise(544)
async def test_a_new_redis_whose_clock_is_behind_forgets_all_the_same(
    link: RedisConnection, here: Machine, there: Machine
):
    here.data.mkdir(parents=True)
    (here.data / DONE_FILE).write_text("4000000000000\n")  # completed with the Redis of before
    async with here.running(link), there.running(link):
        heard: list[int] = []

        async def note(person: int) -> None:
            heard.append(person)

        here.chats.append(Chat(note))
        await there.forgetting.forget(ANN)
        await until(lambda: heard == [ANN])
        await record(here.state, 1, BOB)
        assert await here.forgetting.forget(BOB) == removed(records=1)
        assert heard == [ANN, BOB]


async def test_what_the_files_hold_of_a_person_goes_in_every_process(
    link: RedisConnection, here: Machine, there: Machine
):
    async with here.running(link), there.running(link):
        for machine in (here, there):
            for number, person in enumerate((BOB, ANN)):
                machine.note(f"said by {person}", person)
                machine.call(number, person)
            link.present.clear()
            await record(machine.state, 1, BOB)
            link.present.set()
        counts = (await here.forgetting.forget(BOB)).counts
        assert (counts["tool_calls"], counts["notes"]) == (1, 1)
        await until(lambda: there.done)
        for machine in (here, there):
            assert (f"said by {BOB}" in machine.memory, f"said by {ANN}" in machine.memory) == (False, True)
            assert machine.calls == ["r1"]
            await machine.state.link.write_queued()
        assert await here.state.turns.records.last("grok", count=9) == [], "what was to be written yet is not written"


async def test_an_address_that_waits_for_redis_does_not_come_back(link: RedisConnection, here: Machine):
    contacts, transcripts = Contacts({}), Transcripts(Directory())
    addresses = AddressBook(link, contacts, Chats(contacts), transcripts)
    async with here.running(link):
        here.chats.append(Chat(lambda person: addresses.forget(person)))
        link.present.clear()
        await addresses.note(SIGNAL_PEOPLE, BOB, "Bob")
        await addresses.note(SIGNAL_PEOPLE, ANN, "Ann")
        link.present.set()
        await here.forgetting.forget(BOB)
        await link.write_queued()
    assert await addresses.read(SIGNAL_PEOPLE) == {ANN: "Ann"}


async def test_a_process_that_was_away_carries_it_out_when_it_is_back_and_once(
    link: RedisConnection, here: Machine, there: Machine
):
    async with there.running(link):
        for number, person in enumerate((BOB, ANN)):
            there.note(f"said by {person}", person)
            there.call(number, person)
    async with here.running(link):
        await here.forgetting.forget(BOB)
        async with there.running(link):
            await until(lambda: there.done)
            assert there.calls == ["r1"]
            assert f"said by {BOB}" not in there.memory
            there.note("said anew", BOB)
            there.call(3, BOB)
        async with there.running(link):
            await here.forgetting.forget(ANN)
            await until(lambda: f"said by {ANN}" not in there.memory)
            assert there.calls == ["r3"], "what came after the order stays"
            assert "said anew" in there.memory
            await here.forgetting.forget(BOB)
            await until(lambda: "said anew" not in there.memory)


async def test_two_processes_with_the_same_files_get_in_nobodys_way(
    link: RedisConnection, here: Machine, tmp_path: Path
):
    beside = Machine(tmp_path / "here")
    async with here.running(link), beside.running(link):
        here.note("said by Bob", BOB)
        here.call(1, BOB)
        beside.call(2, BOB)
        await until(lambda: len(list(here.data.rglob("*.jsonl"))) == 1)
        assert (await here.forgetting.forget(BOB)).counts["notes"] == 1
        await until(lambda: not beside.calls)
        assert here.calls == []
        await until(lambda: not list(here.data.rglob("*.jsonl")))


async def test_what_cannot_be_rewritten_is_logged_and_retried_at_the_next_start(
    link: RedisConnection, here: Machine, caplog: pytest.LogCaptureFixture
):
    memory = here.personas / "claude" / "memory.md"
    async with here.running(link):
        here.note("said by Bob", BOB)
        here.call(1, BOB)
        text = memory.read_bytes()
        memory.unlink()
        memory.symlink_to(here.personas / "elsewhere.md")
        assert await here.forgetting.forget(BOB) == removed(tool_calls=1, failed=1)
        memory.unlink()
        memory.write_bytes(text)
        assert (await here.forgetting.forget(ANN)).whole
        assert not here.done, "an order that was not carried out is not passed by"
    assert "cannot rewrite memory of claude: links are not followed" in caplog.text
    assert str(here.personas) not in caplog.text
    async with here.running(link):
        await until(lambda: here.done)
        assert "said by Bob" not in here.memory


async def test_a_person_is_told_when_records_of_tools_cannot_be_rewritten(
    link: RedisConnection, here: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    async def refuse(_: int) -> int:
        raise PermissionError(13, "Permission denied")

    async with here.running(link):
        here.note("said by Bob", BOB)
        monkeypatch.setattr(here.records, "forget_person", refuse)
        assert await here.forgetting.forget(BOB) == removed(notes=1, failed=1), "the rest goes"
    assert "Permission denied" in caplog.text


async def test_an_order_that_redis_did_not_take_removes_nothing(
    link: RedisConnection, here: Machine, monkeypatch: pytest.MonkeyPatch
):
    async def away(*_: object) -> Any:
        raise StateUnavailable("gone")

    async with here.running(link):
        here.note("said by Bob", BOB)
        monkeypatch.setattr(link, "script", away)
        with pytest.raises(StateUnavailable):
            await here.forgetting.forget(BOB)
        assert "said by Bob" in here.memory


async def test_forgetting_refills_no_limit(link: RedisConnection, here: Machine):
    async with here.running(link):
        await link.commands.zadd(keys.mentions(BOB), {"1": NOW})
        await link.commands.hset(keys.budget("2027-01-15"), f"person:{BOB}", "5")
        await here.forgetting.forget(BOB)
        assert await link.commands.exists(keys.mentions(BOB), keys.budget("2027-01-15")) == 2


@pytest.mark.parametrize("kept", ["", "nonsense", "9" * 40, "-1"])
def test_a_mark_that_is_no_time_counts_as_none_and_never_goes_back(tmp_path: Path, kept: str):
    (tmp_path / DONE_FILE).write_text(kept)
    done = CompletedRequests(tmp_path)
    assert done.last == 0
    done.keep(5)
    done.keep(4)
    assert CompletedRequests(tmp_path).last == 5
    assert [path.name for path in tmp_path.iterdir()] == [DONE_FILE]


def test_what_a_write_that_was_cut_off_left_is_removed_at_the_start_unless_it_is_fresh(tmp_path: Path):
    old, fresh = tmp_path / f".{DONE_FILE}-0a0b0c0d", tmp_path / f".{DONE_FILE}-01020304"
    old.write_text("5")
    fresh.write_text("5")
    os.utime(old, (1.0, 1.0))
    CompletedRequests(tmp_path)
    assert (old.exists(), fresh.exists()) == (False, True)


async def test_the_reply_says_what_the_recorder_removed(link: RedisConnection, here: Machine, monkeypatch):
    monkeypatch.setattr(forget, "RECORDER_SECONDS", 0.05)
    recorder = ForgetRequests(link)
    async with here.running(link):
        await link.commands.set(keys.RECORDER_OWNER, "some process")
        await recorder.answer(BOB, RemovedWords(at=1, prompts=9))  # to an earlier request
        assert "The rest of the history will be deleted" in (await here.forgetting.forget(BOB)).text
        await recorder.answer(BOB, RemovedWords(at=10**13, prompts=3, reactions=1, messages=4))
        said = (await here.forgetting.forget(BOB)).text
    assert said.endswith("3 prompts, 1 reaction, and 4 logged messages of yours.")


def test_the_reply_fits_into_a_message_and_says_what_stays():
    words = {"prompts": 10**6, "turns": 20_000, "reactions": 10**6, "messages": 10**6}
    here = {"records": 20_000, "questions": 1_000, "tool_calls": 10**9, "notes": 10**6, "kept_notes": 10**6}
    outcome = removed(**here, **words)
    assert len(outcome.text) <= MAX_MESSAGE
    assert outcome.text.startswith("Done. I deleted 20000 turn records, 1000 open questions, ")
    assert "1000000 prompts" in outcome.text
    told = outcome.details()
    assert len(told) <= MAX_MESSAGE
    for words in (
        "Other machines",
        "reset your limits",
        "(30 days)",
        "Your messages and the bots' answers",
        "20000 turns",
    ):
        assert words in told
    assert "I took your ID off 1 note " in removed(kept_notes=1).details()
    assert "your ID off" not in removed().details()
    assert "nothing" in removed().text
