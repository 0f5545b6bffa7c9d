"""Clean what was pasted for a token or key, and recognise what is obviously none. Pure; no text here repeats it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

_KEY_SHAPES: Mapping[str, tuple[str, re.Pattern[str]]] = MappingProxyType(
    {
        "anthropic": ("Anthropic", re.compile(r"sk-ant-.+")),
        "openrouter": ("OpenRouter", re.compile(r"sk-or-.+")),
        "xai": ("xAI", re.compile(r"xai-.+")),
        "google": ("Google", re.compile(r"AIza[\w-]{30,}")),
        "openai": ("OpenAI", re.compile(r"sk-(proj|svcacct|admin)-.+")),
    }
)
"""Provider → its name, and the beginning that only its keys have."""
_TOKEN = re.compile(r"[\w-]{22,30}\.[\w-]{6,7}\.[\w-]{27,45}")
_WRAPPED = re.compile(r"""(?:export\s+)?[A-Z][A-Z0-9_]*=\s*(?P<rest>.+)""")


def cleaned(pasted: str) -> str:
    """Without what is often copied along: blanks, quotation marks, `KEY=`, `Bot ` before a token."""
    text = pasted.strip()
    if match := _WRAPPED.fullmatch(text):
        text = match["rest"].strip()
    text = text.strip("\"'`").strip()
    return text.removeprefix("Bot ").strip()


def wrong_token(text: str) -> str | None:
    """Say what the text is instead of a bot's token; None if it may be one."""
    if problem := _no_word(text):
        return problem
    if text.isdecimal():
        return "That is an id, such as the Application ID. The token is on the page Bot, under Reset Token."
    if re.fullmatch(r"[0-9a-fA-F]{64}", text):
        return "That is the Public Key of the application. The token is on the page Bot, under Reset Token."
    if re.fullmatch(r"[\w-]{32}", text):
        return "That is the Client Secret of OAuth2. The token is on the page Bot, under Reset Token."
    if re.match(r"https?://", text):
        return "That is a link. The token is on the page Bot of the application, under Reset Token."
    if text.startswith("mfa."):
        return "That is the token of a person's account, which Discord forbids for bots. Use the one of the page Bot."
    if provider := _provider(text):
        return f"That is an API key of {provider}. The token of the Discord bot comes first; the key is asked next."
    return None


def wrong_key(text: str, provider: str) -> str | None:
    """Say what the text is instead of a key of this provider; None if it may be one."""
    if problem := _no_word(text):
        return problem
    if _TOKEN.fullmatch(text):
        return "That is the token of a Discord bot. Here the key of the model's provider is needed."
    if re.match(r"https?://", text):
        return "That is a link. Open it in a browser and copy the key that is made there."
    own, _ = _KEY_SHAPES.get(provider, ("", None))
    if own and (found := _provider(text)) and found != own:
        return f"That is a key of {found}, and {own}'s is needed here."
    return None


def _provider(text: str) -> str | None:
    return next((name for name, shape in _KEY_SHAPES.values() if shape.fullmatch(text)), None)


def _no_word(text: str) -> str | None:
    if not (text.isascii() and text.isprintable() and " " not in text):
        return "That has spaces or characters that no token and no key has. Copy it again."
    return None
