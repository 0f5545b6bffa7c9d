import pytest

from agentic.text import calls_in, named, names_in

SHOWN = {"chatgpt": "ChatGPT", "claude": "Claude", "ada": "Ada Lovelace", "hana": "花子", "c3": "C++"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("claude, what do you think?", ("claude",)),
        ("CLAUDE and ＣｈａｔＧＰＴ!", ("claude", "chatgpt")),
        ("Claude's idea, not Claudette's", ("claude",)),
        ("Claudette is somebody else", ()),
        ("ask Ada Lovelace", ("ada",)),
        ("花子さん、どう思う？", ("hana",)),
        ("I like C++, really", ("c3",)),
        ("vitamin C", ()),
        ("ada-lovelace! Chat GPT?", ("ada", "chatgpt")),
        ("ádá  lovelace", ("ada",)),
        ("", ()),
    ],
)
def test_names_are_found_as_whole_words_in_any_case_and_script(text, found):
    assert names_in(text, SHOWN) == found


SCEPTICS = {
    "sceptic": "Sceptic",
    "the-sceptic": "The Sceptic",
    "owl": "🦉",
    "emile": "Émile Zola",
    "doc": "The Doctor",
    "jm": "Jürgen Müller",
}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("The Sceptic", ("the-sceptic",)),
        ("the  sceptic", ("the-sceptic",)),
        ("“THE SCEPTIC”", ("the-sceptic",)),
        ("Sceptic", ("sceptic",)),
        ("@sceptic.", ("sceptic",)),
        ("a sceptic", ("sceptic", "the-sceptic")),
        ("doctor", ("doc",)),
        ("🦉\ufe0f", ("owl",)),
        ("emile-zola", ("emile",)),
        ("**Émile Zola**", ("emile",)),
        ("ÉMILE", ("emile",)),
        ("Jurgen Muller", ("jm",)),
        ("juergen mueller", ("jm",)),
        ("nobody", ()),
        ("", ()),
    ],
)
def test_a_name_matches_as_it_was_given_before_it_matches_loosely(given, found):
    assert named(SCEPTICS, given) == found


def test_the_longer_name_in_a_text_is_the_one_that_is_meant():
    assert calls_in("The Sceptic, then Sceptic, then the doctor", SCEPTICS) == [
        ("the-sceptic",),
        ("sceptic",),
        ("doc",),
    ]
    assert calls_in("I saw a doctor", SCEPTICS) == []


def test_a_text_that_fits_two_names_says_both():
    assert calls_in("sceptic?", {"a": "The Sceptic", "b": "A Sceptic"}) == [("a", "b")]


def test_a_name_with_umlauts_is_found_in_a_text_that_has_none():
    assert names_in("And Juergen Mueller?", SCEPTICS) == ("jm",)
