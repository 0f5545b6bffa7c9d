"""The names of settings: in any case of letters, and other and old names that are still read.

`both` in these functions: the texts of .env and the environment by name, the environment's over those of .env. No
message repeats a value.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from agentic.settings.agents import AgentSpec
from agentic.settings.fields import MILLISECONDS, in_seconds

OTHER_NAMES = {
    "GEMINI_API_KEY": "GOOGLE_API_KEY",  # Google's SDK knows both names
    # names that single-bot gateways use
    "BOT_TOKEN_CLAUDE": "DISCORD_BOT_TOKEN",
    "MAX_CONCURRENT_TURNS": "MAX_CONCURRENT_QUERIES",
    "PERSONAS_DIR": "CONFIG_DIR",
    "TURN_TIMEOUT_SECONDS": "QUERY_TIMEOUT_MS",
    # names that companions for a single person use
    "SIGNAL_NUMBERS": "SIGNAL_NUMBER",
    "OLLAMA_BASE_URL": "OLLAMA_API_URL",
}
"""Our key → another name that is accepted for it; ours wins when both are set."""

COMPANION = "penny"  # the agent of a number on Signal that names none
_SAID_TOO = {
    "QUERY_TIMEOUT_MS": ", in milliseconds",
    "SIGNAL_NUMBER": f", of AGENT_NAME or {COMPANION}",
}

OLD_NAMES = {
    "AGENT_CHANNEL_IDS": (
        "still read, as the only channels where the bots speak; CHANNEL_THEME_MAP alone is enough: an id without a"
        " theme is casual"
    ),
    "STOP_ROLE_IDS": "read as a part of MODERATOR_IDS, which takes ids of roles and of people",
    "STOP_USER_IDS": "read as a part of MODERATOR_IDS, which takes ids of roles and of people",
}
"""A setting that became a part of another one → what the start says of it."""


def in_capitals(
    pairs: Iterable[tuple[str, str]], is_ours: Callable[[str], bool], place: str, warnings: list[str]
) -> dict[str, str]:
    """Name → text, empty texts left out. Where `is_ours(name in capitals)`, it stands under that name as well.

    Of a name that is set twice the spelling in capitals counts, else the last; different texts add a line to
    `warnings`.
    """
    filled = [(key, text.strip()) for key, text in pairs if text.strip()]
    found: dict[str, str] = {}
    spellings: dict[str, list[str]] = {}
    differ: set[str] = set()
    for key, text in sorted(filled, key=lambda pair: pair[0].isupper()):
        if is_ours(name := key.upper()):
            if name in spellings and found[name] != text:
                differ.add(name)
            spellings.setdefault(name, []).append(key)
            found[name] = text
        found[key] = text
    for name in sorted(differ):
        shown = dict.fromkeys(spellings[name])
        counts = f"{spellings[name][-1]} counts" if len(shown) > 1 else "the last one counts"
        warnings.append(f"{', '.join(shown)} in {place}: set twice, to different values; {counts}")
    return found


def with_other_names(both: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """Where only another name of a key is set, it counts as the key. A wrong text adds a line to `problems`."""
    found = dict(both)
    for key, other_name in OTHER_NAMES.items():
        if key in both or other_name not in both:
            continue
        text = _as_ours(other_name, both)
        if text is None:
            problems.append(f"{other_name}: expected {MILLISECONDS}")
        else:
            found[key] = text
    return found


def _as_ours(other_name: str, both: Mapping[str, str]) -> str | None:
    """The text of another name as our key has it; None if it cannot be read."""
    text = both[other_name]
    if other_name.endswith("_MS"):
        return in_seconds(text)
    if other_name == "SIGNAL_NUMBER" and ":" not in text:  # whose number it is, is said by our key alone
        return f"{both.get('AGENT_NAME', COMPANION)}:{text}"
    return text


def name_warnings(both: Mapping[str, str]) -> Iterator[str]:
    """A line for each other or old name that is used, and for each whose text differs from our key's, which wins. Not
    for GOOGLE_API_KEY, which other programs use too."""
    for key, other_name in OTHER_NAMES.items():
        text = both.get(other_name)
        if text is None or key == "GEMINI_API_KEY":
            continue
        if key not in both:
            yield f"{other_name}: read as {key}{_SAID_TOO.get(other_name, '')}"
        elif not _same(_as_ours(other_name, both) or text, both[key]):
            yield f"{other_name}: ignored, since {key} is set"
    yield from (f"{name}: {said}" for name, said in OLD_NAMES.items() if name in both)


def _same(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def typos(in_file: Collection[str], ours: Collection[str], agents: Collection[AgentSpec]) -> Iterator[str]:
    """Likely mistakes among the names in .env; the process environment has many other programs' names. `ours`: all
    keys."""
    known, guesses = {*ours, *OTHER_NAMES.values(), *OLD_NAMES}, _guesses(agents)
    for key in sorted(key for key in in_file if key not in known and key.upper() not in known):
        name = key.upper()
        close = [guesses[name]] if name in guesses else difflib.get_close_matches(name, ours, n=1, cutoff=0.85)
        if close:
            yield f"{key} in .env: ignored, not a setting; did you mean {close[0]}?"
        elif name.startswith("BOT_TOKEN_"):
            yield f"{key} in .env: ignored, no such agent; agents are {', '.join(spec.name for spec in agents)}"
        elif name in ("BOT_TOKEN", "DISCORD_TOKEN"):
            tokens = ", ".join(spec.token_setting for spec in agents)
            yield f"{key} in .env: ignored, not a setting; each bot has a token of its own: {tokens}"


def _guesses(agents: Iterable[AgentSpec]) -> dict[str, str]:
    """Names that people try for a bot's token and key → our names."""
    guesses: dict[str, str] = {}
    for spec in agents:
        name = spec.name.upper()
        guesses |= dict.fromkeys((f"{name}_TOKEN", f"{name}_BOT_TOKEN", f"DISCORD_TOKEN_{name}"), spec.token_setting)
        tried = (f"{name}_API_KEY", f"{name}_KEY", spec.key_setting.replace("_API", ""))
        guesses |= dict.fromkeys(tried, spec.key_setting)
    return guesses
