"""The settings of Signal: which agent speaks under which number, and with whom."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from agentic.settings.fields import HTTP, Id, Keys, address_with, comma_list, setting
from agentic.themes import DEFAULT_THEME, THEMES

Channel = Literal["discord", "signal", "both"]

_NUMBER = re.compile(r"\+[1-9][0-9]{6,14}")  # E.164
_ACCOUNT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # who hides their number has only this
_AGENT = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_SPACES = str.maketrans("", "", " ()/.-\u00a0")

NUMBERS = "agent:number pairs such as penny:+4915112345678, separated by commas"
PEOPLE = "phone numbers with + and country code, or Signal's account ids, separated by commas, or all"
LINKS = "number:id pairs, a person's phone number and Discord id, separated by commas"


def address_of(text: str) -> str | None:
    """A phone number as +4915112345678, or a Signal account id; None for anything else."""
    plain = text.strip().lower()
    if _ACCOUNT.fullmatch(plain):
        return plain
    number = plain.translate(_SPACES)
    return number if _NUMBER.fullmatch(number) else None


def _pairs(value: object, expected: str) -> object:
    """ "a:b, c:d" → [("a", "b"), ("c", "d")]. ValueError for anything else."""
    parts = comma_list(value)
    if not isinstance(parts, tuple):
        return value
    pairs = [tuple(side.strip() for side in str(part).partition(":")[::2]) for part in parts]
    if not all(left and right for left, right in pairs):
        raise ValueError(f"expected {expected}")
    return pairs


def _numbers(value: object) -> object:
    pairs = _pairs(value, NUMBERS)
    if not isinstance(pairs, list):
        return value
    found: dict[str, str] = {}
    for name, text in pairs:
        agent, number = name.lower(), address_of(text)
        if not _AGENT.fullmatch(agent) or number is None or not number.startswith("+"):
            raise ValueError(f"expected {NUMBERS}")
        if agent in found or number in found.values():
            raise ValueError("an agent, or a number, is named twice")
        found[agent] = number
    return found


def _people(value: object) -> object:
    parts = comma_list(value)
    if not isinstance(parts, tuple):
        return value
    if [part.lower() for part in parts] == ["all"]:
        return ("all",)
    people = [address_of(part) for part in parts]
    if None in people:
        raise ValueError(f"expected {PEOPLE}")
    return tuple(people)


def _links(value: object) -> object:
    pairs = _pairs(value, LINKS)
    if not isinstance(pairs, list):
        return value
    people = {address_of(person): user_id for person, user_id in pairs}
    if None in people or len(people) != len(pairs):
        raise ValueError(f"expected {LINKS}")
    return people


def _theme(value: str) -> str:
    theme = value.strip().lower().replace("_", "-").replace(" ", "-")
    if theme not in THEMES:
        raise ValueError(f"unknown theme; expected one of {', '.join(THEMES)}")
    return theme


class SignalKeys(Keys):
    """`signal_numbers`: agent → the number of its account. `linked_people`: a person's number or account id on Signal →
    their id in Discord."""

    channel: Annotated[Channel | None, BeforeValidator(lambda text: str(text).strip().lower())] = setting(
        "CHANNEL", "discord, signal or both", None
    )
    signal_api_url: Annotated[str, address_with(("http", "https"))] = setting(
        "SIGNAL_API_URL", HTTP, "http://127.0.0.1:8080"
    )
    signal_numbers: Annotated[dict[str, str], BeforeValidator(_numbers)] = setting("SIGNAL_NUMBERS", NUMBERS, {})
    signal_allowed: Annotated[tuple[str, ...], BeforeValidator(_people)] = setting("SIGNAL_ALLOWED", PEOPLE, ())
    signal_theme: Annotated[str, AfterValidator(_theme)] = setting("SIGNAL_THEME", "a theme", DEFAULT_THEME)
    linked_people: Annotated[dict[str, Id], BeforeValidator(_links)] = setting("LINKED_PEOPLE", LINKS, {})
