from __future__ import annotations

import pytest

from agentic.themes import DEFAULT_THEME, THEMES, Theme, theme_named

EXPECTED = {
    "casual", "debate", "memes", "roast", "story", "trivia", "news", "science", "finance", "prediction",
    "hypothetical", "spiritual", "would-you-rather", "vent",
}  # fmt: skip


def test_all_fourteen_themes_are_there_under_their_own_names() -> None:
    assert set(THEMES) == EXPECTED
    assert all(name == theme.name for name, theme in THEMES.items())


@pytest.mark.parametrize("theme", THEMES.values(), ids=lambda theme: theme.name)
def test_a_theme_has_rules_a_window_share_and_a_dozen_distinct_openings(theme: Theme) -> None:
    assert len(theme.rules) > 300
    assert "  " not in theme.rules
    assert 0 < theme.window_share <= 1
    assert len(theme.topic_hints) >= 12
    assert len(set(theme.topic_hints)) == len(theme.topic_hints)


def test_memes_and_roast_need_little_of_the_window_and_debate_and_story_all_of_it() -> None:
    assert max(THEMES["memes"].window_share, THEMES["roast"].window_share) <= 0.3
    assert THEMES["debate"].window_share == THEMES["story"].window_share == 1.0


def test_only_memes_always_draw() -> None:
    assert [theme.name for theme in THEMES.values() if theme.always_draw] == ["memes"]


def test_themes_about_the_present_world_search() -> None:
    assert all(THEMES[name].search for name in ("news", "science", "finance", "prediction"))
    assert not THEMES["roast"].search


@pytest.mark.parametrize(
    ("asked", "found"), [("debate", "debate"), (" Debate ", "debate"), ("", DEFAULT_THEME), ("nonsense", DEFAULT_THEME)]
)
def test_a_theme_is_found_by_its_name_and_an_unknown_one_is_casual(asked: str, found: str) -> None:
    assert theme_named(asked).name == found
