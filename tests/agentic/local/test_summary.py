"""The summary of a conversation, from numbers to what is printed."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import get_args

from rich.console import Console

from agentic.local.mode import ended_line
from agentic.local.session import summary
from agentic.state.conversation_state import AgentCounts, ConversationState, Counts
from agentic.wire.reasons import ENDINGS, EndReason

REPORT = ConversationState(
    "c",
    1,
    "casual",
    started_at=0.0,
    ended_because="round_limit",
    counts=Counts(
        round=4,
        agents={
            "claude": AgentCounts(messages=1200, calls=4, input_tokens=100, output_tokens=20, cost_usd=0.5),
            "grok": AgentCounts(messages=34, skips=2, cost_usd=0.25),
        },
    ),
)


def printed(report: ConversationState) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=100).print(summary(report, {"claude": "Claude"}))
    return out.getvalue().splitlines()


def test_the_table_has_a_row_for_each_agent_and_one_for_all() -> None:
    lines = printed(REPORT)
    assert lines[0].strip() == "4 rounds, ended: it reached the maximum number of rounds"
    cells = {line.split()[0]: line.split()[1:] for line in lines[2:] if line.strip()}
    assert cells["Claude"] == ["1,200", "0", "0", "0", "0", "4", "120", "$0.5000"]
    assert cells["grok"][:2] == ["34", "2"]
    assert cells["all"] == ["1,234", "2", "0", "0", "0", "4", "120", "$0.7500"]


def test_every_ending_has_words() -> None:
    assert set(ENDINGS) == set(get_args(EndReason))


def test_a_single_round_is_counted_as_one() -> None:
    assert printed(replace(REPORT, counts=replace(REPORT.counts, round=1)))[0].startswith("1 round,")


def test_the_line_after_a_conversation_names_what_works_next():
    def line(because: EndReason) -> str | None:
        return ended_line(replace(REPORT, ended_because=because), "memes")

    assert str(line("agreed")).endswith("; /fire starts another")
    assert str(line("stopped")).endswith("; /resume lets the bots speak again")
    assert line("too_old") is None, "an earlier start's"
