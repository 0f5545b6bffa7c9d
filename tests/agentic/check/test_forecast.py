from zoneinfo import ZoneInfo

import pytest

from agent_config import load_settings
from agentic.agent.limits import ModelPrices
from agentic.check.costs import automation_turns_a_day, check_costs, expected_rounds, forecast, mention_cost, turn_cost
from agentic.findings import Findings, Level
from agentic.themes import theme_named

LUNA = ModelPrices("openai", "gpt-6-luna", "gpt-image-2.6-flare")
HAIKU = ModelPrices("anthropic", "claude-haiku-5-5", None)
CASUAL, DEBATE, MEMES = (theme_named(name) for name in ("casual", "debate", "memes"))
NOW = 1_800_000_000.0
ALIVE = {"BOT_TOKEN_CHATGPT": "t", "OPENAI_API_KEY": "k", "CHANNEL_THEME_MAP": "1:casual"}


def found(**environ):
    findings = Findings()
    check_costs(load_settings({**ALIVE, **environ}, None), findings, NOW)
    (finding,) = findings
    return finding


def test_a_conversation_has_about_four_rounds_and_never_more_than_the_limit():
    assert 3.5 < expected_rounds(30) < 5
    assert expected_rounds(1) == 1
    assert expected_rounds(2) == pytest.approx(1.85)


def test_searches_and_pictures_make_a_turn_dearer_where_they_belong():
    assert turn_cost(LUNA, CASUAL) == pytest.approx(0.00055)
    assert turn_cost(LUNA, DEBATE) == pytest.approx(0.00055 + 0.005)
    assert turn_cost(LUNA, MEMES) == pytest.approx(0.00055 + 0.06)
    assert turn_cost(HAIKU, MEMES) == turn_cost(HAIKU, CASUAL)


def test_a_day_costs_its_conversations_over_all_channels():
    both = forecast([LUNA, HAIKU], [CASUAL, MEMES], 4, 1)
    assert both == pytest.approx(4 * (2 * 0.00055 + 0.06 / 2), rel=0.01)
    assert forecast([LUNA], [CASUAL], 0, 30) == 0
    assert forecast([LUNA], [], 4, 30) == 0


def test_the_check_tells_the_forecast_beside_the_budget():
    assert found().level is Level.OK
    assert found().text == "about $0.01 a day for 4.5 conversations, and $0.00055 for each mention; the budget is $5.00"
    assert found(BUDGET_CHANNEL_DAILY_USD="1").text.endswith("the budget is $5.00")


def test_a_search_before_each_answer_is_in_the_price_of_a_mention(tmp_path):
    """The maker of gpt-6-luna searches in the same call; a model without a search of its own is called twice."""
    (tmp_path / "chatgpt").mkdir()
    (tmp_path / "chatgpt" / "identity.md").write_text("---\nalways_search: true\n---\n")
    ours = {"PERSONAS_DIR": str(tmp_path)}
    assert "$0.0106 for each mention, including its search;" in found(**ours).text
    assert "$0.00055 for each mention;" in found(**ours, ALLOWED_TOOLS="memory").text
    other = ModelPrices("mistral", "mistral-small", None)
    assert mention_cost(other, 0)
    assert mention_cost(other, 0, searches=True) == pytest.approx(2 * mention_cost(other, 0))


def test_an_agent_on_signal_alone_has_mentions_and_no_conversations(tmp_path):
    (tmp_path / "penny").mkdir()
    (tmp_path / "penny" / "identity.md").write_text("---\nprovider: openai\nalways_search: true\n---\n")
    ours = {"PERSONAS_DIR": str(tmp_path), "SIGNAL_NUMBERS": "penny:+4915100000001", "SIGNAL_ALLOWED": "+4915111111111"}
    text = found(**ours, BOT_TOKEN_CHATGPT="", CHANNEL_THEME_MAP="").text
    assert text.startswith("about $0.00 a day for 0 conversations, and $0.0106 for each mention, including its search")
    assert found(**ours).text.startswith("about $0.01 a day for 4.5 conversations, and $0.00055 to $0.0106 for each")


@pytest.mark.promise(43)
def test_a_day_without_a_limit_is_a_warning():
    told = found(BUDGET_DAILY_USD="none")
    assert (told.level, told.text.endswith("no limit on what mentions can cost")) == (Level.WARNING, True)


