"""Keep the answers of the setup, and ask for API keys: clean, recognize, and check them at no cost.

Answers override the environment and an existing `.env`. Lookups ask Discord and the providers of models; each blocks
for at most a little more than SECONDS. No text here repeats what the owner pasted.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from agent_config import (
    AGENTS,
    OTHER_NAMES,
    AgentSettings,
    ModelSettings,
    Settings,
    SettingsError,
    env_file_lines,
    load_settings,
)
from agentic.agent.persona import read_fronts
from agentic.check.agents import error_of, is_unknown
from agentic.check.discord import (
    Application,
    BotView,
    NoAnswerError,
    TokenRefusedError,
    logged_in,
    read_application,
    read_bot_view,
    read_guild_channels,
)
from agentic.check.run import quiet
from agentic.llm.errors import BadKey, ConnectionFailed, ModelError, QuotaUsedUp, Retryable, TimedOut
from agentic.llm.provider_table import KNOWN
from agentic.services.signal.client import SignalClient, SignalError
from agentic.setup.dialogue import Dialogue

T = TypeVar("T")

SECONDS = 15.0
SERVERS, CHANNELS, OLD_CHANNELS = "GUILD_IDS", "CHANNEL_THEME_MAP", "AGENT_CHANNEL_IDS"
TIME_ZONE, BUDGET = "TIMEZONE", "BUDGET_DAILY_USD"
SIGNAL_NUMBERS, SIGNAL_SERVER, SIGNAL_ALLOWED = "SIGNAL_NUMBERS", "SIGNAL_API_URL", "SIGNAL_ALLOWED"
_OF_BOTS = [key for spec in AGENTS.values() for key in (spec.token_setting, spec.key_setting)]
_OTHERS = (SERVERS, CHANNELS, OLD_CHANNELS, TIME_ZONE, BUDGET, SIGNAL_NUMBERS, SIGNAL_SERVER, SIGNAL_ALLOWED)
ASKED = frozenset((*_OF_BOTS, *_OTHERS))
"""The settings that the setup asks for. AGENT_CHANNEL_IDS is emptied once channels are chosen: it would hide some."""
_VISIBLE = 16  # characters; the end of a shorter secret isn't shown
_KEY_SHAPES = {
    name: re.compile(known.key.shape) for name, known in KNOWN.items() if known.key is not None and known.key.shape
}
"""Provider → a pattern that only its keys match."""
_OTHER_SHAPES = {
    r"\d+": "That's an ID, such as the Application ID. The token is on the page Bot, under Reset Token.",
    r"[0-9a-fA-F]{64}": "That's the application's Public Key. The token is on the page Bot, under Reset Token.",
    r"[\w-]{32}": "That's the OAuth2 Client Secret. The token is on the page Bot, under Reset Token.",
    r"https?://.*": "That's a link. The token is on the application's page Bot, under Reset Token.",
    r"mfa\..*": "That's your own account's token, which Discord forbids for bots. Use the token from the page Bot.",
}
"""Texts that people paste instead of a bot's token, as patterns."""
_NO_WORD = "That has spaces or characters that tokens and keys don't have. Copy it again."
_TOKEN = re.compile(r"[\w-]{22,30}\.[\w-]{6,7}\.[\w-]{27,45}")
_WRAPPED = re.compile(r"""(?:export\s+)?[A-Z][A-Z0-9_]*=\s*(?P<rest>.+)""")


