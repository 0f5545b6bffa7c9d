"""Stop sequences on our side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentic.llm.profiles import Profile
from agentic.llm.turns import cut_at_stop, listen_until_stop, sampling_of, settled_text
from agentic.llm.types import Prompt

TEXTS = st.text("ab:\n", max_size=30)
STOPS = st.lists(st.text("ab:\n", max_size=4), max_size=4)


def test_the_first_that_begins_ends_the_text() -> None:
    assert cut_at_stop("Hi.\n\nBo: hello\n\nAnn: bye", ("Ann:", "Bo:")) == "Hi.\n\n"
    assert cut_at_stop("Hi.", ("Ann:", "")) == "Hi."
    assert cut_at_stop("Ann: me", ("Ann:",)) == ""


def test_a_request_gets_as_many_as_it_takes_each_once_and_none_of_whitespace() -> None:
    prompt = Prompt(text="", stop=("Ann:", "\n\n", "Bo:", "Ann:", "Cy:"))
    assert sampling_of(prompt, Profile(max_stops=2)) == {"stop": ["Ann:", "Bo:"]}
    assert sampling_of(prompt, Profile(max_stops=0)) == {}


def test_what_may_still_become_a_stop_sequence_is_held_back() -> None:
    assert settled_text("Hi An", ("Ann:",)) == "Hi "
    assert settled_text("Hi Ant", ("Ann:",)) == "Hi Ant"
    assert settled_text("Hi AAn", ("Ann:", "AnnA")) == "Hi A"


def test_without_a_listener_or_a_stop_nothing_is_wrapped() -> None:
    heard: list[str] = []
    assert listen_until_stop(None, ("x",)) is None
    hear = heard.append
    assert listen_until_stop(hear, ()) is hear


@given(TEXTS, STOPS)
def test_no_stop_sequence_is_left_and_a_beginning_is(text: str, stops: list[str]) -> None:
    left = cut_at_stop(text, stops)
    assert text.startswith(left)
    assert not any(stop in left for stop in stops if stop)


@given(TEXTS, STOPS)
def test_what_is_heard_of_a_growing_text_is_never_taken_back(text: str, stops: list[str]) -> None:
    heard: list[str] = []
    hear = listen_until_stop(heard.append, stops)
    assert hear is not None
    for length in range(len(text) + 1):
        hear(text[:length])
    final = cut_at_stop(text, stops)
    assert all(final.startswith(told) for told in heard)
