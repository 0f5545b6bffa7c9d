"""What was pasted: cleaned, and recognised where it is obviously something else. Secrets here are put together from
pieces, so that no scanner takes them for real."""

from __future__ import annotations

import pytest

from agentic.setup.answers import cleaned, wrong_key, wrong_token

TOKEN = ".".join(("MTQ0MDAwMDAwMDAwMDAwMDAwMQ", "GaBcDe", "x" * 38))
OPENAI, ANTHROPIC, GOOGLE, XAI = "sk-" + "proj-abc", "sk-" + "ant-abc", "AIza" + "a" * 35, "xai-" + "abc"


@pytest.mark.parametrize(
    "pasted", [TOKEN, f" {TOKEN}\n", f'"{TOKEN}"', f"Bot {TOKEN}", f"BOT_TOKEN_CLAUDE={TOKEN}", f"export X='{TOKEN}' "]
)
def test_what_is_copied_along_with_a_token_is_removed(pasted: str) -> None:
    assert cleaned(pasted) == TOKEN
    assert wrong_token(TOKEN) is None


@pytest.mark.parametrize(
    ("pasted", "what"),
    [
        ("1440000000000000001", "an ID"),
        ("0123456789abcdef" * 4, "Public Key"),
        ("aB3-" * 8, "Client Secret"),
        ("https://discord.com/oauth2/authorize?client_id=1", "link"),
        ("mfa." + "a" * 70, "your own account's token"),
        (OPENAI, "key from OpenAI"),
        ("two words", "spaces"),
        ("tökén", "characters"),
    ],
)
def test_what_is_no_token_is_named_without_repeating_it(pasted: str, what: str) -> None:
    problem = wrong_token(pasted)
    assert problem is not None
    assert what in problem
    assert pasted not in problem


@pytest.mark.parametrize(
    ("pasted", "provider", "what"),
    [
        (ANTHROPIC, "openai", "a key from Anthropic. Paste one from OpenAI"),
        (OPENAI, "anthropic", "a key from OpenAI"),
        (XAI, "google", "a key from xAI"),
        (GOOGLE, "xai", "a key from Google"),
        (TOKEN, "openai", "Discord bot's token"),
        ("https://console.x.ai/", "xai", "link"),
        ("my key", "xai", "spaces"),
    ],
)
def test_what_is_no_key_of_this_provider_is_named(pasted: str, provider: str, what: str) -> None:
    problem = wrong_key(pasted, provider)
    assert problem is not None
    assert what in problem


@pytest.mark.parametrize(
    ("key", "provider"),
    [
        *((OPENAI, "openai"), (ANTHROPIC, "anthropic"), (GOOGLE, "google"), (XAI, "xai")),
        *(("sk-oldstyle", "openai"), ("anything-new", "google"), (OPENAI, "somebody-else")),
    ],
)
def test_a_key_that_may_be_right_is_left_to_the_provider(key: str, provider: str) -> None:
    assert wrong_key(key, provider) is None
