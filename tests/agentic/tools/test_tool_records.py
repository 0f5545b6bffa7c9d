from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.tools.call_log import ToolRecord, ToolRecords, decode_record, encode_record

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp()


def record(number=1, **changes):
    values = {
        "id": f"t{number}:1",
        "agent": "claude",
        "channel_id": 7,
        "turn_id": f"t{number}",
        "after_message_id": number,
        "name": "look",
        "arguments": {"at": "tree"},
        "output": "tall",
        "at": NOON + number,
        "asked_by": 42,
    }
    return ToolRecord(**{**values, **changes})


def lines(path):
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


async def test_what_was_added_is_read_by_the_next_run_in_the_order_of_the_calls(tmp_path):
    async with ToolRecords(tmp_path / "tools") as records:
        for number in range(20):
            records.add(record(number))
    async with ToolRecords(tmp_path / "tools") as records:
        assert records.for_channel("claude", 7) == tuple(record(number) for number in range(20))
        assert records.for_channel("grok", 7) == records.for_channel("claude", 8) == ()


async def test_there_is_one_file_for_an_agent_a_channel_and_an_hour_of_utc(tmp_path):
    async with ToolRecords(tmp_path) as records:
        records.add(record(1, at=NOON - 0.001))
        records.add(record(2, at=NOON))
        records.add(record(3, at=NOON + 3599.999))
        records.add(record(4, agent="grok"))
        records.add(record(5, channel_id=8))
    assert {str(path.relative_to(tmp_path)): lines(path) for path in tmp_path.rglob("*.jsonl")} == {
        "claude/7/2026-11-20T11.jsonl": ["t1:1"],
        "claude/7/2026-11-20T12.jsonl": ["t2:1", "t3:1"],
        "grok/7/2026-11-20T12.jsonl": ["t4:1"],
        "claude/8/2026-11-20T12.jsonl": ["t5:1"],
    }


async def test_a_later_record_of_a_call_takes_the_place_of_the_earlier(tmp_path):
    async with ToolRecords(tmp_path) as records:
        records.add(record(1, output=None))
        records.add(record(2))
        records.add(record(1))
        records.belongs_to("claude", 7, "t1", 99)
        expected = (record(1, message_id=99), record(2))
        assert records.for_channel("claude", 7) == expected
    async with ToolRecords(tmp_path) as records:
        assert records.for_channel("claude", 7) == expected


async def test_the_files_are_for_the_owner_alone(tmp_path):
    async with ToolRecords(tmp_path / "tools") as records:
        records.add(record())
    (path,) = tmp_path.rglob("*.jsonl")
    assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "tools").stat().st_mode & 0o077 == 0


async def test_a_torn_last_line_is_skipped_and_what_follows_begins_a_line_of_its_own(tmp_path, caplog):
    async with ToolRecords(tmp_path) as records:
        records.add(record(1))
        records.add(record(2))
    (path,) = tmp_path.rglob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    async with ToolRecords(tmp_path) as records:
        assert records.for_channel("claude", 7) == (record(1),)
        records.add(record(3))
    async with ToolRecords(tmp_path) as records:
        assert records.for_channel("claude", 7) == (record(1), record(3))
    assert "skipped 1 unreadable lines" in caplog.text


async def test_nothing_is_lost_at_the_end_however_slow_the_disk_is_and_the_loop_does_not_wait(tmp_path, monkeypatch):
    free, threads = threading.Event(), set()
    records = await ToolRecords(tmp_path).__aenter__()
    append = records._files.append

    def slow(*of):
        threads.add(threading.get_ident())
        free.wait(10)
        append(*of)

    monkeypatch.setattr(records._files, "append", slow)
    for number in range(50):
        records.add(record(number))
    free.set()
    await records.__aexit__()
    (path,) = tmp_path.rglob("*.jsonl")
    assert lines(path) == [f"t{number}:1" for number in range(50)]
    assert threading.get_ident() not in threads
    assert len(threads) == 1