def test_a_budget_of_nothing_is_a_warning_also_where_nothing_is_scheduled():
    assert found(BUDGET_DAILY_USD="0", COORDINATOR_SCHEDULE_MAX="0").level is Level.WARNING


def test_a_schedule_beyond_the_budget_is_a_warning():
    assert found(BUDGET_DAILY_USD="0.001").level is Level.WARNING


def test_a_model_on_an_own_machine_costs_nothing():
    assert found(OPENAI_BASE_URL="http://127.0.0.1:1/v1").text.startswith("about $0.00")


def with_files(tmp_path, heartbeat="", agents=""):
    (tmp_path / "chatgpt").mkdir()
    (tmp_path / "chatgpt" / "heartbeat.md").write_text(heartbeat)
    (tmp_path / "chatgpt" / "agents.md").write_text(agents)
    return {"PERSONAS_DIR": str(tmp_path), "COORDINATOR_SCHEDULE_MAX": "0", "TIMEZONE": "UTC"}


def errands(tmp_path, instructions=0.0):
    return automation_turns_a_day(tmp_path / "chatgpt", instructions, NOW, ZoneInfo("UTC"))


def test_errands_are_counted_by_the_day(tmp_path):
    with_files(
        tmp_path,
        "## A\n- interval: 1h\n- active hours: 08:00-20:00\n\nLook.\n## B\n- interval: 30m\n\nLook.\n",
        "## Cron Jobs\n### C\n- cron: 0 9 * * 1\n\nPlan.\n"
        "## Hooks\n### startup\nHello.\n### agent_stop\n- when: cron, instruction\n\nNote.\n",
    )
    count, wrong = errands(tmp_path, 5)
    assert wrong == ()
    assert count == pytest.approx(12 + 48 + 1 / 7 + 1 + 1 / 7 + 5)


@pytest.mark.parametrize(
    ("hooks", "price"),
    [
        ("### startup\nHello.\n", "$0.00055 for each mention;"),
        ("### agent_stop\nNote.\n", "$0.0011 for each mention, including its hooks;"),
        ("### agent_begin\nLook.\n### agent_stop\nNote.\n", "$0.00165 for each mention, including its hooks;"),
        ("### agent_begin\n- when: cron\n\nLook.\n", "$0.00055 for each mention;"),
    ],
)
def test_the_price_of_a_mention_counts_the_hooks_around_it(tmp_path, hooks, price):
    assert price in found(**with_files(tmp_path, agents=f"## Hooks\n{hooks}")).text


def test_the_price_of_a_mention_is_told_for_the_cheapest_and_the_dearest_bot():
    both = {"BOT_TOKEN_CLAUDE": "u", "ANTHROPIC_API_KEY": "k", "BOT_TOKEN_GROK": "v", "XAI_API_KEY": "k"}
    assert "and $0.00055 to $0.0098 for each mention" in found(**both).text


def test_a_job_of_every_ten_minutes_is_counted(tmp_path):
    with_files(tmp_path, agents="## Cron Jobs\n### D\n- cron: */10 * * * *\n\nPlan.\n")
    assert errands(tmp_path) == (144, ())


def test_turns_in_conversations_are_named_if_they_leave_too_few_for_the_errands(tmp_path):
    settings = with_files(tmp_path, "## A\n- interval: 20m\n\nLook.\n")
    findings = Findings()
    check_costs(load_settings({**ALIVE, **settings, "COORDINATOR_SCHEDULE_MAX": "6"}, None), findings, NOW)
    (told,) = (finding.text for finding in findings if finding.subject == "automation")
    assert "about 72 automation tasks and 20 turns in conversations a day" in told


def test_the_forecast_names_errands_and_what_is_wrong_with_their_files(tmp_path):
    settings = with_files(tmp_path, "## A\n- interval: 5m\n\nLook.\n## B\n- interval: 5s\n\nLook.\n")
    findings = Findings()
    check_costs(load_settings({**ALIVE, **settings}, None), findings, NOW)
    told = {finding.subject: finding for finding in findings}
    assert "heartbeat.md:6" in told["chatgpt's files"].text
    assert told["automation"].level is Level.WARNING
    assert "288 automation tasks a day, but without a person's request it takes only 75" in told["automation"].text
    assert "for 0 conversations and 288 automation tasks" in told["costs"].text
