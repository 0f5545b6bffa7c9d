from dataclasses import replace

import pytest

from agentic.context.history import LEVELS, ChannelSource, Interval, needed, resolve_history
from agentic.context.options import Options
from agentic.context.prompt import prepare_channel
from tests.support.said import ALICE, BOB, ids, said

HERE, THERE = 8, 20
RULES = {"roles": (), "names": ("claude",), "messages": 50}


def link(message, channel=THERE):
    return f"https://discord.com/channels/7/{channel}/{message}"


MANAGER = replace(ALICE, may_manage=True)


def history(entry_id, first=None, last=None, targets="", channel=THERE, **more):
    body = "".join(f"{key}: {link(at, channel)}\n" for key, at in (("first", first), ("last", last)) if at)
    return said(entry_id, MANAGER, f".history {targets}\n---\n{body}", hidden=True, **more)


def old(*numbers):
    return [said(number) for number in numbers]


def resolved(entries, known=None, **more):
    def lookup(interval):
        found = (known or {}).get(interval.channel_id)
        return None if found is None else [entry for entry in found if entry.id <= interval.last]

    found = resolve_history(ChannelSource(channel_id=HERE, entries=entries, lookup=lookup, **more), **RULES)
    return ids(found.prefix), ids(found.entries)


def test_a_history_is_replaced_by_its_interval_and_what_follows_rolls():
    entries = [said(101), history(102, first=3, last=5), said(103)]
    assert resolved(entries, {THERE: old(1, 2, 3, 4, 5, 6)}) == ([101, 3, 4, 5], [103])


def test_several_histories_stand_one_after_the_other():
    entries = [said(101), history(102, last=2), said(103), history(104, first=4, last=5), said(105)]
    assert resolved(entries, {THERE: old(1, 2, 3, 4, 5)}) == ([101, 1, 2, 103, 4, 5], [105])


def test_without_a_first_message_or_with_one_out_of_reach_it_goes_back_as_far_as_it_may():
    known = {THERE: old(*range(1, 90))}
    assert resolved([history(102, last=80), said(103)], known)[0] == list(range(31, 81))
    assert resolved([history(102, first=5, last=80)], known)[0] == list(range(31, 81))


def test_a_beginning_in_another_channel_than_the_end_counts_for_nothing():
    text = f".history\n---\nfirst: {link(3, channel=HERE)}\nlast: {link(5)}"
    command = said(102, MANAGER, text, hidden=True)
    assert resolved([command], {THERE: old(1, 2, 3, 4, 5)})[0] == [1, 2, 3, 4, 5]


def test_a_bare_one_clears_what_came_before_and_a_malformed_one_does_nothing():
    assert resolved([said(1), history(2), said(3)]) == ([], [3])
    assert resolved([said(1), history(2, first=9), said(3)]) == ([], [1, 2, 3])
    cleared = [history(1, last=5), history(2), said(3)]
    assert resolved(cleared, {THERE: old(4, 5)}) == ([], [3])


def test_only_people_who_may_command_are_heard_and_only_by_those_whom_they_name():
    stranger = said(2, BOB, f".history\n---\nlast: {link(5)}", hidden=True)
    assert resolved([said(1), stranger, said(3)], {THERE: old(5)}) == ([], [1, 2, 3])
    other = history(2, last=5, targets="grok")
    assert resolved([said(1), other, said(3)], {THERE: old(5)}) == ([], [1, 2, 3])
    mine = history(2, last=5, targets="grok CLAUDE")
    assert resolved([said(1), mine, said(3)], {THERE: old(5)}) == ([1, 5], [3])


def nested(levels):
    """Channels 20, 21, ...: in each one message, and a history that leads to the next."""
    return {
        THERE + level: [said(10 * level + 1), history(10 * level + 2, last=10 * level + 12, channel=THERE + level + 1)]
        for level in range(levels)
    }


def test_intervals_may_hold_histories_down_to_five_levels():
    known = nested(LEVELS + 3)
    prefix, _ = resolved([history(1000, last=2)], known)
    assert prefix == [1, 11, 21, 31, 41]
    source = ChannelSource(channel_id=HERE, entries=[history(1000, last=2)], lookup=lambda i: known.get(i.channel_id))
    lacking = needed(source, **RULES)
    assert lacking == ()