@dataclass
class Answers:
    """Texts by setting. An answer overrides the environment, which overrides the file."""

    in_file: Mapping[str, str]
    environ: Mapping[str, str]
    _given: dict[str, str] = field(default_factory=dict)
    _settings: Settings | None = None  # with the answers so far

    def get(self, key: str) -> str:
        if key in self._given:
            return self._given[key]
        return self.in_environment(key) or self._first(self.in_file, key)

    def give(self, key: str, text: str) -> None:
        self._given[key] = text
        self._settings = None

    def in_environment(self, key: str) -> str:
        return self._first(self.environ, key)

    def overruled(self, key: str) -> bool:
        """Whether the environment has a different text, which will override the answer when the bots start."""
        there = self.in_environment(key)
        return bool(there) and there != self.get(key)

    def changes(self) -> dict[str, str]:
        """Return the answers that differ from the file. An emptied setting is also emptied under its other name."""
        changed = {key: text for key, text in self._given.items() if text != self._first(self.in_file, key)}
        others = {OTHER_NAMES[key] for key, text in changed.items() if not text and key in OTHER_NAMES}
        return changed | {other: "" for other in others if other in self.in_file}

    def settings(self) -> Settings:
        """Return the settings of a start with these answers. Raises SettingsError."""
        if self._settings is None:
            given = {key: text for key, text in self._given.items() if text}
            emptied = {other for key, other in OTHER_NAMES.items() if key in self._given} | self._given.keys()
            below = {**self.in_file, **self.environ}
            texts = {key: text for key, text in below.items() if key not in emptied} | given
            # Without an env_file, load_settings reads the owner's folder only if it is named.
            texts = {"CONFIG_FILES_DIR": "config", **texts}
            self._settings = load_settings(texts, env_file=None, fronts=read_fronts)
        return self._settings

    @staticmethod
    def _first(texts: Mapping[str, str], key: str) -> str:
        return texts.get(key, "").strip() or texts.get(OTHER_NAMES.get(key, ""), "").strip()


@dataclass(frozen=True, slots=True)
class FoundBot:
    id: int
    name: str
    application: Application


@dataclass
class Session:
    """`bots`: bots with a checked token, by agent. `keys`: the settings of keys that the owner was asked for.
    `servers` and `channels`: names by id."""

    talk: Dialogue
    answers: Answers
    bots: dict[str, FoundBot] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    servers: dict[int, str] = field(default_factory=dict)
    channels: dict[int, str] = field(default_factory=dict)

    def agents(self) -> list[AgentSettings]:
        return list(self.answers.settings().agents.values())

    def title(self, agent: str) -> str:
        return self.answers.settings().agents[agent].display_name

    def titles(self, agents: Iterable[str]) -> str:
        return ", ".join(self.title(agent) for agent in agents)

    def tokens(self) -> dict[str, str]:
        return {
            agent.name: agent.token.get_secret_value()
            for agent in self.agents()
            if agent.token is not None and agent.name in self.bots
        }


def read_answers(path: Path, environ: Mapping[str, str]) -> tuple[Answers, list[str]]:
    """Return the answers before the first question, and a line for each wrong setting that the setup asks for anyway.
    Raises SettingsError for other problems."""
    problems: list[str] = []
    in_file, own = _in_capitals(dict(env_file_lines(path, problems))), _in_capitals(environ)
    wrong: list[str] = []
    try:
        Answers(in_file, own).settings()
    except SettingsError as error:
        wrong = error.problems
    unsolved = [*problems, *(line for line in wrong if not _keys(line) <= ASKED)]
    if unsolved:
        raise SettingsError(unsolved)
    asked_again = {key for line in wrong for key in _keys(line)}
    kept = {key: text for key, text in in_file.items() if key not in asked_again}
    return Answers(kept, {key: text for key, text in own.items() if key not in asked_again}), wrong


def _in_capitals(texts: Mapping[str, str]) -> dict[str, str]:
    known = ASKED.union(OTHER_NAMES.values())
    return {key.upper() if key.upper() in known else key: text for key, text in texts.items()}


def _keys(problem: str) -> set[str]:
    return set(problem.partition(":")[0].split(", "))


def tail(secret: str) -> str:
    """Return the end of a secret, so that its owner can recognize it."""
    return f"ending in {secret[-4:]}" if len(secret) >= _VISIBLE else f"{len(secret)} characters"


