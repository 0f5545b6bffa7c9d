"""The answer to a person who asks what is kept."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from agent_config import FrontMatter, load_settings
from agentic.agent.privacy import ELSEWHERE, NO_RECORD, OwnMemory, Privacy
from agentic.context.options import Options
from agentic.record.memories import Kept
from agentic.record.notes import ChannelReader, ChannelReaders
from tests.support.agent_scene import KeptNotes
from tests.support.doubles import ALICE, Clock
from tests.support.remembered import Remembered

LOUNGE = 100
NAMES = {"claude": "Claude", "grok": "Grok", "penny": "Penny"}
COMPANION = FrontMatter(idle_tasks=("profile", "discover"), unprompted="everyone")


def privacy(
    *, env: dict[str, str] | None = None, log: bool = False, fronts: dict[str, FrontMatter] | None = None, **memory: Any
) -> Privacy:
    settings = load_settings({"TIMEZONE": "UTC", **(env or {})}, None)
    channel_readers, clock = ChannelReaders(), Clock()
    channel_readers.add(
        "claude", lambda _: ChannelReader(agent="claude", options=Options(message_log=log), service="discord")
    )
    channel_readers.add("penny", lambda _: None)
    nobody_writes: Any = None

    async def online() -> Collection[str]:
        return {"claude", "grok", "penny"}

    own = OwnMemory(Remembered(**memory), KeptNotes(), nobody_writes, clock, settings, SimpleNamespace(stores={}))
    return Privacy(own, channel_readers, settings, NAMES, online=online, fronts=lambda: fronts or {})


async def lines(made: Privacy) -> list[str]:
    return (await made.text(ALICE, LOUNGE)).splitlines()


async def test_it_names_who_reads_here_and_who_may_in_another_process() -> None:
    readers, log, *_ = await lines(privacy())
    assert "channel**: Claude. " in readers
    assert "Grok may read it, too" in readers
    assert "Penny" not in readers
    assert log == "**Message log**: off in this channel."


@pytest.mark.parametrize(
    ("days", "record", "says"),
    [("30", "90", "for 30 days"), ("1", "90", "for a day"), ("30", "7", "for 7 days"), ("none", "none", "without a")],
)
async def test_the_log_is_named_with_how_long_it_is_kept(days: str, record: str, says: str) -> None:
    made = privacy(env={"MESSAGE_LOG_DAYS": days, "RECORD_DAYS": record}, log=True)
    assert f"messages here are stored {says}" in (await lines(made))[1]
    assert says in made.log_line(LOUNGE)


async def test_without_a_record_there_is_no_log_and_nothing_is_kept() -> None:
    made = privacy(env={"RECORD_DAYS": "0"}, log=True)
    assert made.log_line(LOUNGE) == ""
    assert (await lines(made))[1:3] == ["**Message log**: off in this channel.", f"**Stored about you**: {NO_RECORD}"]


async def test_a_log_that_keeps_nothing_is_none() -> None:
    assert privacy(env={"MESSAGE_LOG_DAYS": "0"}, log=True).log_line(LOUNGE) == ""


async def test_it_counts_what_is_kept_about_the_person() -> None:
    kept = Kept({"reaction": 0, "turn": 1, "logged message": 12}, 5, 1_780_000_000.0)
    line = (await lines(privacy(kept={ALICE: kept})))[2]
    assert line.endswith(
        "1 turn, 12 logged messages, and a profile of 5 topics. Your oldest logged message is from 2026-05-28."
    )
    assert (await lines(privacy()))[2].endswith("in all channels: nothing.")
    assert (await lines(privacy(is_here=False)))[2] == f"**Stored about you**: {ELSEWHERE}"


@pytest.mark.parametrize(
    ("fronts", "chosen", "says"),
    [
        ({"claude": FrontMatter()}, {}, "none. No bot here writes on its own"),
        ({"penny": FrontMatter(idle_tasks=("profile",))}, {}, "none. No bot"),
        (
            {"penny": COMPANION},
            {},
            "Penny may write to you, as the owner chose. Turn this off with",
        ),
        ({"penny": COMPANION}, {ALICE: False}, "off, as you chose. Turn them on with `/privacy unprompted:on`"),
        ({"grok": FrontMatter(idle_tasks=("follow_up",))}, {}, "off, because you haven't turned them on"),
        ({"grok": FrontMatter(idle_tasks=("follow_up",))}, {ALICE: True}, "Grok may write to you, as you chose"),
    ],
)
async def test_it_says_whether_anybody_writes_unasked(
    fronts: dict[str, FrontMatter], chosen: dict[int, bool], says: str
) -> None:
    assert says in (await lines(privacy(fronts=fronts, consents=chosen)))[3]
