"""The .env of the public agentic-discord, with all of its settings, works here as it is (docs/maintain.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_config import Settings, load_settings
from agentic.process.root import ROOT

THEIRS = """\
# Discord bot tokens, one per bot
BOT_TOKEN_CHATGPT=token.of.chatgpt
BOT_TOKEN_CLAUDE="token.of.claude"
BOT_TOKEN_GEMINI='token.of.gemini'
BOT_TOKEN_GROK=

OPENAI_API_KEY=sk-openai
ANTHROPIC_API_KEY=sk-ant
GEMINI_API_KEY = AIza-gemini
XAI_API_KEY=

AGENT_PERSONALITY="You never say sorry. # not a comment"

GUILD_IDS=123456789012345678
BOT_IDS=111111111111111111, 222222222222222222,333333333333333333   # user ids of the bots
BOTS_ROLE_ID=0

AGENT_MAX_DAILY=50           # calls per bot and day
AGENT_COOLDOWN_SECONDS=15    # seconds between responses
SHOW_COST_EMBEDS=True

REDIS_URL=redis://127.0.0.1:6379
# ─── Coordinator ─────────────────────────────
CHANNEL_THEME_MAP=111:casual, 222:debate,333: memes ,444:would-you-rather,
COORDINATOR_SCHEDULE_MIN=10
COORDINATOR_SCHEDULE_MAX=15
COORDINATOR_ACTIVE_START=7   # hour (24h)
COORDINATOR_ACTIVE_END=23
COORDINATOR_MAX_ROUNDS=40
COORDINATOR_REACTIVE_PROBABILITY=0.15
COORDINATOR_FIRE_ON_STARTUP=yes
COORDINATOR_PRIORITY_CHANNELS=222
COORDINATOR_TURN_DELAY_MIN=15.0
export COORDINATOR_TURN_DELAY_MAX=45.0
COORDINATOR_TIMEOUT_THRESHOLD=8
CONTEXT_WINDOW_SIZE=15       # messages
"""


def moved(folder: Path, text: str) -> Settings:
    (folder / ".env").write_text(text, encoding="utf-8")
    return load_settings({"TZ": "Europe/Berlin"}, folder / ".env")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_their_env_means_here_what_it_meant_there(ends: str, tmp_path: Path) -> None:
    read = moved(tmp_path, THEIRS.replace("\n", ends))
    assert read.warnings == ()
    with_token = [name for name, agent in read.agents.items() if agent.token and agent.usable]
    assert with_token == ["chatgpt", "claude", "gemini"]
    assert read.personality_of("claude") == "You never say sorry. # not a comment"
    assert (read.guild_ids, len(read.bot_ids), read.bots_role_id) == ((123456789012345678,), 3, None)
    assert (read.agent_max_daily, read.agent_cooldown_seconds, read.context_window_size) == (50, 15, 15)
    assert (read.show_cost_embeds, read.redis_url) == (True, "redis://127.0.0.1:6379")
    assert read.channels == {111: "casual", 222: "debate", 333: "memes", 444: "would-you-rather"}
    assert (read.schedule_min, read.schedule_max, read.active_start, read.active_end) == (10, 15, 7, 23)
    assert (read.max_rounds, read.reactive_probability, read.fire_on_startup) == (40, 0.15, True)
    assert (read.priority_channels, read.turn_delay_min, read.turn_delay_max) == ((222,), 15, 45)
    assert (read.timeout_threshold, read.timezone.key) == (8, "Europe/Berlin")


def test_their_shortest_env_and_an_early_one_work_too(tmp_path: Path) -> None:
    kept = ("BOT_TOKEN_CHATGPT", "OPENAI", "GUILD_IDS", "AGENT_MAX", "AGENT_COOLDOWN", "CONTEXT", "CHANNEL_THEME_MAP")
    short = "".join(line for line in THEIRS.splitlines(keepends=True) if line.startswith(kept)) + "REDIS_URL=\n"
    read = moved(tmp_path, short)
    assert (read.redis_url, read.warnings, len(read.channels)) == (None, (), 4)
    early = moved(tmp_path, f"{short}AGENT_CHANNEL_IDS=111,555\nCOORDINATOR_SCHEDULE_MIN=10\n")
    assert early.channels == {111: "casual", 555: "casual"}
    assert (early.schedule_min, early.schedule_max) == (10, 10)
    assert [line.partition(":")[0] for line in early.warnings] == ["AGENT_CHANNEL_IDS", "CHANNEL_THEME_MAP"]


def test_pauses_the_wrong_way_round_work_as_they_did_there(tmp_path: Path) -> None:
    read = moved(tmp_path, THEIRS.replace("DELAY_MIN=15.0", "DELAY_MIN=60"))
    assert (read.turn_delay_min, read.turn_delay_max) == (45, 60)
    assert read.warnings == ("COORDINATOR_TURN_DELAY_MIN is above COORDINATOR_TURN_DELAY_MAX, so the two were swapped",)


def test_lines_that_the_docs_suggest_can_be_added(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "maintain.md").read_text(encoding="utf-8")
    (added,) = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)
    read = moved(
        tmp_path, THEIRS.replace("SHOW_COST_EMBEDS=True\n", "") + re.sub(r"^ +", "", added, flags=re.MULTILINE)
    )
    assert (read.timezone.key, read.show_cost_embeds, read.budget_daily_usd) == ("America/New_York", True, 5)
    assert read.warnings == ()