def look_up_bot(token: str) -> FoundBot:
    """Log in with the token. Raises TokenRefusedError, NoAnswerError."""

    async def ask() -> FoundBot:
        async with logged_in(token, SECONDS) as (http, me):
            return FoundBot(int(me["id"]), str(me["username"]), await read_application(http))

    return _run(ask())


def answers_on_signal(address: str) -> bool:
    async def ask() -> bool:
        try:
            async with asyncio.timeout(SECONDS), SignalClient(address) as client:
                return await client.about()
        except (SignalError, TimeoutError):
            return False

    return _run(ask())


def look_up_servers(tokens: Mapping[str, str]) -> tuple[dict[str, dict[int, str]], dict[str, str]]:
    """Return each agent's servers (id → name), and the reasons why others couldn't be read, by agent."""

    async def ask(token: str) -> dict[int, str]:
        async with logged_in(token, SECONDS) as (http, _):  # the first 200
            guilds = await http.get_guilds(200, with_counts=False)
            return {int(guild["id"]): str(guild["name"]) for guild in guilds}

    return _run(_all(tokens, ask))


def look_up_channels(tokens: Mapping[str, str], servers: Iterable[int]) -> tuple[dict[str, BotView], dict[str, str]]:
    """Return each agent's view of these servers and all their channels, and why others couldn't be read, by agent."""

    async def ask(token: str) -> BotView:
        async with logged_in(token, SECONDS) as (http, me):
            view = await read_bot_view(http, me, (), tuple(servers))
            for guild_id in view.guilds:
                view.channels |= {channel.id: channel for channel in await read_guild_channels(http, guild_id)}
            return view

    return _run(_all(tokens, ask))


def model_error(model: ModelSettings) -> ModelError | None:
    """Ask the provider about the model, at no cost. Returns None if it can be used."""
    return _run(error_of(model, model.model))


async def _all(tokens: Mapping[str, str], ask: Callable[[str], Awaitable[T]]) -> tuple[dict[str, T], dict[str, str]]:
    found: dict[str, T] = {}
    failed: dict[str, str] = {}

    async def one(agent: str, token: str) -> None:
        try:
            found[agent] = await ask(token)
        except TokenRefusedError:
            failed[agent] = "rejects the token"
        except NoAnswerError as error:
            failed[agent] = str(error)

    await asyncio.gather(*(one(agent, token) for agent, token in tokens.items()))
    return {agent: found[agent] for agent in tokens if agent in found}, failed


def _run(question: Coroutine[Any, Any, T]) -> T:
    with quiet():
        return asyncio.run(question)


def cleaned(pasted: str) -> str:
    """Remove text that is often copied too: spaces, quotation marks, `KEY=`, `Bot ` before a token."""
    text = pasted.strip()
    if match := _WRAPPED.fullmatch(text):
        text = match["rest"].strip()
    text = text.strip("\"'`").strip()
    return text.removeprefix("Bot ").strip()


def wrong_token(text: str) -> str | None:
    """Explain why the text can't be a bot's token; None if it may be one."""
    if not _is_word(text):
        return _NO_WORD
    for shape, what in _OTHER_SHAPES.items():
        if re.fullmatch(shape, text):
            return what
    if provider := _provider(text):
        return f"That's an API key from {provider}. Paste the Discord bot's token first; the key comes next."
    return None


def wrong_key(text: str, provider: str) -> str | None:
    """Explain why the text can't be this provider's key; None if it may be one."""
    if not _is_word(text):
        return _NO_WORD
    if _TOKEN.fullmatch(text):
        return "That's a Discord bot's token. Paste the API key from the model's provider here."
    if re.match(r"https?://", text):
        return "That's a link. Open it in a browser, make a key there, and copy it."
    own = KNOWN[provider].title if provider in _KEY_SHAPES else ""
    if own and (found := _provider(text)) and found != own:
        return f"That's a key from {found}. Paste one from {own} here."
    return None


def _provider(text: str) -> str | None:
    return next((KNOWN[name].title for name, shape in _KEY_SHAPES.items() if shape.fullmatch(text)), None)


