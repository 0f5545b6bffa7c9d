"""The recorder in a process: as the settings want it, and to the last turn."""

import asyncio
import sqlite3

from agent_config import load_settings
from agentic.record import recorder as module
from agentic.record.recorder import OFF, recording
from agentic.state.turn_records import UNKNOWN
from agentic.wire import keys
from tests.support.recording import turn
from tests.support.redis_server import until


def settings(tmp_path, **values):
    return load_settings({"DATA_DIR": str(tmp_path), **values}, None)


async def test_with_record_days_0_nothing_is_read_and_no_file_is_made(scene, tmp_path):
    await scene.put(turn("m1"))
    off = settings(tmp_path, RECORD_DAYS="0")
    async with recording(off, scene.link, holder="me") as read_state:
        assert read_state() == OFF
    assert list(tmp_path.iterdir()) == []
    assert await scene.link.call(lambda redis: redis.exists(keys.RECORDER_OWNER)) == 0


async def test_the_last_turn_of_a_process_is_recorded_before_it_ends(scene, tmp_path):
    async with recording(settings(tmp_path), scene.link, holder="me") as read_state:
        await until(lambda: read_state() == "recording")
        await scene.put(turn("m1"))
    assert scene.rows("SELECT id FROM turns") == [("m1",)]
    assert await scene.link.call(lambda redis: redis.exists(keys.RECORDER_OWNER)) == 0, "the next one need not wait"


async def test_a_late_end_replaces_what_was_known_of_a_turn(scene, tmp_path):
    async with recording(settings(tmp_path), scene.link, holder="me"):
        for _ in range(2):  # the second comes after the end
            await scene.put(turn("m1", kind=UNKNOWN, trigger=UNKNOWN, cost_usd=1.0, reason="interrupted"))
            await scene.put(turn("m1", cost_usd=0.25, reason=None))
    assert scene.rows("SELECT kind, cost_usd, outcome FROM turns") == [("mention", 0.25, "posted")]


async def test_a_fault_of_the_recorder_is_in_the_log_and_in_its_state_and_it_starts_again(
    scene, tmp_path, monkeypatch, caplog
):
    faults = [RuntimeError("a fault"), sqlite3.ProgrammingError("closed")]

    async def read_positions(db):
        if faults:
            raise faults.pop(0)
        return await right(db)

    right = module.read_positions
    monkeypatch.setattr(module, "read_positions", read_positions)
    await scene.put(turn("m1"))
    recorder = scene.recorder()
    states = set()
    task = asyncio.create_task(recorder.run())
    await until(lambda: states.add(recorder.state) or recorder.acting)
    await recorder.finish(task)
    assert "a bug in the program; the log has details" in states
    assert "RuntimeError: a fault" in caplog.text
    assert scene.rows("SELECT id FROM turns") == [("m1",)]
