"""The stream's ids, queues and bounds, without a server."""

from __future__ import annotations

import re

import pytest

from agentic.console.api.live_feed import CHUNK, MAX_WAITING, Hub, Reader, TooManyReaders


def opened(hub: Hub, after: str = "") -> tuple[Reader, list[str]]:
    cuts: list[str] = []
    return hub.open(after, lambda: cuts.append("cut")), cuts


async def texts(reader: Reader) -> list[str]:
    """The data of what waits for a reader."""
    found = b""
    while chunk := await reader.next(0):
        found += chunk
    return re.findall(r"^data: (.*)$", found.decode(), re.MULTILINE)


async def test_a_page_that_was_away_gets_what_it_missed_once_and_in_order() -> None:
    hub = Hub()
    hub.publish("message", 1)
    cursor = hub.cursor
    hub.publish("message", 2)
    hub.show("situation", "of the moment")
    hub.publish("message", 3)
    reader, _ = opened(hub, after=cursor)
    hub.publish("message", 4)
    assert await texts(reader) == ["2", "3", "4"]


@pytest.mark.promise(136)
@pytest.mark.parametrize(
    "after", ["other-1", "nonsense", "-", "{start}-99", "{start}-0", "{start}--1", "{start}-" + "9" * 40]
)
async def test_a_page_that_missed_too_much_or_knows_another_start_begins_anew(after: str) -> None:
    hub = Hub(kept=2)
    for number in range(3):
        hub.publish("message", number)
    start = hub.cursor.partition("-")[0]
    reader, _ = opened(hub, after.replace("{start}", start))
    assert await reader.next(0) == f"id: {hub.cursor}\nevent: reset\ndata: {{}}\n\n".encode()


@pytest.mark.promise(135)
async def test_a_reader_that_does_not_read_is_cut_off_and_the_others_go_on() -> None:
    hub = Hub(kept=2 * MAX_WAITING)
    slow, cuts = opened(hub)
    quick, _ = opened(hub)
    for number in range(MAX_WAITING + 1):
        hub.publish("message", number)
        assert await quick.next(0)
    assert (cuts, await slow.next(0), len(hub.readers)) == (["cut"], None, 1)
    hub.publish("message", "later")
    assert await texts(quick) == ['"later"']


async def test_what_is_written_at_once_is_bounded() -> None:
    hub = Hub()
    reader, _ = opened(hub)
    for _ in range(20):
        hub.publish("message", "x" * 4000)
    assert len(await reader.next(0) or b"") < CHUNK + 5000


@pytest.mark.promise(135)
async def test_no_more_readers_than_allowed_and_none_after_the_end() -> None:
    hub = Hub(most_readers=1)
    reader, _ = opened(hub)
    with pytest.raises(TooManyReaders):
        opened(hub)
    hub.leave(reader)
    reader, _ = opened(hub)
    hub.close()
    assert (await reader.next(60), hub.watched.is_set()) == (None, False)
    with pytest.raises(TooManyReaders):
        opened(hub)


async def test_a_line_break_or_half_a_character_in_a_text_stays_inside_of_its_event() -> None:
    hub = Hub()
    reader, _ = opened(hub)
    hub.publish("message", "a\n\nevent: reset\ndata: {}\r\n\u2028\ud800")
    frame = await reader.next(0) or b""
    assert frame.count(b"\n") == 4
    assert b"\r" not in frame
