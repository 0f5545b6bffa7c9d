import pytest

from agentic.context.entries import Reaction, hidden_by_text, is_visible, visible
from tests.support.said import ALICE, CLAUDE, ids, said


@pytest.mark.parametrize(
    "raw",
    [".", ".history", ". aside", "<@1> .aside", "<@!1><@&2>  .x", "  .x", "<@1>, .x", ".claude>[web_search]: tea",
     "🙃 psst", "🫥", "<@1> 🙃", "m continue", "m what", "M context", "M Continue", "<@1> m continue"],
)  # fmt: skip
def test_a_text_can_hide_itself(raw):
    assert hidden_by_text(raw)


@pytest.mark.parametrize(
    "raw", ["", "hi", "..", "... well", "<@1> ... well", "a.b", "so 🙃", "<@1>", "me too", "M what", "m", "…", "hm m x"]
)
def test_other_texts_do_not(raw):
    assert not hidden_by_text(raw)


@pytest.mark.parametrize("mark", ["🙃", "🫥"])
def test_a_mark_hides_a_message_and_the_bots_own_too(mark):
    assert not is_visible(said(1, CLAUDE, reactions=(Reaction(mark),)))
    assert is_visible(said(1, CLAUDE, reactions=(Reaction("🔥"),)))


@pytest.mark.promise(23)
@pytest.mark.parametrize("mark", ["🙃", "🫥", "👁️‍🗨️"])
def test_what_bots_react_with_neither_hides_nor_shows(mark):
    assert is_visible(said(1, ALICE, reactions=(Reaction(mark, by_person=False),)))
    assert not is_visible(said(1, ALICE, ".aside", hidden=True, reactions=(Reaction(mark, by_person=False),)))


@pytest.mark.parametrize("mark", ["👁️‍🗨️", "👁\u200d🗨"])
def test_the_show_mark_shows_again_but_no_m_command(mark):
    shown = (Reaction("🙃"), Reaction(mark))
    assert is_visible(said(1, ALICE, ".aside", hidden=True, reactions=shown))
    assert is_visible(said(1, reactions=shown))
    assert not is_visible(said(1, ALICE, "@Claude m continue", hidden=True, reactions=shown))


def test_what_is_hidden_is_left_out():
    entries = [said(1), said(2, hidden=True), said(3, reactions=(Reaction("🙃"),)), said(4, reactions=(Reaction("x"),))]
    assert ids(visible(entries)) == [1, 4]


def test_an_edit_hides_at_once():
    assert ids(visible([said(1, text=".aside now"), said(2, text="...")])) == [2]
