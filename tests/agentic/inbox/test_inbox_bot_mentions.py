"""When agents that call each other stop."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.context.entries import Addressees, Entry, Speaker
from agentic.inbox.triggers import calls, count_links, find_earlier_posts, has_called_before, last_person

CLAUDE, GROK, GEMINI, ALICE = 21, 22, 23, 11
NAMES = {CLAUDE: "claude", GROK: "grok", GEMINI: "gemini"}


def said(number, who, *mentions, reply_to=None, webhook=False, **more):
    agent = NAMES.get(who)
    kind = "agent" if agent else "person" if who == ALICE else "stranger"
    speaker = Speaker(who, str(who), kind, agent, webhook=webhook)
    return Entry(number, speaker, "…", float(number), addressees=Addressees(frozenset(mentions), reply_to), **more)


def depth(entries, instructed=()):
    return count_links(entries[-1], find_earlier_posts(entries[-1], entries, instructed))


@pytest.mark.parametrize(
    ("entry", "called"),
    [
        (said(1, CLAUDE, GROK), True),
        (said(1, CLAUDE, reply_to=GROK), True),
        (said(1, CLAUDE, GEMINI), False),
        (said(1, ALICE, GROK), False),  # a person's is another matter (triggers.py)
        (said(1, 99, GROK), False),  # a foreign bot
        (said(1, GROK, GROK), False),
        (said(1, CLAUDE, GROK, webhook=True), False),
        (said(1, CLAUDE, GROK, hidden=True), False),
    ],
)
def test_only_what_one_of_our_agents_says_openly_calls(entry, called):
    assert calls(entry, GROK) is called


def test_links_are_counted_back_to_the_last_person():
    chain = [said(1, ALICE, CLAUDE), said(2, CLAUDE, GROK), said(3, GROK, reply_to=CLAUDE), said(4, CLAUDE, GROK)]
    assert [depth(chain[:end]) for end in (2, 3, 4)] == [0, 1, 2]
    again = [*chain, said(5, ALICE, GROK), said(6, GROK, CLAUDE)]
    assert depth(again) == 0
    assert last_person(again[-1], again) == again[4]


def test_several_messages_in_a_row_by_one_agent_are_one():
    chain = [said(1, ALICE), said(2, CLAUDE, GROK), said(3, CLAUDE, GROK), said(4, GROK, CLAUDE), said(5, GROK, CLAUDE)]
    assert depth(chain) == 1
    assert has_called_before(chain[2], find_earlier_posts(chain[2], chain, ()), GROK)
    assert has_called_before(chain[4], find_earlier_posts(chain[4], chain, ()), CLAUDE)
    assert not has_called_before(chain[3], find_earlier_posts(chain[3], chain, ()), CLAUDE)
    assert not has_called_before(chain[2], find_earlier_posts(chain[2], chain, ()), GEMINI)


def test_turns_by_instruction_neither_count_nor_part():
    chain = [said(1, ALICE), said(2, CLAUDE, GROK), said(3, GEMINI, GROK), said(4, GROK, CLAUDE)]
    assert depth(chain, instructed={3}) == 1
    chain += [said(5, GEMINI, CLAUDE), said(6, CLAUDE, GROK)]
    assert depth(chain, instructed={3, 5}) == 2


def test_foreign_bots_and_hidden_words_are_no_links_and_end_nothing():
    chain = [said(1, ALICE), said(2, CLAUDE, GROK), said(3, 99, GROK), said(4, CLAUDE, GROK, hidden=True)]
    assert depth([*chain, said(5, GROK, CLAUDE)]) == 1


@pytest.mark.promise(53)
@given(
    limit=st.integers(0, 4),
    talk=st.lists(
        st.tuples(st.sampled_from([ALICE, 99, CLAUDE, GROK, GEMINI]), st.sets(st.sampled_from(sorted(NAMES)))),
        max_size=25,
    ),
    order=st.randoms(use_true_random=False),
)
def test_whoever_speaks_and_whatever_they_say_the_bots_fall_silent(limit, talk, order):
    """Bots that always call all others, whichever waits longest or shortest, on whatever was said before."""
    entries: list[Entry] = []
    instructed = {number for number, (who, _) in enumerate(talk, 1) if who in NAMES}
    for number, (who, mentions) in enumerate(talk, 1):
        entries.append(said(number, who, *mentions))
    waiting = list(NAMES)  # a person has called all of them
    entries.append(said(len(talk) + 1, ALICE, *NAMES))
    answered = 0
    while waiting:
        who = waiting.pop(order.randrange(len(waiting)))
        post = said(len(entries) + 1, who, *NAMES)
        entries.append(post)
        answered += 1
        assert answered <= 3 * 3**limit, "more than three who each set off two others, limit times"
        for other in NAMES:
            before = find_earlier_posts(post, entries, instructed)
            if calls(post, other) and not has_called_before(post, before, other) and count_links(post, before) < limit:
                waiting.append(other)


@pytest.mark.promise(53)
@given(st.integers(0, 5))
def test_two_bots_that_always_answer_each_other_have_as_many_turns_as_the_chain_allows(limit):
    entries = [said(1, ALICE, CLAUDE)]
    who, other, turns = CLAUDE, GROK, 0
    while True:
        post = replace(said(len(entries) + 1, who, other), text="?")
        entries.append(post)
        if count_links(post, find_earlier_posts(post, entries, ())) >= limit:
            break
        who, other, turns = other, who, turns + 1
    assert turns == limit
