"""The answers so far, over what the environment and the `.env` that exists say already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_config import AGENTS, OTHER_NAMES, Settings, SettingsError, load_settings, read_env_file
from agentic.agent.persona import read_fronts

SERVERS, CHANNELS, OLD_CHANNELS = "GUILD_IDS", "CHANNEL_THEME_MAP", "AGENT_CHANNEL_IDS"
TIME_ZONE, BUDGET = "TIMEZONE", "BUDGET_DAILY_USD"
SIGNAL_NUMBERS, SIGNAL_SERVER, SIGNAL_ALLOWED = "SIGNAL_NUMBERS", "SIGNAL_API_URL", "SIGNAL_ALLOWED"
ASKED = frozenset(
    (
        *(key for spec in AGENTS.values() for key in (spec.token_setting, spec.key_setting)),
        *(SERVERS, CHANNELS, OLD_CHANNELS, TIME_ZONE, BUDGET, SIGNAL_NUMBERS, SIGNAL_SERVER, SIGNAL_ALLOWED),
    )
)
"""The settings that the set-up asks for. AGENT_CHANNEL_IDS is emptied where CHANNEL_THEME_MAP is chosen: it would hide
channels of it."""
_VISIBLE = 16  # characters; of a shorter secret not even the end is shown


class UnusableSettingsError(Exception):
    """`.env` or the environment has other wrong settings. `problems` has a line for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass
class Answers:
    """Texts by setting. An answer wins over the environment, the environment over the file."""

    in_file: Mapping[str, str]
    environ: Mapping[str, str]
    _given: dict[str, str] = field(default_factory=dict)
    _settings: Settings | None = None  # of the answers until now

    def get(self, key: str) -> str:
        """The text of a setting, "" for none."""
        if key in self._given:
            return self._given[key]
        return self.in_environment(key) or self._first(self.in_file, key)

    def give(self, key: str, text: str) -> None:
        self._given[key] = text
        self._settings = None

    def in_environment(self, key: str) -> str:
        return self._first(self.environ, key)

    def overruled(self, key: str) -> bool:
        """Whether the environment has another text than the answer, and so wins when the bots start."""
        there = self.in_environment(key)
        return bool(there) and there != self.get(key)

    def changes(self) -> dict[str, str]:
        """The answers that differ from the file. What is emptied is emptied under its other name too."""
        changed = {key: text for key, text in self._given.items() if text != self._first(self.in_file, key)}
        others = {OTHER_NAMES[key] for key, text in changed.items() if not text and key in OTHER_NAMES}
        return changed | {other: "" for other in others if other in self.in_file}

    def settings(self) -> Settings:
        """The settings of a start with these answers. Raises SettingsError."""
        if self._settings is None:
            self._settings = self._load()
        return self._settings

    def _load(self) -> Settings:
        given = {key: text for key, text in self._given.items() if text}
        emptied = {other for key, other in OTHER_NAMES.items() if key in self._given} | self._given.keys()
        below = {**self.in_file, **self.environ}
        texts = {key: text for key, text in below.items() if key not in emptied} | given
        # Without a file's path the owner's folder is read only if it is named.
        return load_settings({"CONFIG_FILES_DIR": "config", **texts}, env_file=None, fronts=read_fronts)

    @staticmethod
    def _first(texts: Mapping[str, str], key: str) -> str:
        return texts.get(key, "").strip() or texts.get(OTHER_NAMES.get(key, ""), "").strip()


def read_answers(path: Path, environ: Mapping[str, str]) -> tuple[Answers, list[str]]:
    """The answers before the first question, and a line for each setting with a wrong value that is asked again.

    Raises UnusableSettingsError for problems that the questions do not solve.
    """
    problems: list[str] = []
    in_file, own = _in_capitals(read_env_file(path, problems)), _in_capitals(environ)
    wrong = _problems(Answers(in_file, own))
    unsolved = [*problems, *(line for line in wrong if not _keys(line) <= ASKED)]
    if unsolved:
        raise UnusableSettingsError(unsolved)
    asked_again = {key for line in wrong for key in _keys(line)}
    kept = {key: text for key, text in in_file.items() if key not in asked_again}
    return Answers(kept, {key: text for key, text in own.items() if key not in asked_again}), wrong


def _in_capitals(texts: Mapping[str, str]) -> dict[str, str]:
    """Names of settings are read in any case."""
    known = ASKED.union(OTHER_NAMES.values())
    return {key.upper() if key.upper() in known else key: text for key, text in texts.items()}


def _problems(answers: Answers) -> list[str]:
    try:
        answers.settings()
    except SettingsError as error:
        return error.problems
    return []


def _keys(problem: str) -> set[str]:
    """The settings that a problem's line names."""
    return set(problem.partition(":")[0].split(", "))


def tail(secret: str) -> str:
    """The end of a secret, by which its owner recognises it."""
    return f"ending in {secret[-4:]}" if len(secret) >= _VISIBLE else f"{len(secret)} characters"
