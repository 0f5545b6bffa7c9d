from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from agentic.personas.schedules import (
    ActiveHours,
    Check,
    Hook,
    Job,
    parse_cron,
    parse_heartbeat,
    parse_hooks,
    read_channel,
    read_hours,
    read_span,
)

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp()


# --- heartbeats -----------------------------------------------------------------------------------------------------


def test_a_heartbeat_file_as_people_write_it() -> None:
    text = """# Heartbeat
Prose before the first check is for people.

## Build & Tests (#2)
* **Interval**: 15m
* channel: <#42>
* Active-Hours: 22 - 6:30

Look at the last build:
```sh
## not a heading
make test
```
- and say so only if it failed

## Second
- interval: "90"
- channel: 42
Text right below.
### Note
More of it.
"""
    assert parse_heartbeat(text) == (
        (
            Check(
                "Build & Tests (#2)",
                "Look at the last build:\n```sh\n## not a heading\nmake test\n```\n- and say so only if it failed",
                900,
                42,
                ActiveHours(1320, 390),
            ),
            Check("Second", "Text right below.\n### Note\nMore of it.", 90, 42),
        ),
        (),
    )


@pytest.mark.parametrize("text", [None, "", "# Heartbeat\n", "<!--\n## a\n- interval: 60\n\nx\n-->", "Only prose."])
def test_a_file_without_checks_makes_none(text: str | None) -> None:
    assert parse_heartbeat(text) == ((), ())


def test_each_thing_that_is_wrong_is_told_with_its_line() -> None:
    text = """## no interval
Text.
## no text
- interval: 60
## short
- interval: 59
x
## good
- interval: 60
- chanel: 1
- interval: 61
x
## GOOD
- interval: 60
x
## where
- interval: 60
- channel: two words
x
## when
- interval: 60
- active hours: 8-25
x
##
- interval: 60
x
# Title
- interval: 60
"""
    checks, problems = parse_heartbeat(text)
    assert checks == (Check("good", "x", 60),)
    assert problems == (
        "heartbeat.md:1: 'no interval' has no field interval, as in `- interval: 300`",
        "heartbeat.md:3: 'no text' has no instruction",
        "heartbeat.md:6: interval: the shortest interval is 60 seconds",
        "heartbeat.md:10: unknown field 'chanel'; the fields are interval, channel, active_hours."
        " Start the text with a sentence, not a list",
        "heartbeat.md:11: interval appears twice; the first is used",
        "heartbeat.md:13: 'GOOD' appears twice; the first is used",
        "heartbeat.md:18: channel: expected a channel's id or #name",
        "heartbeat.md:22: active_hours: expected times from 00:00 to 24:00",
        "heartbeat.md:24: this heading has no name",
        "heartbeat.md:27: a check starts with `## ` and its name",
    )


def test_a_check_under_a_heading_of_the_wrong_level_is_told() -> None:
    assert parse_heartbeat("# Heartbeat\n### Build\n- interval: 60\n\nx") == (
        (),
        ("heartbeat.md:2: a check starts with `## ` and its name",),
    )


def test_a_comment_that_is_never_closed_is_told() -> None:
    assert parse_heartbeat("## a\n- interval: 60\n\nx\n<!-- off\n## b\n") == (
        (Check("a", "x", 60),),
        ("heartbeat.md:5: this comment has no closing -->, so the rest of the file is hidden",),
    )


def test_a_check_is_due_once_after_its_interval_and_in_its_hours() -> None:
    check = Check("a", "x", 600, active_hours=ActiveHours(8 * 60, 22 * 60))
    noon = at("2026-06-01T12:00")
    assert check.next_time(noon, noon + 5) == noon + 600
    assert [check.due(noon, noon + seconds, BERLIN) for seconds in (599, 600)] == [None, noon + 600]
    assert check.due(noon, noon + 90_000, BERLIN)
    assert not check.due(noon, at("2026-06-01T22:00"), BERLIN)
    assert check.due(noon, at("2026-06-02T08:00"), BERLIN)
    assert not check.due(noon, at("2026-06-02T07:59"), BERLIN)


def test_hours_over_midnight() -> None:
    hours = read_hours("22:00–06:00")
    covered = [hours.cover(datetime(2026, 1, 1, hour)) for hour in (21, 22, 23, 0, 5, 6)]
    assert covered == [False, True, True, True, True, False]
    assert read_hours("00:00-24:00") == ActiveHours(0, 1440)


def test_a_clock_that_was_ahead_holds_no_check_for_long() -> None:
    check = Check("a", "x", 600)
    assert not check.due(1_000.0, 900.0, BERLIN)
    assert check.due(1_000_000.0, 900.0, BERLIN)


@pytest.mark.parametrize(
    ("text", "seconds"), [("300", 300), ("5m", 300), ("2 hours", 7200), ("1D", 86_400), ("90 s", 90)]
)
def test_spans(text: str, seconds: int) -> None:
    assert read_span(text) == seconds


@pytest.mark.parametrize("text", ["", "-5", "5.5", "1e9", "٣٠٠", "5 weeks", "1" * 30])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(ValueError, match="expected seconds"):
        read_span(text)


def test_channels_by_id_and_by_name() -> None:
    assert [read_channel(text) for text in ("42", "<#42>", "#lab", "lab", "#42nd")] == [42, 42, "lab", "lab", "42nd"]
    for text in ("", "#", "0", "a b"):
        with pytest.raises(ValueError, match="channel's id"):
            read_channel(text)


# --- cron -----------------------------------------------------------------------------------------------------------