def test_a_history_that_leads_back_to_itself_is_left_out():
    known = {THERE: [said(1), history(2, last=3), said(3)]}
    assert resolved([said(100), history(101, last=3), said(102)], known) == ([100, 1, 3], [102])
    here = [said(1), history(2, last=3, channel=HERE), said(3)]
    assert resolved(here, {HERE: here}) == ([1], [3])


def test_what_must_be_fetched_is_told_level_by_level_until_nothing_is_lacking():
    far = {THERE: [said(1), history(2, first=10, last=12, channel=30)], 30: old(10, 11, 12)}
    fetched = {}
    source = ChannelSource(channel_id=HERE, entries=[history(100, last=2)], lookup=lambda i: fetched.get(i))
    asked = []
    while lacking := needed(source, **RULES):
        asked += lacking
        fetched.update({interval: far[interval.channel_id] for interval in lacking})
    assert asked == [Interval(THERE, None, 2), Interval(30, 10, 12)]
    assert ids(resolve_history(source, **RULES).prefix) == [1, 10, 11, 12]


def test_what_cannot_be_fetched_changes_nothing():
    assert resolved([said(1), history(2, last=5), said(3)]) == ([], [1, 3])


def test_the_channels_own_messages_need_not_be_fetched():
    entries = [*old(1, 2, 3), history(4), said(5), history(6, first=1, last=2, channel=HERE), said(7)]
    assert resolved(entries) == ([5, 1, 2], [7])


def test_what_the_oldest_known_messages_begin_is_read_further_back_and_taken_as_it_is_where_it_cannot_be():
    here = [*old(*range(50, 90)), history(90, last=60, channel=HERE), said(91)]
    asked = needed(ChannelSource(channel_id=HERE, entries=here), **RULES)
    assert asked == (Interval(HERE, None, 60),)
    assert sorted(resolved(here, {HERE: old(*range(1, 90))})[0]) == list(range(11, 90))
    assert resolved(here)[0] == list(range(50, 90))
    thread = {"parent_id": THERE, "parent": old(*range(150, 160)), "branched_from": 155}
    assert needed(ChannelSource(channel_id=HERE, entries=[said(200)], **thread), **RULES) == (
        Interval(THERE, None, 155),
    )
    assert resolved([said(200)], {THERE: old(*range(1, 160))}, **thread)[0] == list(range(106, 156))
    assert resolved([said(200)], **thread)[0] == list(range(150, 156))


def test_words_with_a_command_in_them_are_none_whatever_else_was_said():
    words = said(2, MANAGER, f"@everyone .history\n---\nlast: {link(5)}")
    for other in ([], [history(3, last=7, targets="grok")]):
        assert resolved([said(1), words, *other, said(9)], {THERE: old(5)}) == ([], [1, 2, *ids(other), 9])


@pytest.mark.parametrize("own", [[said(200)], []])
def test_a_thread_begins_with_its_parent_up_to_the_message_that_it_branched_from(own):
    found = resolved(own, parent_id=THERE, parent=old(1, 2, 3), branched_from=2)
    assert found == ([1, 2], ids(own))


def test_a_thread_that_begins_with_a_history_has_no_implied_one():
    parent = {"parent_id": THERE, "parent": old(1, 2, 3), "branched_from": 2}
    assert resolved([history(200), said(201)], **parent) == ([], [201])
    assert resolved([said(200), history(201), said(202)], **parent) == ([], [202])
    assert resolved([history(200, first=3, last=3), said(201)], **parent) == ([3], [201])


def test_a_parents_histories_count_and_its_later_messages_do_not():
    parent = [said(1), history(2), said(3), said(9)]
    assert resolved([said(200)], parent_id=THERE, parent=parent, branched_from=5) == ([3], [200])


def test_the_prefix_is_filtered_like_the_rest_and_no_deeper_than_a_window():
    known = [said(1), said(2, ALICE, ".x", hidden=True), *old(*range(3, 30))]
    source = ChannelSource(channel_id=HERE, entries=[history(100, last=29), said(101)], lookup=lambda _: known)
    found = prepare_channel(source, Options(max_messages=5), ("claude",))
    assert (ids(found.prefix), ids(found.entries)) == ([25, 26, 27, 28, 29], [101])
    deep = prepare_channel(source, Options(max_messages=50), ("claude",))
    assert ids(deep.prefix) == [1, *range(3, 30)]
