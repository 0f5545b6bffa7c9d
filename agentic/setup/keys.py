"""Ask for the API keys of a bot's models, and check each with its provider, at no cost."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agent_config import ModelSettings
from agentic.check.agents import is_unknown
from agentic.llm.errors import BadKey, ConnectionFailed, ModelError, QuotaUsedUp, Retryable, TimedOut
from agentic.setup.answers import tail
from agentic.setup.lookups import model_error
from agentic.setup.pasted import cleaned, wrong_key
from agentic.setup.session import Session

_PAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "openai": ("OpenAI", "https://platform.openai.com/api-keys"),
        "anthropic": ("Anthropic", "https://console.anthropic.com/settings/keys"),
        "google": ("Google", "https://aistudio.google.com/apikey"),
        "xai": ("xAI", "https://console.x.ai/"),
        "openrouter": ("OpenRouter", "https://openrouter.ai/settings/keys"),
        "deepseek": ("DeepSeek", "https://platform.deepseek.com/api_keys"),
        "mistral": ("Mistral", "https://console.mistral.ai/api-keys"),
        "groq": ("Groq", "https://console.groq.com/keys"),
    }
)
"""Provider → its name, and the page where keys are made."""


def ask_keys(session: Session, agent: str, *, kept: bool) -> None:
    """Ask for the key of each of the agent's models that was not asked for yet. `kept`: the owner keeps this bot as it
    is, so a key that is there is only checked."""
    for model in session.answers.settings().agents[agent].models:
        if not model.needs_key or model.provider == "bedrock":  # that has credentials of its own
            session.talk.good(f"{model.name} needs no API key")
        elif model.key_setting not in session.keys or not session.answers.get(model.key_setting):
            session.keys.add(model.key_setting)
            _ask_key(session, agent, model, kept)


def _ask_key(session: Session, agent: str, model: ModelSettings, kept: bool) -> None:
    """Ask until a key is accepted, goes unchecked, or is left out."""
    talk, setting = session.talk, model.key_setting
    provider, page = _PAGES.get(model.provider, (model.provider, ""))
    before = key = session.answers.get(setting)
    if key and not kept and not _keeps(session, setting, key):
        key = ""
    if page and not key:
        talk.say(f"  Make an API key at {page}", "  and set a spending limit there as well.")
    leaves = "keeps the one there is" if before else "leaves it out"
    while True:
        if not key:
            key = cleaned(talk.ask_hidden(f"{setting} (hidden while you paste; Enter {leaves}):"))
            if not key:
                session.answers.give(setting, before)
                if not before:
                    talk.warn(f"{session.title(agent)} stays offline until {setting} is set.")
                    talk.say("  docs/providers.md has models that need no key, such as those on your own machine.")
                return
            if not model.base_url and (problem := wrong_key(key, model.provider)):
                talk.bad(problem)
                key = ""
                continue
        session.answers.give(setting, key)
        if _is_settled(session, agent, model, provider):
            return
        key = ""


def _keeps(session: Session, setting: str, key: str) -> bool:
    place = " in the environment" if session.answers.in_environment(setting) == key else ""
    question = f"{setting} is set already{place}, {tail(key)}: keep it or change it?"
    return session.talk.choose(question, ("keep", "change"), default="keep") == "keep"


def _is_settled(session: Session, agent: str, model: ModelSettings, provider: str) -> bool:
    """Check the key that was given last; False if another one is needed."""
    talk = session.talk
    while True:
        now = next(
            one for one in session.answers.settings().agents[agent].models if one.key_setting == model.key_setting
        )
        with talk.waiting(f"Asking {provider}"):
            error = model_error(now)
        if error is None:
            ending = tail(session.answers.get(model.key_setting))
            talk.good(f"{provider} accepts the key, {ending}; the model is {now.model}")
            return True
        if isinstance(error, BadKey):
            talk.bad(f"{provider} refuses this key{_status(error)}. Copy it whole, or make a new one.")
            return False
        if isinstance(error, QuotaUsedUp):
            talk.warn(f"{provider} knows the key, but its account has no credit left: add some there.")
            return True
        if is_unknown(error):
            setting = session.answers.settings().agents[agent].spec.model_setting
            talk.warn(f"{provider} accepts the key, but has no model {now.model}: set {setting} in .env")
            return True
        talk.bad(f"{_trouble(provider, error)}. This says nothing about the key.")
        if not talk.goes_on("Try again?"):
            talk.warn("The key goes unchecked.")
            return True


def _trouble(provider: str, error: ModelError) -> str:
    if isinstance(error, ConnectionFailed):
        return f"{provider} cannot be reached from this machine"
    if isinstance(error, TimedOut):
        return f"{provider} gives no answer"
    if isinstance(error, Retryable):
        return f"{provider} is busy{_status(error)}"
    return f"{provider}: {error.kind}{_status(error)}"


def _status(error: ModelError) -> str:
    return f" (HTTP {error.status})" if error.status else ""
