"""Signal's settings: the agents' phone numbers and the people who may write to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from agentic.services.signal.envelopes import ACCOUNT, NUMBER
from agentic.settings import fields as f
from agentic.settings.fields import from_text, kebab, setting, split_list, split_pairs
from agentic.settings.services import ServiceSettings
from agentic.settings.settings import Settings
from agentic.themes import DEFAULT_THEME, THEMES

NUMBERS = "agent:number pairs such as penny:+4915112345678, separated by commas"
PEOPLE = "phone numbers with + and country code, or Signal's account ids, separated by commas, or all"
LINKS = "number:id pairs, a person's phone number and Discord id, separated by commas"

_SPACES = str.maketrans("", "", " ()/.-\u00a0")


def _signal_address(text: str) -> str | None:
    """Return a phone number as +4915112345678, or a Signal account id, or None if the text is neither."""
    plain = text.strip().lower()
    if ACCOUNT.fullmatch(plain):
        return plain
    number = plain.translate(_SPACES)
    return number if NUMBER.fullmatch(number) else None


def _read_numbers(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, number_text in split_pairs(text, NUMBERS):
        agent, number = name.lower(), _signal_address(number_text)
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", agent) or number is None or not number.startswith("+"):
            raise ValueError(f"expected {NUMBERS}")
        if agent in found or number in found.values():
            raise ValueError("an agent or a number appears twice")
        found[agent] = number
    return found


def _read_people(text: str) -> tuple[str | None, ...]:
    parts = split_list(text)
    if [part.lower() for part in parts] == ["all"]:
        return ("all",)
    people = tuple(_signal_address(part) for part in parts)
    if None in people:
        raise ValueError(f"expected {PEOPLE}")
    return people


def _read_links(text: str) -> dict[str | None, str]:
    pairs = split_pairs(text, LINKS)
    people = {_signal_address(person): user_id for person, user_id in pairs}
    if None in people or len(people) != len(pairs):
        raise ValueError(f"expected {LINKS}")
    return people


def _check_theme(value: str) -> str:
    theme = kebab(value)
    if theme not in THEMES:
        raise ValueError(f"unknown theme; expected one of {', '.join(THEMES)}")
    return theme


class SignalSettings(ServiceSettings):
    """`signal_numbers`: agent → the number of its account. `linked_people`: a person's number or account id → their id
    in Discord."""

    accounts_field: ClassVar[str] = "signal_numbers"
    accounts_example: ClassVar[str] = "penny:+4915112345678"
    alone: ClassVar[str] = "To go live on Signal only, without a Discord token, see docs/signal.md."

    signal_api_url: f.HttpAddress = setting("SIGNAL_API_URL", "http://127.0.0.1:8080")
    signal_numbers: Annotated[dict[str, str], from_text(_read_numbers)] = setting("SIGNAL_NUMBERS", {}, NUMBERS)
    signal_allowed: Annotated[tuple[str, ...], from_text(_read_people)] = setting("SIGNAL_ALLOWED", (), PEOPLE)
    signal_theme: Annotated[str, AfterValidator(_check_theme)] = setting("SIGNAL_THEME", DEFAULT_THEME, "a theme")
    linked_people: Annotated[dict[str, f.Id], from_text(_read_links)] = setting("LINKED_PEOPLE", {}, LINKS)

    @classmethod
    def warnings_of(cls, settings: Settings) -> Iterator[str]:
        own = cls.of(settings)
        if not own.signal_allowed:
            yield "SIGNAL_ALLOWED is empty, so nobody can write to the bots on Signal; list people, or set it to all"
        if own.signal_allowed == ("all",) and settings.budget_daily_usd is None:
            yield "SIGNAL_ALLOWED=all: anyone who knows a number can spend any amount; set BUDGET_DAILY_USD"
        if any(number in own.linked_people for number in own.signal_numbers.values()):
            yield "LINKED_PEOPLE lists a bot's number; it is for people's own numbers"
