"""Properties 22 to 25 of the gateway's design: checks and jobs, as people write them into files.

Deviations: the interval may have a unit, a check and a job may have a channel, hours, and a wish to catch up; those are
read back too. Names that differ only in case are one name, and the first one counts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.personas.identity import parse_identity
from agentic.personas.schedules import (
    PUNCTUAL_SECONDS,
    ActiveHours,
    Check,
    Job,
    parse_cron,
    parse_heartbeat,
    parse_hooks,
)
from agentic.personas.store import parse_boot
from tests.support.persona_strategies import CHANNELS, CRON, INSTRUCTIONS, LINE_ENDS, NAMES, NO_CRON, channel_field

HOURS = st.one_of(
    st.none(),
    st.builds(ActiveHours, st.integers(0, 1439), st.integers(0, 1440)).filter(lambda hours: hours.start != hours.end),
)
CHECKS = st.builds(Check, NAMES, INSTRUCTIONS, st.integers(60, 10**7), CHANNELS, HOURS)
JOBS = st.builds(Job, NAMES, CRON, INSTRUCTIONS, CHANNELS, st.booleans())


def by_name(entry: Check | Job) -> str:
    return entry.name.casefold()


def clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def written_check(check: Check) -> str:
    fields = [f"- interval: {check.interval_seconds}", *channel_field(check.channel)]
    if check.active_hours:
        fields.append(f"- active hours: {clock(check.active_hours.start)}-{clock(check.active_hours.end)}")
    return "\n".join((f"## {check.name}", *fields, "", check.instruction, ""))


def written_job(job: Job) -> str:
    fields = [
        f"- cron: `{job.expression}`",
        *channel_field(job.channel),
        f"- catch_up: {'yes' if job.catch_up else 'no'}",
    ]
    return "\n".join((f"### {job.name}", "", *fields, "", job.instruction, ""))


def agents_md(jobs: list[str]) -> str:
    return "\n".join(("# Rules", "- Be kind.", "## Cron Jobs", *jobs, "## Later", "### Not a job", "- cron: 0 0 * * *"))


# Feature: discord-claude-gateway, Property 22: For any valid heartbeat.md content containing check definitions with names, instructions, and intervals, parsing the content should produce HeartbeatCheck objects whose fields match the defined values.  # noqa: E501
@settings(max_examples=200)
@given(st.lists(CHECKS, unique_by=by_name, max_size=4), LINE_ENDS, st.sampled_from(("", "\ufeff")))
def test_property_22_checks_are_read_as_they_were_written(checks: list[Check], end: str, mark: str) -> None:
    text = mark + ("# Heartbeat\n<!--\n## off\n- interval: 60\n-->\n" + "\n".join(map(written_check, checks))).replace(
        "\n", end
    )
    assert parse_heartbeat(text) == (tuple(checks), ())


# Feature: discord-claude-gateway, Property 23: For any heartbeat check definition with an interval less than 60 seconds, the HeartbeatScheduler should reject the definition and not start a timer for it.  # noqa: E501
@settings(max_examples=100)
@given(CHECKS, st.integers(0, 59), st.lists(CHECKS, unique_by=by_name, max_size=3))
def test_property_23_an_interval_below_a_minute_is_refused_alone(
    quick: Check, seconds: int, others: list[Check]
) -> None:
    others = [check for check in others if by_name(check) != by_name(quick)]
    hasty = Check(quick.name, quick.instruction, seconds, quick.channel, quick.active_hours)
    checks, problems = parse_heartbeat("\n".join(map(written_check, [hasty, *others])))
    assert checks == tuple(others)
    assert problems == ("heartbeat.md:2: interval: the shortest interval is 60 seconds",)


# Feature: discord-claude-gateway, Property 24: For any valid agents.md content containing a "Cron Jobs" section with job definitions (name, cron expression, instruction), parsing the content should produce CronJob objects whose fields match the defined values.  # noqa: E501
@settings(max_examples=200)
@given(st.lists(JOBS, unique_by=by_name, max_size=4), LINE_ENDS)
def test_property_24_jobs_are_read_as_they_were_written(jobs: list[Job], end: str) -> None:
    text = agents_md(list(map(written_job, jobs))).replace("\n", end)
    assert parse_cron(text) == (tuple(jobs), ())


# Feature: discord-claude-gateway, Property 25: For any cron job definition with a syntactically invalid cron expression, the CronScheduler should skip scheduling for that job without affecting other valid jobs.  # noqa: E501
@settings(max_examples=150)
@given(JOBS, NO_CRON, st.lists(JOBS, unique_by=by_name, max_size=3), st.integers(0, 3))
def test_property_25_an_expression_that_is_none_is_passed_over_alone(
    job: Job, expression: str, others: list[Job], place: int
) -> None:
    others = [other for other in others if by_name(other) != by_name(job)]
    broken = written_job(Job(job.name, expression, job.instruction))
    written = list(map(written_job, others))
    jobs, problems = parse_cron(agents_md([*written[:place], broken, *written[place:]]))
    assert jobs == tuple(others)
    assert len(problems) == 1
    assert problems[0].startswith("agents.md:")


@settings(max_examples=100, deadline=None)
@given(
    CRON,
    st.sampled_from(("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo")),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)),
    st.lists(st.integers(1, 100), min_size=1, max_size=200),
)
def test_every_moment_runs_once_while_somebody_looks(
    expression: str, zone: str, start: datetime, waits: list[int]
) -> None:
    job, tz, now = Job("a", expression, "b"), ZoneInfo(zone), start.replace(tzinfo=UTC).timestamp()
    last, ran, wanted = now, list[float](), list[float]()
    moment = job.next_time(now, tz)
    for wait in waits:
        now += wait
        found = job.due(last, now, tz)
        if found is not None:
            assert last < found <= now
            assert now - found <= PUNCTUAL_SECONDS
            ran.append(found)
            last = found
    while moment is not None and moment <= now:
        wanted.append(moment)
        moment = job.next_time(moment, tz)
    assert ran == wanted


@settings(max_examples=60, deadline=None)
@given(CRON, st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)), st.integers(1, 800 * 86_400))
def test_after_a_sleep_the_newest_moment_runs_once_and_only_if_asked_for(
    expression: str, start: datetime, sleep: int
) -> None:
    tz, last = ZoneInfo("Europe/Berlin"), start.replace(tzinfo=UTC).timestamp()
    now = last + sleep
    found = Job("a", expression, "b", catch_up=True).due(last, now, tz)
    if found is None:
        following = Job("a", expression, "b").next_time(last, tz)
        assert following is None or following > now
        return
    following = Job("a", expression, "b").next_time(found, tz)
    assert following is None or following > now
    assert Job("a", expression, "b", catch_up=True).due(found, now, tz) is None
    assert Job("a", expression, "b").due(last, now, tz) == (found if now - found <= PUNCTUAL_SECONDS else None)


@settings(max_examples=300)
@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(
            st.one_of(
                st.text(max_size=20),
                st.sampled_from(
                    (
                        "---",
                        "## Cron Jobs",
                        "### a",
                        "## Hooks",
                        "### startup",
                        "- cron: * * * * *",
                        "- when: x",
                        "```",
                        "<!--",
                        "-->",
                        "- interval: 60",
                        "## b",
                        "- channel: ",
                        "color: #123456",
                        "mode: [",
                        "Text.",
                        "## Required",
                        "- ../x.md",
                        "## Defaults",
                        "- cron: 1#2 3 L-1 4/0 5L",
                        "&a *a",
                        "- interval: ٣٠٠",
                    )
                ),
            ),
            max_size=15,
        ).map("\n".join),
    )
)
def test_no_parser_ever_raises_and_each_problem_names_its_line(text: str) -> None:
    lines = len(text.replace("\r", "\n").split("\n"))
    for parse in (parse_heartbeat, parse_cron, parse_hooks, parse_boot, parse_identity):
        _, problems = parse(text)  # type: ignore[operator]
        for problem in problems:
            file, line, _ = problem.split(":", 2)
            assert file.endswith(".md")
            assert 1 <= int(line) <= lines


def test_moments_are_those_of_the_clock_on_the_wall() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    job, at = Job("a", "30 9 * * *", "b"), datetime(2026, 3, 27, 12, tzinfo=berlin)
    for _ in range(5):
        moment = job.next_time(at.timestamp(), berlin)
        assert moment is not None
        found = datetime.fromtimestamp(moment, berlin)
        assert (found.hour, found.minute) == (9, 30)
        assert found.date() == at.date() + timedelta(days=1)
        at = found
