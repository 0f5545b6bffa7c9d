"""The settings under arbitrary texts: settings or one SettingsError, and no value repeated in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_config import Settings, SettingsError, load_settings, setting_names
from agentic.settings.loading import OLD_NAMES

KEYS = (*setting_names(), *OLD_NAMES)
NUMBERS = st.integers().map(str) | st.floats().map(str)
ODD = [
    "9" * 5000,
    "1,2",
    "1:debate",
    "1:",
    ":",
    "nan",
    "inf",
    "1e400",
    "٣",
    "²",
    "../..",
    "/",
    "a" * 300,
    "\ud800",
    "\0",
]
ADDRESSES = ["redis://[::1", "http://", "unix://", "redis://:p@h:99999/x", "http://u:p@h:0", "Europe/Berlin", "posix"]
TEXTS = st.text(max_size=40) | NUMBERS | st.sampled_from([*ODD, *ADDRESSES])
# At least one sign that stands in no message of ours, so that a text which is found in one was repeated from here.
CANARIES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=30).map(lambda text: f"¤{text}¤")


def loaded(environ: dict[str, str], file: Path | None = None) -> Settings | SettingsError:
    try:
        return load_settings(environ, file)
    except SettingsError as error:
        return error


@given(st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=6))
@settings(max_examples=200, deadline=None)
def test_any_texts_are_settings_or_one_error_that_names_keys(environ: dict[str, str]) -> None:
    found = loaded(environ)
    if isinstance(found, SettingsError):
        assert found.problems
        assert all(line.startswith(KEYS) for line in found.problems)
        assert all("\n" not in line for line in found.problems)


@given(st.sampled_from(KEYS), TEXTS)
@settings(max_examples=200, deadline=None)
def test_any_text_for_any_key_is_settings_or_an_error_that_names_the_key(key: str, text: str) -> None:
    found = loaded({key: text})
    if isinstance(found, SettingsError):
        assert [line.partition(":")[0] for line in found.problems] == [key] or key.startswith("COORDINATOR_ACTIVE")


@pytest.mark.promise(14)
@given(st.sampled_from(KEYS), CANARIES)
@settings(max_examples=200, deadline=None)
def test_no_odd_value_is_repeated_in_a_message(key: str, canary: str) -> None:
    found = loaded({key: canary})
    told = str(found) if isinstance(found, SettingsError) else "\n".join(found.warnings)
    assert "¤" not in told


@pytest.mark.promise(14)
@pytest.mark.parametrize("secret", ["0123456789abcdef", "redis://:pass@h", "p@ss", "hunter2"])
@pytest.mark.parametrize("key", ["MAX_QUEUE_DEPTH", "GUILD_IDS", "LOG_LEVEL", "CONSOLE_PORT"])
def test_a_value_that_may_be_a_secret_is_not_repeated(key: str, secret: str) -> None:
    assert secret not in str(loaded({key: secret}))


@pytest.mark.parametrize("key", ["CONSOLE_TOKEN", "EVENTS_SECRET"])
def test_a_value_of_a_secret_setting_is_not_repeated(key: str) -> None:
    assert "too-short" not in str(loaded({key: "too-short"}))


def test_a_short_wrong_value_is_shown() -> None:
    assert str(loaded({"CONSOLE_PORT": "80x"})).endswith('a port from 1 to 65535, such as 8888; got "80x"')


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.binary())
@settings(deadline=None)
def test_any_file_is_settings_or_one_error(tmp_path_factory, content: str | bytes) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path_factory.getbasetemp() / "any.env"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert isinstance(loaded({}, file), Settings | SettingsError)


@pytest.mark.parametrize("text", ["summarize, follow-up", "Summarise,FOLLOW_UP"])
def test_tasks_are_read_in_both_spellings(text: str) -> None:
    found = loaded({"IDLE_TASKS": text})
    assert not isinstance(found, SettingsError)
    assert found.idle_tasks == ("summarise", "follow_up")
