"""The questions of time and money: what they say before and after the answer."""

from __future__ import annotations

import io

from rich.console import Console

from agentic.setup.answers import Answers, Session
from agentic.setup.dialogue import Dialogue
from agentic.setup.wizard import choose_habits
from tests.support.setup_scene import Typist

BOT = {"BOT_TOKEN_CLAUDE": "token", "ANTHROPIC_API_KEY": "key", "CHANNEL_THEME_MAP": "1:debate"}


def asked(in_file: dict[str, str], zone: str = "", budget: str = "") -> tuple[Answers, str]:
    console = Console(file=io.StringIO(), width=200)
    session = Session(
        Dialogue(Typist([("Your time zone", zone), ("Daily budget", budget)]), console),
        Answers(in_file, {"TZ": "Asia/Tokyo"}),
    )
    choose_habits(session)
    assert isinstance(console.file, io.StringIO)
    return session.answers, console.file.getvalue()


def test_a_day_is_priced_before_its_budget_is_asked_for() -> None:
    answers, printed = asked(BOT)
    assert "Your bots will probably cost about $0." in printed
    assert "a day for 4.5 conversations, and $0." in printed
    assert (answers.get("TIMEZONE"), answers.get("BUDGET_DAILY_USD")) == ("Asia/Tokyo", "5")


def test_a_budget_below_that_price_or_without_a_limit_is_warned_of() -> None:
    assert "That's less than a day will probably cost" in asked(BOT, budget="0.0001")[1]
    assert "no cap on what people's mentions can cost" in asked(BOT, budget="none")[1]


def test_enter_keeps_what_the_file_says_as_it_is() -> None:
    answers, _ = asked({**BOT, "TIMEZONE": "Europe/Paris", "BUDGET_DAILY_USD": "2.50"})
    assert answers.changes() == {}