def test_jobs_stand_in_their_section_only() -> None:
    text = """Be kind.
### no job
- cron: 0 0 * * *

x
## cron  jobs
Prose.
### Plan: **Monday**
- cron: `0 9 * * mon`
- channel: #general
- catch up: Yes

Ask.
### broken
- cron: 61 * * * *

x
### never
- cron: 0 0 31 2,4 *

x
### seconds
- cron: * * * * * *

x
## After
### no job either
- cron: 0 0 * * *

x
"""
    assert parse_cron(text) == (
        (Job("Plan: **Monday**", "0 9 * * mon", "Ask.", "general", True),),
        (
            "agents.md:15: cron: '61 * * * *' isn't a cron expression: bad minute",
            "agents.md:19: cron: '0 0 31 2,4 *' isn't a cron expression: bad day-of-month",
            "agents.md:23: cron: expected five fields (minute, hour, day, month, day of the week), such as 0 9 * * 1",
        ),
    )


def runs(expression: str, after: float, until: float, zone: ZoneInfo) -> list[str]:
    job, found, moment = Job("a", expression, "x"), list[str](), Job("a", expression, "x").next_time(after, zone)
    while moment is not None and moment <= until:
        found.append(f"{datetime.fromtimestamp(moment, zone):%H:%M%z}")
        moment = job.next_time(moment, zone)
    return found


def test_the_hour_that_spring_takes() -> None:
    night = at("2026-03-29T00:30"), at("2026-03-29T04:30")
    assert runs("30 2 * * *", *night, BERLIN) == ["03:00+0200"]
    assert runs("0 * * * *", *night, BERLIN) == ["01:00+0100", "03:00+0200", "04:00+0200"]


def test_the_hour_that_autumn_gives_runs_a_daily_job_once_and_an_hourly_one_twice() -> None:
    night = at("2026-10-25T00:30"), at("2026-10-25T03:30")
    assert runs("30 2 * * *", *night, BERLIN) == ["02:30+0200"]
    assert runs("0 * * * *", *night, BERLIN) == ["01:00+0200", "02:00+0200", "02:00+0100", "03:00+0100"]
    # asked in the second pass of that hour: not again
    second = at("2026-10-25T02:10", fold=1)
    assert Job("a", "30 2 * * *", "x").next_time(second, BERLIN) == at("2026-10-26T02:30")
    assert Job("a", "30 2 * * *", "x").due(second, second + 3_000, BERLIN) is None


def test_what_was_missed_runs_once_and_only_where_it_is_wanted() -> None:
    friday, monday = at("2026-06-05T08:00"), at("2026-06-08T11:00")
    eager, calm = (Job("a", "0 9 * * *", "x", catch_up=wish) for wish in (True, False))
    assert eager.due(friday, monday, BERLIN) == at("2026-06-08T09:00")
    assert calm.due(friday, monday, BERLIN) is None
    assert calm.due(friday, at("2026-06-05T09:01"), BERLIN) == at("2026-06-05T09:00")
    assert eager.due(at("2026-06-08T09:00"), monday, BERLIN) is None


def test_a_year_asleep_is_looked_over_quickly_and_a_wrong_clock_stops_no_job() -> None:
    now = at("2026-06-08T09:00:30")
    assert Job("a", "* * * * *", "x", catch_up=True).due(now - 400 * 86_400, now, BERLIN) == now - 30
    assert Job("a", "0 0 1 1 *", "x", catch_up=True).due(now - 400 * 86_400, now, BERLIN) == at("2026-01-01T00:00")
    assert Job("a", "0 9 * * *", "x").due(now + 10 * 86_400, now, BERLIN) == now - 30
    assert Job("a", "0 9 * * *", "x").due(now + 60, now, BERLIN) is None


def test_sunday_is_0_and_7_and_names_are_understood() -> None:
    monday = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
    sunday = datetime(2026, 6, 7, tzinfo=UTC).timestamp()
    for expression in ("0 0 * * 0", "0 0 * * 7", "0 0 * * sun", "@weekly"):
        assert Job("a", expression, "x").next_time(monday, UTC) == sunday


# --- hooks ----------------------------------------------------------------------------------------------------------


def test_all_four_hooks() -> None:
    text = """## Hooks
### startup
- channel: #lab

Say hello.
### Agent Begin
- when: message, Heartbeat

Look.
### agent-stop
Note.
### shutdown
Bye.
"""
    assert parse_hooks(text) == (
        {
            "startup": Hook("Say hello.", None, "lab"),
            "agent_begin": Hook("Look.", frozenset({"message", "heartbeat"})),
            "agent_stop": Hook("Note."),
            "shutdown": Hook("Bye."),
        },
        (),
    )


def test_a_hook_whose_condition_cannot_be_read_does_not_run_for_everything() -> None:
    hooks, problems = parse_hooks(
        "## Hooks\n### agent_begin\n- when: mesage\n\nx\n### agent_stop\n- when: hook\n\nx\n"
        "### startup\n- when: message\n\nx\n### STARTUP\ny\n### other\nz\n### shutdown\n"
    )
    assert hooks == {"startup": Hook("x")}
    assert [problem.split(":")[1] for problem in problems] == ["3", "7", "11", "14", "16", "18"]


def test_a_hook_fires_for_the_types_it_names_and_never_for_hooks() -> None:
    assert Hook("x").fires_for("message")
    assert not Hook("x").fires_for("hook")
    assert [Hook("x", frozenset({"cron"})).fires_for(kind) for kind in ("cron", "message")] == [True, False]