async def test_a_disk_that_takes_nothing_is_told_and_memory_goes_on(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    records = ToolRecords(tmp_path / "file" / "tools")
    records.add(record())
    await records.__aexit__()
    assert records.for_channel("claude", 7) == (record(),)
    assert "writing a tool record failed" in caplog.text


async def test_an_agents_key_is_no_path(tmp_path, caplog):
    async with ToolRecords(tmp_path / "tools") as records:
        records.add(record(agent="../../out"))
    assert list(tmp_path.rglob("*.jsonl")) == []
    assert "writing a tool record failed" in caplog.text


async def test_what_lies_before_the_oldest_message_leaves_memory_and_stays_on_the_disk(tmp_path):
    async with ToolRecords(tmp_path) as records:
        records.add(record(1))
        records.add(record(2, after_message_id=2, message_id=10))
        records.add(record(3, after_message_id=10))
        records.prune("claude", 7, 10)
        assert [kept.id for kept in records.for_channel("claude", 7)] == ["t2:1", "t3:1"]
        records.prune("claude", 7, 11)
        records.prune("nobody", 1, 11)
        assert records.for_channel("claude", 7) == ()
    (path,) = tmp_path.rglob("*.jsonl")
    assert lines(path) == ["t1:1", "t2:1", "t3:1"]


async def test_memory_is_bounded_by_channel_and_in_all_also_when_files_are_read(tmp_path):
    async with ToolRecords(tmp_path, max_of_channel=3) as records:
        for number in range(10):
            records.add(record(number, at=NOON + number * 3600))
        assert [kept.after_message_id for kept in records.for_channel("claude", 7)] == [7, 8, 9]
    async with ToolRecords(tmp_path, max_of_channel=3) as records:
        assert [kept.after_message_id for kept in records.for_channel("claude", 7)] == [7, 8, 9]
    async with ToolRecords(tmp_path, max_characters=1200) as records:
        assert [kept.after_message_id for kept in records.for_channel("claude", 7)] == [8, 9]
        records.add(record(1, channel_id=8, output="x" * 400))
        assert len(records.for_channel("claude", 7)) == 0
        assert len(records.for_channel("claude", 8)) == 1


async def test_a_person_can_have_everything_forgotten_that_they_or_nobody_asked_for_and_their_id_elsewhere(tmp_path):
    async with ToolRecords(tmp_path) as records:
        records.add(record(1))
        records.add(record(2, asked_by=43))
        records.add(record(3, asked_by=43, output="<@42> and <@420> live in Ulm", arguments={"who": 42}))
        records.add(record(4, asked_by=420))
        records.add(record(5, asked_by=None, output="<@42> lives in Ulm"))
        records.add(record(6, asked_by=None))
        records.add(record(7, channel_id=8))
        assert await records.forget_person(42) == 3
        left = records.for_channel("claude", 7)
        assert [kept.id for kept in left] == ["t2:1", "t3:1", "t4:1", "t6:1"]
        assert (left[1].output, left[1].arguments) == ("<@0> and <@420> live in Ulm", {"who": 0})
        assert records.for_channel("claude", 8) == ()
    async with ToolRecords(tmp_path) as records:
        assert records.for_channel("claude", 7) == left, "the files say the same"
    (path,) = tmp_path.rglob("*.jsonl")
    assert path.stat().st_mode & 0o077 == 0
    assert list(tmp_path.rglob("*.new")) == []


async def test_forgetting_comes_after_the_writes_that_were_asked_for_before_it(tmp_path):
    async with ToolRecords(tmp_path / "none") as records:
        assert await records.forget_person(42) == 0
        for number in range(30):
            records.add(record(number))
        assert await records.forget_person(42) == 30
    assert list(tmp_path.rglob("*.jsonl")) == []


async def test_secrets_are_taken_out_before_anything_is_kept(tmp_path):
    async with ToolRecords(tmp_path, redact=lambda text: text.replace("hunter2", "[redacted]")) as records:
        records.add(record(output="the key is hunter2"))
        assert records.for_channel("claude", 7)[0].output == "the key is [redacted]"
    (path,) = tmp_path.rglob("*.jsonl")
    assert "hunter2" not in path.read_text()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, st.dictionaries(TEXTS, st.integers(-(10**30), 10**30) | TEXTS | st.lists(TEXTS)))
def test_a_record_is_one_line_and_comes_back_as_it_was(output, arguments):
    original = record(output=output, arguments=arguments)
    line = encode_record(original).encode()
    assert b"\n" not in line
    assert decode_record(line) == original


@pytest.mark.parametrize(
    "line",
    ["", "[]", "null", "{}", '{"id": 1}', encode_record(record())[:-5], "\xff", "[" * 100_000],
)
def test_a_line_of_another_kind_is_none(line):
    assert decode_record(line) is None


def test_what_a_later_version_adds_does_not_hide_a_record():
    line = json.dumps(json.loads(encode_record(record())) | {"more": 1})
    assert decode_record(line) == record()
    without = {name: value for name, value in json.loads(encode_record(record())).items() if name != "asked_by"}
    assert decode_record(json.dumps(without)) == replace(record(), asked_by=None)


def test_half_a_character_does_not_stop_a_record():
    assert decode_record(encode_record(record(output="a\ud800"))) == record(output="a?")


@pytest.mark.promise(76)
async def test_what_a_rewriting_that_was_cut_off_left_is_removed_at_the_start(tmp_path):
    async with ToolRecords(tmp_path / "tools") as records:
        records.add(record())
    (path,) = (tmp_path / "tools").rglob("*.jsonl")
    path.with_suffix(".new").write_text(path.read_text())
    async with ToolRecords(tmp_path / "tools") as records:
        assert len(records.for_channel("claude", 7)) == 1
    assert not path.with_suffix(".new").exists()
