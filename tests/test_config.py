"""The settings: names, defaults, tolerance, and what an owner is told when something is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pydantic import SecretStr, ValidationError

from agent_config import (
    AGENTS,
    Settings,
    SettingsError,
    load_settings,
    machine_timezone,
    missing_key_message,
    missing_tokens_message,
    process_environment,
    setting_names,
)
from agentic.agent.persona import read_fronts
from agentic.process.root import ROOT
from agentic.services.signal.settings import SignalSettings
from agentic.settings.fields import NO_LIMIT
from agentic.settings.loading import OLD_NAMES
from agentic.settings.validation import shared_tokens
from agentic.themes import THEMES

EXAMPLE = ROOT / ".env.example"


def load(**environ: str) -> Settings:
    return load_settings({"TIMEZONE": "UTC", **environ}, env_file=None)


def problems_of(environ: Mapping[str, str], env_file: Path | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, env_file)
    return caught.value.problems


def env_file(folder: Path, text: str) -> Path:
    path = folder / ".env"
    path.write_text(text, encoding="utf-8")
    return path


# --- what is read ---------------------------------------------------------------------------------------------------


def test_nothing_set_gives_the_documented_defaults() -> None:
    settings = load()
    assert (settings.agent_max_daily, settings.agent_cooldown_seconds, settings.context_window_size) == (100, 15, 40)
    assert (settings.schedule_min, settings.schedule_max, settings.max_rounds) == (3, 6, 30)
    assert (settings.active_start, settings.active_end, settings.reactive_probability) == (7, 23, 0.15)
    assert (settings.turn_delay_min, settings.turn_delay_max, settings.timeout_threshold) == (15, 45, 8)
    assert (settings.max_concurrent_turns, settings.max_queue_depth) == (5, 100)
    assert (settings.show_cost_embeds, settings.fire_on_startup, settings.redis_url) == (False, False, None)
    assert (settings.data_dir, settings.log_level, settings.channels, settings.warnings) == (
        Path("data"),
        "INFO",
        {},
        (),
    )
    assert all(agent.token is None and agent.api_key is None for agent in settings.agents.values())


def test_every_name_of_the_specification_is_a_setting() -> None:
    names = """BOT_TOKEN_CHATGPT BOT_TOKEN_CLAUDE BOT_TOKEN_GEMINI BOT_TOKEN_GROK OPENAI_API_KEY ANTHROPIC_API_KEY
        GEMINI_API_KEY XAI_API_KEY GUILD_IDS AGENT_CHANNEL_IDS BOT_IDS REDIS_URL AGENT_MAX_DAILY AGENT_COOLDOWN_SECONDS
        CONTEXT_WINDOW_SIZE CHANNEL_THEME_MAP COORDINATOR_FIRE_ON_STARTUP AGENT_NAME BOTS_ROLE_ID AGENT_PERSONALITY
        SHOW_COST_EMBEDS COORDINATOR_SCHEDULE_MIN COORDINATOR_SCHEDULE_MAX COORDINATOR_ACTIVE_START
        COORDINATOR_ACTIVE_END COORDINATOR_MAX_ROUNDS COORDINATOR_REACTIVE_PROBABILITY COORDINATOR_TURN_DELAY_MIN
        COORDINATOR_TURN_DELAY_MAX COORDINATOR_PRIORITY_CHANNELS COORDINATOR_TIMEOUT_THRESHOLD TIMEZONE CHATGPT_MODEL
        CHATGPT_IMAGE_MODEL CLAUDE_MODEL CLAUDE_IMAGE_MODEL GEMINI_MODEL GEMINI_IMAGE_MODEL GROK_MODEL GROK_IMAGE_MODEL
        OPENAI_BASE_URL ANTHROPIC_BASE_URL GOOGLE_GEMINI_BASE_URL XAI_BASE_URL"""
    assert set(names.split()) <= {*setting_names(), *OLD_NAMES}


def test_lists_take_spaces_empty_places_and_repetitions() -> None:
    settings = load(GUILD_IDS=" 3, 1 ,,3,", BOT_IDS=",", COORDINATOR_PRIORITY_CHANNELS="7")
    assert (settings.guild_ids, settings.bot_ids, settings.priority_channels) == ((3, 1), (), (7,))


@pytest.mark.parametrize("text", ["true", "1", "yes", "on", "TRUE", " On "])
def test_a_switch_is_on_in_the_usual_spellings(text: str) -> None:
    assert load(COORDINATOR_FIRE_ON_STARTUP=text).fire_on_startup


@pytest.mark.parametrize("text", ["false", "0", "no", "off", ""])
def test_a_switch_is_off_in_the_usual_spellings(text: str) -> None:
    assert not load(SHOW_COST_EMBEDS=text).show_cost_embeds


@pytest.mark.parametrize("text", ["yield", "finish", "ignore", "Finish"])
def test_what_a_person_who_barges_in_does_is_one_of_three(text: str) -> None:
    assert load(BARGE_IN=text).barge_in == text.lower()


def test_anything_else_is_named() -> None:
    with pytest.raises(SettingsError, match="BARGE_IN: expected yield, finish, or ignore"):
        load(BARGE_IN="shout")


def test_who_may_stop_the_bots_is_given_by_ids() -> None:
    assert load(MODERATOR_IDS="5, 6", STOP_ROLE_IDS="6,7", STOP_USER_IDS="8").moderators == {5, 6, 7, 8}
    assert load(OWNER_USER_IDS="9").moderators == {9}
    assert load().moderators == frozenset()


def test_the_process_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = env_file(tmp_path, "AGENT_MAX_DAILY=5\nCONTEXT_WINDOW_SIZE=20\n")
    settings = load_settings({"AGENT_MAX_DAILY": "7"}, path)
    assert (settings.agent_max_daily, settings.context_window_size) == (7, 20)


def test_each_place_of_a_setting_wins_over_those_below_it(tmp_path: Path) -> None:
    """Pins are above: tests/agentic/agent/test_persona_options.py."""
    environ = {"PERSONAS_DIR": str(tmp_path / "personas"), "CONFIG_FILES_DIR": str(tmp_path / "config")}
    files = {"personas": "claude/identity.md", "config": "bots/claude.yaml"}
    for folder, name in files.items():
        (tmp_path / folder / name).parent.mkdir(parents=True)

    def model() -> str:
        return load_settings(environ, tmp_path / ".env", fronts=read_fronts).agents["claude"].model

    assert model() == AGENTS["claude"].model
    env_file(tmp_path, "CLAUDE_MODEL=of-env-file\n")
    assert model() == "of-env-file"
    environ["claude_model"] = "of-environment"
    assert model() == "of-environment"
    (tmp_path / "personas" / files["personas"]).write_text("---\nmodel: of-persona\n---\n")
    assert model() == "of-persona"
    (tmp_path / "config" / files["config"]).write_text("model: anthropic/of-file\n")
    assert model() == "of-file"


def test_an_empty_value_means_unset_in_both_places(tmp_path: Path) -> None:
    path = env_file(tmp_path, "AGENT_MAX_DAILY=7\nREDIS_URL=\nAGENT_NAME=\nBOT_TOKEN_GROK=\nLOG_LEVEL=  \n")
    settings = load_settings({"AGENT_MAX_DAILY": "", "CONTEXT_WINDOW_SIZE": " "}, path)
    assert (settings.agent_max_daily, settings.context_window_size) == (7, 40)
    assert (settings.redis_url, settings.agent_name, settings.log_level) == (None, None, "INFO")
    assert settings.agents["grok"].token is None


def test_a_file_with_quotes_comments_and_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = env_file(tmp_path, "\ufeffGUILD_IDS=\"1,2\"\n# a comment\nexport AGENT_PERSONALITY='dry, ${HOME}'  # mine\n")
    settings = load_settings({}, path)
    assert settings.guild_ids == (1, 2)
    assert settings.agent_personality == "dry, ${HOME}", "nothing of the process is put into a value"


def test_a_file_that_is_not_there_is_no_problem(tmp_path: Path) -> None:
    assert load_settings({}, tmp_path / ".env").guild_ids == ()


def test_variables_of_other_programs_are_left_alone() -> None:
    settings = load(agents="[]", warnings="no json", max_rounds="many", PATH="/bin")
    assert settings.agents.keys() == AGENTS.keys()
    assert (settings.warnings, settings.max_rounds) == ((), 30)


def test_loading_does_not_look_at_the_process_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_MAX_DAILY", "1")
    assert load().agent_max_daily == 100
    assert Settings().agent_max_daily == 100
    assert process_environment()["AGENT_MAX_DAILY"] == "1"


@pytest.mark.promise(43, 44)
@pytest.mark.parametrize(
    ("given", "daily", "person"),
    [
        ({}, 5.0, 1.0),
        ({"BUDGET_DAILY_USD": "20"}, 20.0, 4.0),
        ({"BUDGET_DAILY_USD": "20", "BUDGET_USER_DAILY_USD": "20"}, 20.0, 20.0),
        ({"BUDGET_DAILY_USD": ""}, 5.0, 1.0),
        ({"BUDGET_AGENT_DAILY_USD": "3"}, 5.0, 1.0),
        ({"BUDGET_CHANNEL_DAILY_USD": "1"}, 5.0, 1.0),
        ({"BUDGET_USER_DAILY_USD": "0.5"}, 5.0, 0.5),
        ({"BUDGET_USER_DAILY_USD": "none"}, 5.0, None),
        ({"BUDGET_DAILY_USD": "None"}, None, None),
        ({"BUDGET_DAILY_USD": "none", "BUDGET_USER_DAILY_USD": "2"}, None, 2.0),
        ({"BUDGET_DAILY_USD": "0.00"}, 0.0, 0.0),
    ],
)
def test_each_budget_stands_for_itself_and_a_person_has_a_fifth_of_the_days(
    given: dict[str, str], daily: float | None, person: float | None
) -> None:
    settings = load(**given)
    assert (settings.budget_daily_usd, settings.user_budget) == (daily, person)
    said = [line for line in settings.warnings if line.startswith("BUDGET_DAILY_USD: no limit")]
    assert bool(said) == (daily is None)


def test_of_every_limit_zero_allows_nothing_and_none_is_no_limit() -> None:
    counts = ("AGENT_MAX_DAILY", "AGENT_MAX_DAILY_UNASKED", "MENTIONS_PER_MINUTE", "MAX_QUEUE_DEPTH")
    sums = ("BUDGET_DAILY_USD", "BUDGET_AGENT_DAILY_USD", "BUDGET_CHANNEL_DAILY_USD", "BUDGET_USER_DAILY_USD")
    limits = {*counts, "MEMORY_WRITES_PER_DAY", *sums}
    fields = {name: str(info.validation_alias) for name, info in Settings.model_fields.items()}
    nothing, anything = load(**dict.fromkeys(limits, "0")), load(**dict.fromkeys(limits, " None "))
    assert {key for name, key in fields.items() if getattr(nothing, name) == 0} >= limits
    assert {getattr(anything, name) for name, key in fields.items() if key in limits} == {NO_LIMIT, None}
    warned = {line.partition("=")[0] for line in nothing.warnings if "for no limit, set none" in line}
    assert warned == {"AGENT_MAX_DAILY", "MENTIONS_PER_MINUTE", *sums}, "those with which the bots fall silent"


def test_a_setting_is_known_in_any_case_of_letters(tmp_path: Path) -> None:
    path = env_file(tmp_path, "agent_max_daily=5\nBot_Token_Claude=t\nConfig_Dir=who\nendpoint_lab_key=k\n")
    settings = load_settings({"Log_Level": "debug", "agent_name": "grok"}, path)
    assert (settings.agent_max_daily, settings.log_level, settings.agent_name) == (5, "DEBUG", "grok")
    assert (settings.personas_dir, settings.keys["ENDPOINT_LAB_KEY"].get_secret_value()) == (Path("who"), "k")
    assert settings.agents["claude"].token == SecretStr("t")
    assert not [line for line in settings.warnings if "in .env: ignored" in line]
    assert load_settings({"AGENT_MAX_daily": "7"}, path).agent_max_daily == 7, "the environment wins, in any case"
    assert problems_of({}, env_file(tmp_path, "Agent_Name=grok\n"))[0].startswith("AGENT_NAME: ")


def test_a_name_that_is_set_twice_is_reported_where_the_texts_differ(tmp_path: Path) -> None:
    path = env_file(
        tmp_path, "AGENT_MAX_DAILY=5\nagent_max_daily=6\nLOG_LEVEL=INFO\nLOG_LEVEL=DEBUG\nGUILD_IDS=1\nguild_ids=1\n"
    )
    settings = load_settings({"redis_url": "redis://a", "Redis_Url": "redis://b", "GUILD_IDS": "2"}, path)
    assert (settings.agent_max_daily, settings.log_level, settings.guild_ids) == (5, "DEBUG", (2,))
    assert [line for line in settings.warnings if "set twice" in line] == [
        "agent_max_daily, AGENT_MAX_DAILY in .env: set twice to different values; AGENT_MAX_DAILY is used",
        "LOG_LEVEL in .env: set twice to different values; the last one is used",
        "redis_url, Redis_Url in the environment: set twice to different values; Redis_Url is used",
    ]


# --- agents ---------------------------------------------------------------------------------------------------------


def test_each_agent_gets_its_token_key_models_and_address() -> None:
    settings = load(
        BOT_TOKEN_CHATGPT="token-one",
        OPENAI_API_KEY="key-one",
        CHATGPT_MODEL="gpt-other",
        CHATGPT_IMAGE_MODEL="none",
        OPENAI_BASE_URL="http://127.0.0.1:9/v1",
    )
    agent = settings.agents["chatgpt"]
    assert agent.token is not None
    assert agent.token.get_secret_value() == "token-one"
    assert agent.api_key is not None
    assert agent.api_key.get_secret_value() == "key-one"
    assert (agent.model, agent.image_model, agent.base_url) == ("gpt-other", None, "http://127.0.0.1:9/v1")
    assert settings.agents["claude"].token is None


def test_a_new_row_of_the_table_brings_its_own_settings() -> None:
    row = replace(AGENTS["chatgpt"], name="mistral", provider="mistral", key_setting="MISTRAL_API_KEY", model="m")
    environ = {"BOT_TOKEN_MISTRAL": "t", "MISTRAL_API_KEY": "k", "MISTRAL_IMAGE_MODEL": "draw", "AGENT_NAME": "mistral"}
    table = {**AGENTS, "mistral": row}
    settings = load_settings({**environ, "MISTRAL_BASE_URL": "http://127.0.0.1:9"}, None, table)
    agent = settings.agents["mistral"]
    assert agent.token == SecretStr("t")
    assert agent.api_key == SecretStr("k")
    assert (agent.model, agent.image_model, agent.base_url) == ("m", "draw", "http://127.0.0.1:9")
    assert settings.agent_name == "mistral"
    assert "MISTRAL_MODEL" in setting_names(table)


def test_two_agents_of_one_provider_share_its_key_and_address() -> None:
    table = {**AGENTS, "sonnet": replace(AGENTS["claude"], name="sonnet")}
    settings = load_settings({"ANTHROPIC_API_KEY": "k"}, None, table)
    assert settings.agents["sonnet"].api_key == settings.agents["claude"].api_key == SecretStr("k")


@pytest.mark.parametrize(("ours", "expected"), [("ours", "ours"), ("", "theirs")])
def test_googles_other_key_name_counts_only_where_ours_is_unset(ours: str, expected: str) -> None:
    settings = load(GEMINI_API_KEY=ours, GOOGLE_API_KEY="theirs")
    assert settings.agents["gemini"].api_key == SecretStr(expected)


def test_the_four_personalities_differ_and_one_setting_replaces_them_all() -> None:
    assert len({load().personality_of(name) for name in AGENTS}) == 4
    assert {load(AGENT_PERSONALITY="terse").personality_of(name) for name in AGENTS} == {"terse"}


# --- channels -------------------------------------------------------------------------------------------------------


def test_a_channel_is_given_with_its_theme_and_is_casual_without() -> None:
    settings = load(CHANNEL_THEME_MAP="1:debate, 2:Would_You Rather, 3, 4:,")
    assert settings.channels == {1: "debate", 2: "would-you-rather", 3: "casual", 4: "casual"}
    assert settings.warnings == ()


def test_the_old_list_of_channels_still_restricts_the_map_and_what_it_leaves_out_is_warned_of() -> None:
    settings = load(AGENT_CHANNEL_IDS="1,5", CHANNEL_THEME_MAP="1:debate,2:memes", COORDINATOR_PRIORITY_CHANNELS="5,9")
    assert settings.channels == {1: "debate", 5: "casual"}
    assert [line for line in settings.warnings if line.startswith("CHANNEL_THEME_MAP") and "2" in line]
    assert [line for line in settings.warnings if line.startswith("COORDINATOR_PRIORITY_CHANNELS") and "9" in line]


def test_a_policy_for_a_channel_that_the_bots_do_not_have_is_warned_of() -> None:
    settings = load(CHANNEL_THEME_MAP="1:debate", COORDINATOR_POLICIES="Would You Rather:pull, 1: Round_Robin, 9:pull")
    assert settings.policies == {"would-you-rather": "pull", "1": "round-robin", "9": "pull"}
    assert settings.warnings == ("COORDINATOR_POLICIES: ignored, because the bots don't speak there: 9",)


def test_tokens_without_any_channel_are_warned_of() -> None:
    assert "stay silent" in load(BOT_TOKEN_GROK="t").warnings[0]


def test_an_unknown_theme_names_the_known_ones() -> None:
    (problem,) = problems_of({"CHANNEL_THEME_MAP": "1:debate,2:debat"})
    assert problem.startswith("CHANNEL_THEME_MAP: unknown theme 'debat' for channel 2")
    assert all(theme in problem for theme in THEMES)


# --- problems -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("GUILD_IDS", "1,x", "whole numbers"),
        ("AGENT_CHANNEL_IDS", "-1", "whole numbers"),
        ("BOT_IDS", "99999999999999999999999", "whole numbers"),
        ("BOTS_ROLE_ID", "everyone", "a whole number"),
        ("CHANNEL_THEME_MAP", "debate", "channel_id:theme"),
        ("CHANNEL_THEME_MAP", "1:debate,1:memes", "two themes"),
        ("COORDINATOR_POLICY", "anarchy", "rounds, round-robin, moderated, or pull"),
        ("COORDINATOR_POLICIES", "debate", "theme:policy or channel_id:policy"),
        ("COORDINATOR_POLICIES", "debat:pull", "theme:policy or channel_id:policy"),
        ("COORDINATOR_POLICIES", "debate:anarchy", "unknown policy for debate; expected one of rounds, round-robin"),
        ("COORDINATOR_POLICIES", "7:pull, 07:rounds", "7 has two policies"),
        ("CHANNEL_THEME_MAP", "07:debate,7:memes", "two themes"),
        ("MODERATOR_IDS", "5\0", "without NUL bytes"),
        ("CHANNEL_THEME_MAP", "1:sk-123.abc", "unknown theme for"),
        ("AGENT_MAX_DAILY", "1.5", "from 0"),
        ("AGENT_COOLDOWN_SECONDS", "nan", "from 0"),
        ("BUDGET_DAILY_USD", "inf", "from 0"),
        ("BUDGET_USER_DAILY_USD", "-1", "from 0"),
        ("CONTEXT_WINDOW_SIZE", "0", "from 1"),
        ("MAX_QUEUE_DEPTH", "-1", "from 0"),
        ("SHOW_COST_EMBEDS", "maybe", "true or false"),
        ("COORDINATOR_ACTIVE_START", "24", "0 to 23"),
        ("COORDINATOR_ACTIVE_END", "25", "0 to 24"),
        ("COORDINATOR_REACTIVE_PROBABILITY", "15", "0 to 1"),
        ("COORDINATOR_TURN_DELAY_MAX", "inf", "seconds"),
        ("TIMEZONE", "Middle/Earth", "IANA"),
        ("TIMEZONE", "../../etc/passwd", "IANA"),
        ("TIMEZONE", "Europe", "IANA"),
        ("REDIS_URL", "localhost:6379", "redis://"),
        ("REDIS_URL", "redis://x:port", "redis://"),
        ("REDIS_URL", "redis://x/first", "redis://"),
        ("REDIS_URL", "unix://", "unix://"),
        ("REDIS_URL", "redis+sentinel://one:26379,two:26379", "redis+sentinel://"),
        ("REDIS_URL", "redis+sentinel://one:26379/bots/first", "redis+sentinel://"),
        ("REDIS_URL", "redis+sentinel://one:port/bots", "redis+sentinel://"),
        ("XAI_BASE_URL", "https://api x.ai", "https://"),
        ("AGENT_COOLDOWN_SECONDS", "1e300", "to 86400"),
        ("COORDINATOR_SCHEDULE_MAX", "1000000000", "to 1000"),
        ("MAX_QUEUE_DEPTH", "9" * 30, "to 1000000"),
        ("TIMEZONE", "\udcff", "UTF-8"),
        ("AGENT_PERSONALITY", "kind\0", "UTF-8"),
        ("XAI_BASE_URL", "api.x.ai", "https://"),
        ("LOG_LEVEL", "loud", "WARNING"),
        ("BOT_TOKEN_CLAUDE", "Bot abc", "without spaces"),
        ("OPENAI_API_KEY", "schlüssel", "ASCII characters"),
        ("AGENT_NAME", "bing", "chatgpt, claude, gemini, grok"),
        ("COMMANDS_BOT", "bing", "chatgpt, claude, gemini, grok"),
        ("MODEL_RETRIES", "11", "0 to 10"),
        ("ALLOWED_TOOLS", "web search", "patterns"),
        ("WEB_SEARCH", "maybe", "true or false"),
        ("CONFIG_FILES_DIR", "c" * 300, "a folder"),
        ("ENDPOINT_LAB_KEY", "two words", "without spaces"),
        ("CHEAP_MODEL", "gpt-6-luna", "provider/model"),
        ("CHEAP_MODEL", "nobody/gpt-6-luna", "provider/model"),
        ("CHEAP_MODEL", "openai/gpt-6-luna", "OPENAI_API_KEY"),
        ("CHEAP_FIRST", "claude, G.R.O.K", "bots' names"),
    ],
)
def test_a_wrong_value_is_named_by_its_key_with_what_was_expected(key: str, text: str, expected: str) -> None:
    (problem,) = problems_of({key: text})
    assert problem.startswith(f"{key}: ")
    assert expected in problem


def test_all_problems_come_in_one_message(tmp_path: Path) -> None:
    path = env_file(tmp_path, "AGENT_NAME=gemini\nGUILD_IDS=a\nXAI_API_KEY=two words\n")
    environ = {"COORDINATOR_SCHEDULE_MIN": "9", "COORDINATOR_SCHEDULE_MAX": "2", "GROK_MODEL": "fine"}
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, path)
    text = str(caught.value)
    assert len(caught.value.problems) == 4
    assert "4 problems" in text
    assert all(key in text for key in ("AGENT_NAME", "GUILD_IDS", "XAI_API_KEY", "COORDINATOR_SCHEDULE_MIN"))
    assert "GROK_MODEL" not in text


def test_a_range_is_not_blamed_for_an_end_that_could_not_be_read() -> None:
    (problem,) = problems_of({"COORDINATOR_TURN_DELAY_MIN": "90", "COORDINATOR_TURN_DELAY_MAX": "long"})
    assert problem.startswith("COORDINATOR_TURN_DELAY_MAX: expected")


def test_one_end_of_a_range_past_the_others_default_means_that_end() -> None:
    settings = load(COORDINATOR_SCHEDULE_MAX="2", COORDINATOR_TURN_DELAY_MIN="60")
    assert (settings.schedule_min, settings.schedule_max) == (2, 2)
    assert (settings.turn_delay_min, settings.turn_delay_max) == (60, 60)


@pytest.mark.parametrize("given", [{}, {"COORDINATOR_SCHEDULE_MIN": "3"}])
def test_a_schedule_of_at_most_none_is_off_whatever_its_minimum(given: dict[str, str]) -> None:
    settings = load(COORDINATOR_SCHEDULE_MAX="0", **given)
    assert (settings.schedule_min, settings.schedule_max) == (0, 0)


def test_active_hours_may_cross_midnight_but_not_be_empty() -> None:
    settings = load(COORDINATOR_ACTIVE_START="20", COORDINATOR_ACTIVE_END="2")
    assert (settings.active_start, settings.active_end) == (20, 2)
    (problem,) = problems_of({"COORDINATOR_ACTIVE_START": "9", "COORDINATOR_ACTIVE_END": "9"})
    assert "COORDINATOR_ACTIVE_START, COORDINATOR_ACTIVE_END: " in problem


@pytest.mark.promise(67)
def test_one_token_for_two_bots_names_both_keys_and_leaves_the_others_alone() -> None:
    settings = load(BOT_TOKEN_CLAUDE="same-t0ken", BOT_TOKEN_GROK="same-t0ken", BOT_TOKEN_GEMINI="other", GUILD_IDS="1")
    warning = next(line for line in settings.warnings if "same" in line)
    assert warning.startswith("BOT_TOKEN_CLAUDE, BOT_TOKEN_GROK: ")
    assert "t0ken" not in warning
    assert shared_tokens(settings) == [("claude", "grok")]


def test_the_agents_name_is_read_from_the_process_and_is_an_error_in_the_file(tmp_path: Path) -> None:
    assert load(AGENT_NAME="gemini").agent_name == load(AGENT_NAME="Gemini").agent_name == "gemini"
    (problem,) = problems_of({"AGENT_NAME": "gemini"}, env_file(tmp_path, "AGENT_NAME=gemini"))
    assert problem.startswith("AGENT_NAME: ")
    assert ".env" in problem


@pytest.mark.parametrize(
    ("data", "line"), [("GUILD_IDS=1".encode("utf-16"), 1), (b"LOG_LEVEL=INFO\n# f\xfcr mich\n", 2)]
)
def test_a_file_in_another_encoding_is_one_problem_with_its_first_line(data: bytes, line: int, tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(data)
    (problem,) = problems_of({}, tmp_path / ".env")
    assert f".env, line {line}: expected UTF-8 text" in problem


def test_a_folder_in_place_of_the_file_is_one_problem(tmp_path: Path) -> None:
    """Docker makes one where a file that is to be mounted does not exist."""
    (tmp_path / ".env").mkdir()
    (problem,) = problems_of({}, tmp_path / ".env")
    assert ".env: expected a file, and this is a folder" in problem


@pytest.mark.parametrize(
    "line", ["BOT_TOKEN_CLAUDE: s3cret", "BOT_TOKEN_CLAUDE s3cret", 'BOT_TOKEN_CLAUDE="s3cret', "=1"]
)
def test_a_line_that_cannot_be_read_is_named_by_its_number(line: str, tmp_path: Path) -> None:
    (problem,) = problems_of({}, env_file(tmp_path, f"GUILD_IDS=1\n{line}\nXAI_API_KEY=k\n"))
    assert ".env, line 2: expected KEY=value" in problem
    assert ("quotation mark" in problem) == ('"' in line)


@pytest.mark.promise(14)
def test_no_secret_is_shown_whichever_line_it_was_pasted_into(tmp_path: Path) -> None:
    secret = "MTk4NjIy.canary-0123456789"
    shown = []
    for key in setting_names():
        text = f"1:{secret}" if key == "CHANNEL_THEME_MAP" else f"{secret} {secret}"
        try:
            settings = load_settings({key: text} if key == "AGENT_NAME" else {}, env_file(tmp_path, f"{key}={text}"))
            shown += settings.warnings
        except SettingsError as error:
            shown.append(str(error))
    assert len(shown) > 20
    assert "canary" not in " ".join(shown)


@pytest.mark.promise(13)
def test_tokens_keys_and_addresses_stay_out_of_the_settings_text() -> None:
    secrets = {"BOT_TOKEN_GROK": "canary1", "XAI_API_KEY": "canary2"}
    addresses = {"REDIS_URL": "redis://:canary3@127.0.0.1", "XAI_BASE_URL": "http://u:canary4@127.0.0.1"}
    assert "canary" not in repr(load(**secrets, **addresses)) + str(load(**secrets, **addresses))


def test_a_mistyped_name_in_the_file_is_a_warning_without_its_value(tmp_path: Path) -> None:
    path = env_file(tmp_path, "GUILD_ID=canary\nBOT_TOKEN_MISTRAL=canary\nPOSTGRES_PASSWORD=canary\nlog_levle=DEBUG\n")
    text = "\n".join(load_settings({"GUILD_IDSS": "1"}, path).warnings)
    assert "GUILD_ID in .env" in text
    assert "did you mean GUILD_IDS?" in text
    assert "BOT_TOKEN_MISTRAL" in text
    assert "did you mean LOG_LEVEL?" in text
    assert not any(word in text for word in ("canary", "POSTGRES", "GUILD_IDSS"))


@pytest.mark.parametrize(
    ("tried", "ours"),
    [
        ("CLAUDE_API_KEY", "ANTHROPIC_API_KEY"),
        ("openai_key", "OPENAI_API_KEY"),
        ("GROK_TOKEN", "BOT_TOKEN_GROK"),
        ("DISCORD_TOKEN", "BOT_TOKEN_CHATGPT, BOT_TOKEN_CLAUDE"),
    ],
)
def test_a_name_that_people_try_is_answered_with_ours(tried: str, ours: str, tmp_path: Path) -> None:
    (line,) = load_settings({}, env_file(tmp_path, f"{tried}=canary\n")).warnings
    assert line.startswith(f"{tried} in .env: ignored, not a setting; ")
    assert ours in line
    assert "canary" not in line


def test_mistyped_names_are_told_together_with_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({}, env_file(tmp_path, "GUILD_ID=canary\nLOG_LEVEL=loud\n"))
    assert str(caught.value).splitlines()[1:] == [
        '  LOG_LEVEL: expected DEBUG, INFO, WARNING, ERROR, or CRITICAL; got "loud"',
        "Warning: GUILD_ID in .env: ignored, not a setting; did you mean GUILD_IDS?",
    ]


# --- time zones -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tz", ["Europe/Berlin", ":Europe/Berlin", "/usr/share/zoneinfo/posix/Europe/Berlin"])
def test_the_machines_zone_is_what_tz_names(tz: str, tmp_path: Path) -> None:
    assert machine_timezone({"TZ": tz}, tmp_path / "none") == ZoneInfo("Europe/Berlin")


def test_the_machines_zone_is_where_localtime_points(tmp_path: Path) -> None:
    zone = tmp_path / "zoneinfo" / "Asia" / "Tokyo"
    zone.parent.mkdir(parents=True)
    zone.touch()
    os.symlink(zone, tmp_path / "localtime")
    assert machine_timezone({"TZ": "no such zone"}, tmp_path / "localtime") == ZoneInfo("Asia/Tokyo")


def test_a_machine_that_tells_nothing_is_in_utc(tmp_path: Path) -> None:
    (tmp_path / "localtime").write_bytes(b"nothing")
    assert machine_timezone({}, tmp_path / "localtime").key == "UTC"
    assert machine_timezone({}, tmp_path / "none").key == "UTC"


def test_a_named_zone_wins_over_the_machines() -> None:
    assert load_settings({"TZ": "Asia/Tokyo", "TIMEZONE": "Europe/Berlin"}, None).timezone.key == "Europe/Berlin"
    assert load_settings({"TZ": "Asia/Tokyo"}, None).timezone.key == "Asia/Tokyo"


# --- what is handed on ----------------------------------------------------------------------------------------------


def test_settings_cannot_be_changed_but_copied_with_changes() -> None:
    settings = load(GUILD_IDS="1")
    with pytest.raises(ValidationError):
        settings.guild_ids = (2,)
    assert settings.with_(guild_ids=(2,)).guild_ids == (2,)
    assert settings.guild_ids == (1,)
    with pytest.raises(TypeError, match="guild_id"):
        settings.with_(guild_id=2)


def test_a_start_without_tokens_is_told_in_four_lines_what_to_do() -> None:
    lines = missing_tokens_message(load()).splitlines()
    assert len(lines) == 4
    assert all(spec.token_setting in lines[0] for spec in AGENTS.values())
    assert ".env.example" in lines[1]
    assert "docs/signal.md" in lines[2]
    assert "python run_all.py --local" in lines[3]


def test_a_start_without_tokens_names_the_file_that_it_looked_for(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    assert f"No bot token is set, and there is no {path}. Set" in missing_tokens_message(load(), path)
    path.touch()
    assert "No bot token is set. Set" in missing_tokens_message(load(), path)


def test_a_bot_without_a_key_is_named_in_one_line() -> None:
    line = missing_key_message(load(BOT_TOKEN_GROK="secret").agents["grok"])
    assert "Grok" in line
    assert "XAI_API_KEY" in line
    assert "\n" not in line
    assert "secret" not in line


# --- .env.example ---------------------------------------------------------------------------------------------------


def example_lines() -> list[tuple[str, str, str]]:
    """ "# " or nothing, name and value of each line of the example that is a setting."""
    return re.findall(r"^(# )?([A-Z][A-Z0-9_]*)=(.*)$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_example_file_holds_every_setting_once_and_no_other() -> None:
    assert sorted(name for _, name, _ in example_lines()) == sorted({*setting_names()} - {"AGENT_NAME"})


def test_a_copied_example_file_pins_nothing_and_what_it_shows_is_the_default() -> None:
    assert load_settings({"TIMEZONE": "UTC"}, EXAMPLE).model_fields_set == load().model_fields_set
    assert {name for mark, name, value in example_lines() if bool(mark) != bool(value)} == set()
    shown = load_settings({"TIMEZONE": "UTC", **{name: value for mark, name, value in example_lines() if mark}}, None)
    assert shown == load()


def test_the_example_file_names_every_theme() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert [theme for theme in THEMES if theme not in text] == []


def test_local_mode_does_not_stumble_over_what_only_a_live_start_needs():
    wrong = {"GUILD_IDS": "x", "CHANNEL_THEME_MAP": "1:nonsense", "REDIS_URL": "nowhere", "BOT_TOKEN_CLAUDE": "a b"}
    settings = load_settings(wrong, None, local=True)
    assert (settings.guild_ids, settings.channels, settings.redis_url) == ((), {}, None)
    with pytest.raises(SettingsError):
        load_settings({**wrong, "COORDINATOR_MAX_ROUNDS": "x"}, None, local=True)


@pytest.mark.parametrize(
    "address",
    [
        "redis+sentinel://one/bots",
        "redis+sentinel://one:26379,two.lan:26380,[::1]:26379/bots/2",
        "rediss+sentinel://me:p%40w@one:26379/bots/0?sentinel_password=s&ssl_ca_certs=/etc/ca.pem",
    ],
)
def test_an_address_of_sentinels_names_several_hosts_and_the_master(address: str) -> None:
    assert load(REDIS_URL=address).redis_url == address


def test_the_passwords_of_servers_and_sentinels_are_secrets() -> None:
    settings = load(REDIS_URL="redis+sentinel://me:canary1@one,two/bots?sentinel_password=canary%262")
    assert settings.secrets() == {"canary1", "canary%262", "canary&2"}


@pytest.mark.promise(13)
def test_every_secret_of_the_settings_is_known_as_one():
    secrets = {
        key: f"canary-{key.lower()}" for spec in AGENTS.values() for key in (spec.token_setting, spec.key_setting)
    }
    others = ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    engines = ("TAVILY_API_KEY", "BRAVE_API_KEY", "PERPLEXITY_API_KEY", "EXA_API_KEY", "ENDPOINT_LAB_KEY")
    secrets |= {key: f"canary-{key.lower()}" for key in (*others, *engines)}
    urls = {spec.base_url_setting: f"https://u:c%40nary-{name}@h/v1" for name, spec in AGENTS.items()}
    settings = load_settings({**secrets, **urls, "REDIS_URL": "redis://me:canary-redis@127.0.0.1:6379/0"}, None)
    passwords = {f"c{at}nary-{name}" for name in AGENTS for at in ("%40", "@")}
    assert settings.secrets() == {*secrets.values(), *passwords, "canary-redis"}
    assert load_settings({}, None).secrets() == frozenset()


# --- a coding agent --------------------------------------------------------------------------------------------------


def test_a_coding_agent_only_reads_and_is_refused_the_rest_unless_told_otherwise() -> None:
    read = load(AGENT_RUNTIME="claude-agent-sdk", BOT_TOKEN_GROK="a-token", redis_url="redis://:secret@127.0.0.1")
    coding = read.agents["claude"].coding
    assert coding is not None
    assert (coding.allowed_tools, coding.permission_mode) == (("Read", "Glob", "Grep"), "dontAsk")
    assert {"BOT_TOKEN_GROK", "REDIS_URL", "redis_url", "DISCORD_BOT_TOKEN", "OPENAI_API_KEY"} <= set(coding.hidden)
    assert "ANTHROPIC_API_KEY" not in coding.hidden
    assert load().agents["claude"].coding is None


def test_tools_with_a_capital_are_the_coding_agents() -> None:
    read = load(AGENT_RUNTIME="claude-agent-sdk", ALLOWED_TOOLS="Read, Bash(git log:*), web_search")
    coding = read.agents["claude"].coding
    assert coding is not None
    assert coding.allowed_tools == ("Read", "Bash(git log:*)")
    assert "web_search" in read.allowed_tools


def test_whoever_lets_it_do_anything_is_warned() -> None:
    assert not any("bypass" in line for line in load(PERMISSION_MODE="bypassPermissions").warnings)
    read = load(PERMISSION_MODE="bypassPermissions", AGENT_RUNTIME="claude-agent-sdk")
    assert any("bypassPermissions" in line for line in read.warnings)


def test_another_name_that_says_something_else_than_ours_is_told() -> None:
    """Else an owner wonders why nothing happens."""
    texts = {"QUERY_TIMEOUT_MS": "90000", "TURN_TIMEOUT_SECONDS": "120", "CONFIG_DIR": "who", "PERSONAS_DIR": "p"}
    told = load(**texts, DISCORD_BOT_TOKEN="other", BOT_TOKEN_CLAUDE="ours").warnings
    named = [line for line in told if "ignored, because" in line]
    assert named == [
        "DISCORD_BOT_TOKEN: ignored, because BOT_TOKEN_CLAUDE is set",
        "CONFIG_DIR: ignored, because PERSONAS_DIR is set",
        "QUERY_TIMEOUT_MS: ignored, because TURN_TIMEOUT_SECONDS is set",
    ]
    same = {"QUERY_TIMEOUT_MS": "120000", "TURN_TIMEOUT_SECONDS": "120", "CONFIG_DIR": "p", "PERSONAS_DIR": "p"}
    for fine in (same, {"CONFIG_DIR": "who"}, {"GOOGLE_API_KEY": "of something else", "GEMINI_API_KEY": "ours"}):
        assert not [line for line in load(**fine).warnings if "ignored, because" in line]


def test_other_names_of_settings_are_taken_where_ours_are_not_set() -> None:
    read = load(QUERY_TIMEOUT_MS="90000", MAX_CONCURRENT_QUERIES="2", CONFIG_DIR="who", DISCORD_BOT_TOKEN="t")
    assert (read.turn_timeout_seconds, read.max_concurrent_turns, read.personas_dir) == (90, 2, Path("who"))
    assert read.agents["claude"].token is not None
    ours = load(QUERY_TIMEOUT_MS="90000", TURN_TIMEOUT_SECONDS="30", DISCORD_BOT_TOKEN="a", BOT_TOKEN_CLAUDE="b")
    assert ours.turn_timeout_seconds == 30
    assert ours.agents["claude"].token == SecretStr("b")
    assert problems_of({"QUERY_TIMEOUT_MS": "soon"}) == [
        'QUERY_TIMEOUT_MS: expected a number of milliseconds from 1000 to 600000, such as 120000; got "soon"'
    ]


def test_another_or_an_old_name_that_is_used_is_named_at_the_start() -> None:
    others = {"QUERY_TIMEOUT_MS": "90000", "config_dir": "who", "GOOGLE_API_KEY": "k"}
    old = {"STOP_USER_IDS": "7", "AGENT_CHANNEL_IDS": "1"}
    said = load(**others, **old).warnings
    assert [line.partition(":")[0] for line in said] == [
        "CONFIG_DIR",
        "QUERY_TIMEOUT_MS",
        "AGENT_CHANNEL_IDS",
        "STOP_USER_IDS",
    ]
    assert said[:2] == (
        "CONFIG_DIR: read as PERSONAS_DIR",
        "QUERY_TIMEOUT_MS: read as TURN_TIMEOUT_SECONDS, in milliseconds",
    )
    assert "MODERATOR_IDS" in said[3]
    local = load_settings({**others, **old, "DISCORD_BOT_TOKEN": "t"}, None, local=True).warnings
    assert local == said[:2], "local mode reads none of the others"


# --- the personas' folder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["PERSONAS_DIR", "CONFIG_DIR"])
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ((), ""),
        (("grok/soul.md", "README.md"), ""),
        (("mine/identity.md",), ""),
        (("claude/workspace/notes.txt", ".gitkeep"), ""),
        (("settings.json",), "contains other files"),
        (("claude/main.py", "README.md"), "contains other files"),
        (("soul.md", "agents.md"), "a subfolder for each bot: move"),
    ],
)
def test_no_persona_is_made_in_a_folder_that_holds_something_else(
    key: str, files: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    environ = {key: str(tmp_path), "TIMEZONE": "UTC"}
    if not said:
        assert load_settings(environ, None, fronts=read_fronts).personas_dir == tmp_path
        return
    with pytest.raises(SettingsError) as caught:
        load_settings(environ, None, fronts=read_fronts)
    (problem,) = caught.value.problems
    assert problem.startswith(f"{key}: expected a folder")
    assert said in problem
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == sorted(files)


def test_a_file_in_place_of_the_personas_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"PERSONAS_DIR: expected a folder, .*file is a file"):
        load_settings({"PERSONAS_DIR": str(tmp_path / "file")}, None, fronts=read_fronts)


def test_the_names_of_a_companion_for_one_person_are_read() -> None:
    read = load(
        SIGNAL_NUMBER="+49 151 12345678", OLLAMA_API_URL="http://10.0.0.5:11434", CLAUDE_MODEL="ollama/llama3.3"
    )
    assert SignalSettings.of(read).signal_numbers == {"penny": "+4915112345678"}
    assert read.agents["claude"].models[0].base_url == "http://10.0.0.5:11434/v1"
    assert "SIGNAL_NUMBER: read as SIGNAL_NUMBERS, for AGENT_NAME or penny" in read.warnings
    assert "OLLAMA_API_URL: read as OLLAMA_BASE_URL" in read.warnings
    named = load(SIGNAL_NUMBER="+4915112345678", AGENT_NAME="claude")
    assert SignalSettings.of(named).signal_numbers == {"claude": "+4915112345678"}
    same = load(SIGNAL_NUMBER="+4915112345678", SIGNAL_NUMBERS="penny:+4915112345678")
    assert not [line for line in same.warnings if "SIGNAL_NUMBER" in line]
    other = load(SIGNAL_NUMBER="+4915100000000", SIGNAL_NUMBERS="penny:+4915112345678", OLLAMA_BASE_URL="http://a/v1/")
    assert SignalSettings.of(other).signal_numbers == {"penny": "+4915112345678"}
    assert "SIGNAL_NUMBER: ignored, because SIGNAL_NUMBERS is set" in other.warnings


def test_a_bot_takes_the_folder_of_another_persona(tmp_path: Path) -> None:
    for name in ("penny", "poet"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "soul.md").write_text("You rhyme.")
    folder = {"PERSONAS_DIR": str(tmp_path)}
    read = load(PERSONA_FOLDERS="claude:penny", **folder)
    assert (read.persona_folder("claude"), read.persona_folder("grok")) == (tmp_path / "penny", tmp_path / "grok")
    for pairs, problem in (
        ("claude:nobody", f"{tmp_path / 'nobody'} isn't a persona: expected a folder with identity.md or soul.md"),
        ("penny:poet", "penny isn't a bot: expected one of chatgpt, claude, gemini, grok"),
        ("claude:grok", "the folder grok belongs to the bot grok"),
        ("claude:penny, grok:penny", "an agent or a folder appears twice"),
        (
            "claude:../penny",
            'expected agent:folder pairs such as claude:penny, separated by commas; got "claude:../penny"',
        ),
    ):
        assert problems_of({"PERSONA_FOLDERS": pairs, **folder}) == [f"PERSONA_FOLDERS: {problem}"]
    (line,) = problems_of({"PERSONA_FOLDERS": "claude:penny", "SIGNAL_NUMBERS": "penny:+4915112345678", **folder})
    assert line == "SIGNAL_NUMBERS: penny is claude's persona (PERSONA_FOLDERS), so write claude here"