def _is_word(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def ask_secret(talk: Dialogue, question: str, find_problem: Callable[[str], str | None]) -> str:
    """Ask for a token or key, hidden, until it can be one. Returns "" if the owner gives none."""
    while text := cleaned(talk.ask_hidden(question)):
        if (problem := find_problem(text)) is None:
            return text
        talk.bad(problem)
    return ""


def ask_keys(session: Session, agent: str, *, kept: bool) -> None:
    """Ask once for each key of the agent's models. `kept`: the owner keeps the bot, so its keys are only checked."""
    for model in session.answers.settings().agents[agent].models:
        if not model.needs_key or model.provider == "bedrock":  # Bedrock has its own credentials
            session.talk.good(f"{model.name} needs no API key")
        elif model.key_setting not in session.keys or not session.answers.get(model.key_setting):
            session.keys.add(model.key_setting)
            _ask_key(session, agent, model, kept)


def _ask_key(session: Session, agent: str, model: ModelSettings, kept: bool) -> None:
    """Ask until a key is accepted, goes unchecked, or is skipped."""
    talk, setting = session.talk, model.key_setting
    known = KNOWN.get(model.provider)
    provider = (known.title if known else "") or model.provider
    page = known.key.page if known is not None and known.key is not None else ""
    before = key = session.answers.get(setting)
    if key and not kept:
        place = " in the environment" if session.answers.in_environment(setting) == key else ""
        question = f"{setting} is already set{place} ({tail(key)}). Keep it or change it?"
        if talk.choose(question, ("keep", "change"), default="keep") == "change":
            key = ""
    if page and not key:
        talk.say(f"  Make an API key at {page}", "  and set a spending limit there, too.")
    leaves = "keeps the current key" if before else "skips it"
    while True:
        key = key or ask_secret(
            talk,
            f"{setting} (hidden while you paste; Enter {leaves}):",
            lambda text: None if model.base_url else wrong_key(text, model.provider),
        )
        if not key:
            session.answers.give(setting, before)
            if not before:
                talk.warn(f"{session.title(agent)} stays offline until {setting} is set.")
                talk.say("  Some models need no key, such as models on your own machine: see docs/models.md.")
            return
        session.answers.give(setting, key)
        if _is_settled(session, agent, model, provider):
            return
        key = ""


def _is_settled(session: Session, agent: str, model: ModelSettings, provider: str) -> bool:
    """Check the last key. Returns False if the owner must give another one."""
    talk = session.talk
    while True:
        models = session.answers.settings().agents[agent].models
        now = next(one for one in models if one.key_setting == model.key_setting)
        with talk.waiting(f"Asking {provider}"):
            error = model_error(now)
        status = f" (HTTP {error.status})" if error is not None and error.status else ""
        if error is None:
            ending = tail(session.answers.get(model.key_setting))
            talk.good(f"{provider} accepts the key ({ending}) for the model {now.model}")
            return True
        if isinstance(error, BadKey):
            talk.bad(f"{provider} rejects this key{status}. Copy all of it, or make a new one.")
            return False
        if isinstance(error, QuotaUsedUp):
            talk.warn(f"The key is valid, but your {provider} account has no credit left. Add some there.")
            return True
        if is_unknown(error):
            setting = session.answers.settings().agents[agent].spec.model_setting
            talk.warn(f"{provider} accepts the key but has no model {now.model}. Set {setting} in .env later.")
            return True
        if isinstance(error, ConnectionFailed):
            trouble = f"{provider} can't be reached from this machine"
        elif isinstance(error, TimedOut):
            trouble = f"{provider} doesn't answer"
        elif isinstance(error, Retryable):
            trouble = f"{provider} is busy{status}"
        else:
            trouble = f"{provider}: {error.kind}{status}"
        talk.bad(f"{trouble}. Your key may still be right.")
        if not talk.wants_to_continue("Try again?"):
            talk.warn("Continuing without checking the key.")
            return True
