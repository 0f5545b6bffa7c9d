from dataclasses import replace

import pytest

from agentic.context.blocks import BLOCK, Note, ToolLine
from agentic.context.entries import Reaction
from agentic.context.history import join_consecutive
from agentic.context.options import Options
from agentic.context.window import MAX_WINDOWS, WINDOW_STATE, Depth, WindowMemory, WindowState, conversation_entries
from tests.support.said import ALICE, CLAUDE, GROK, PICTURE, ids, said

FIRE = (Reaction("🔥", ("Bob",), 1),)
WIDE = Depth(100, 100)


def entries(*numbers):
    return tuple(said(number) for number in numbers)


class Channel:
    """A window that is laid again and again over one channel."""

    def __init__(self, depth=WIDE, **more):
        self.memory, self.depth, self.more = WindowMemory(), depth, more

    def build(self, seen, now=100.0, **more):
        return self.memory.build(7, "recent", seen, now, self.depth, **{**self.more, **more})

    def lines(self, seen, **more):
        return [line for block in self.build(seen, **more).blocks for line in block.lines]


def test_a_conversation_that_begins_now_sees_the_last_fifteen():
    assert ids(conversation_entries(entries(*range(1, 31)), [])) == list(range(16, 31))


def test_every_round_sees_from_fifteen_before_the_start():
    assert ids(conversation_entries(entries(*range(1, 61)), [20, 25, 40])) == list(range(5, 61))
    assert ids(conversation_entries(entries(1, 2, 3), [2])) == [1, 2, 3]


def test_a_full_window_takes_in_as_many_as_the_threshold_and_is_then_cut_in_one_step():
    channel, firsts = Channel(Depth.of(Options(max_messages=20, rolling_threshold=5))), []
    for end in range(20, 40):
        window = channel.build(entries(*range(1, end + 1)), float(end))
        firsts.append((window.entries[0].id, window.cut_at, window.fresh))
        assert ids(window.entries)[-20:] == list(range(end - 19, end + 1))
    assert [first for first, _, _ in firsts] == [1] * 6 + [7] * 6 + [13] * 6 + [19] * 2
    assert [cut for _, cut, fresh in firsts if fresh] == [20.0, 26.0, 32.0, 38.0]


def test_the_characters_are_cut_in_steps_too():
    channel = Channel(Depth(100, 100, 1000))
    firsts = [
        channel.build([said(number, text="x" * 60) for number in range(1, end)]).entries[0].id for end in range(2, 30)
    ]
    assert firsts == [1] * 12 + [4] * 3 + [7] * 3 + [10] * 3 + [13] * 3 + [16] * 3 + [19]
    assert len(channel.build([said(99, text="x" * 5000)]).entries) == 1


def test_a_share_of_the_messages_is_what_a_theme_needs():
    assert [Depth.of(Options(max_messages=40), share).messages for share in (1.0, 0.25, 0.001)] == [40, 10, 1]


def test_a_conversation_is_whole_as_long_as_a_window_may_grow():
    channel = Channel(Depth(20, 20), whole=True)
    assert len(channel.build(entries(*range(1, 41))).entries) == 40
    assert len(channel.build(entries(*range(1, 42))).entries) == 20


def test_a_window_of_which_too_much_was_deleted_is_laid_anew():
    channel = Channel(Depth(5, 5))
    channel.build(entries(*range(50, 55)))
    assert ids(channel.build(entries(*range(1, 31), 50, 51)).entries) == [28, 29, 30, 50, 51]


def test_a_new_window_is_no_longer_than_one_right_after_a_cut():
    assert len(Channel(Depth(20, 20)).build(entries(*range(1, 31))).entries) == 20


def test_a_few_deletions_make_no_new_window():
    channel = Channel(Depth(10, 5))
    channel.build(entries(*range(1, 41)))
    assert ids(channel.build(entries(*range(1, 40))).entries) == list(range(31, 40))


def test_the_window_that_was_used_least_is_forgotten():
    memory = WindowMemory()
    for channel in range(MAX_WINDOWS + 1):
        memory.build(channel, "recent", entries(1), 0.0, WIDE)
    known = [channel for channel in range(MAX_WINDOWS + 1) if memory.state(channel, "recent") is not None]
    assert known == list(range(1, MAX_WINDOWS + 1))


def test_a_window_keeps_its_cut_while_its_first_entry_stays():
    channel = Channel()
    assert [channel.build(entries(1, 2), 100.0).cut_at, channel.build(entries(1, 2, 3), 200.0).cut_at] == [100.0, 100.0]
    assert channel.build(entries(2, 3), 300.0).cut_at == 300.0


def test_windows_of_one_channel_do_not_disturb_each_other():
    memory = WindowMemory()
    memory.build(7, "conversation", entries(1, 2), 100.0, WIDE)
    memory.build(7, "recent", entries(2), 150.0, WIDE)
    assert memory.build(7, "conversation", entries(1, 2, 3), 200.0, WIDE).cut_at == 100.0


@pytest.mark.parametrize(("depth", "marker"), [(0, 10), (3, 7), (50, 1)])
def test_the_marker_is_set_at_a_cut_and_stays_until_the_next(depth, marker):
    channel = Channel(Depth(10, 10), marker_depth=depth)
    markers = [channel.build(entries(*range(1, end))).marker for end in range(11, 23)]
    assert markers == [marker] * 11 + [max(12, 21 - depth)]


def test_a_restart_keeps_first_entry_cut_and_marker():
    before = Channel(Depth(10, 10))
    before.build(entries(*range(1, 11)), 100.0)
    kept = WINDOW_STATE.dump_json(before.memory.state(7, "recent"))
    after = Channel(Depth(10, 10))
    after.memory.restore(7, "recent", WINDOW_STATE.validate_json(kept))
    window = after.build(entries(*range(1, 15)), 500.0)
    assert (window.entries[0].id, window.cut_at, window.marker, window.fresh) == (1, 100.0, 10, False)
    again = before.build(entries(*range(1, 15)), 500.0)
    assert [block.lines for block in window.blocks] == [block.lines for block in again.blocks]


def test_a_restored_window_that_is_too_old_is_cut_and_a_known_one_is_not_replaced():
    channel = Channel(Depth(10, 10))
    channel.memory.restore(7, "recent", WindowState(1, 50.0, 1))
    assert channel.build(entries(*range(1, 50)), 500.0).cut_at == 500.0
    channel.memory.restore(7, "recent", WindowState(1, 50.0, 1))
    assert channel.memory.state(7, "recent").cut_at == 500.0


def test_late_edits_and_reactions_are_notes_after_the_newest_entry():
    channel, now = Channel(), list(entries(1, 2, 3))
    channel.build(now)
    now[0] = replace(now[0], text="changed", reactions=FIRE)
    now.append(said(4))
    lines = channel.lines(now)
    assert lines == [*entries(1, 2, 3), said(4), Note(now[0], "edited"), Note(now[0], "reactions")]
    assert channel.lines(now) == lines
    now[0] = replace(now[0], reactions=())
    assert channel.lines(now) == [*lines, Note(now[0], "reactions")]


def test_many_notes_bring_on_a_cut():
    channel, fresh = Channel(Depth(20, 20)), []
    for number in range(30):
        fresh.append(channel.build([said(1, text=f"version {number}"), said(2)], float(number)).fresh)
    assert [number for number, cut in enumerate(fresh) if cut] == [0, 12, 24]


def test_at_the_cut_changes_are_told_where_they_belong():
    channel, now = Channel(Depth(3, 1)), list(entries(1, 2, 3))
    channel.build(now)
    now[2] = replace(now[2], text="changed", reactions=FIRE)
    assert Note(now[2], "edited") in channel.lines([*now, said(4)])
    assert channel.lines([*now, said(4), said(5)]) == [now[2], said(4), said(5)]


def test_the_last_entry_may_grow_where_it_stands():
    channel = Channel(marker_depth=2)
    channel.build(entries(1, 2, 3))
    longer = said(3, text="text 3 and more", reactions=FIRE)
    assert channel.lines([*entries(1, 2), longer]) == [*entries(1, 2), longer]


def test_what_is_deleted_or_hidden_goes_at_once_with_the_notes_about_it():
    channel, now = Channel(), list(entries(1, 2, 3))
    channel.build(now)
    now[1] = replace(now[1], text="a secret")
    assert Note(now[1], "edited") in channel.lines(now)
    assert channel.lines([now[0], now[2]]) == [now[0], now[2]]
    assert channel.lines([now[0], now[2], said(4)]) == [now[0], now[2], said(4)]


def test_what_was_hidden_before_the_first_entry_is_shown_again_where_there_is_room():
    roomy, full = Channel(), Channel(Depth(3, 3))
    for channel in (roomy, full):
        channel.build(entries(2, 3, 4))
    assert ids(roomy.build(entries(1, 2, 3, 4)).entries) == [1, 2, 3, 4]
    assert ids(full.build(entries(1, 2, 3, 4)).entries) == [2, 3, 4]


def test_a_message_that_came_late_is_shown_at_the_end_until_the_cut():
    channel = Channel()
    channel.build(entries(1, 3))
    assert ids(channel.lines(entries(1, 2, 3, 4))) == [1, 3, 2, 4]
    assert ids(channel.lines(entries(1, 2, 3, 4, 5))) == [1, 3, 2, 4, 5]


def test_later_parts_of_what_a_bot_said_follow_what_was_shown_of_it():
    channel = Channel()  # the marker ends the block after 2
    one, two, three = (said(number, CLAUDE) for number in (2, 3, 4))
    channel.build(join_consecutive([said(1), one]))
    assert [(line.id, line.text) for line in channel.lines(join_consecutive([said(1), one, two]))] == [
        (1, "text 1"), (2, "text 2"), (3, "text 3"),
    ]  # fmt: skip
    later = channel.lines(join_consecutive([said(1), one, two, three, said(5, GROK)]))
    assert [(line.id, line.text) for line in later] == [
        (1, "text 1"), (2, "text 2"), (3, "text 3 text 4"), (5, "text 5"),
    ]  # fmt: skip


def test_of_a_joined_message_the_part_that_is_deleted_goes():
    channel = Channel()
    parts = [said(number, CLAUDE) for number in (2, 3, 4)]
    channel.build(join_consecutive([said(1), *parts]))
    lines = channel.lines(join_consecutive([said(1), parts[0], parts[2]]))
    assert [(line.id, line.text) for line in lines] == [(1, "text 1"), (2, "text 2 text 4")]
    lines = channel.lines(join_consecutive([said(1), parts[2], said(5)]))
    assert [(line.id, line.text) for line in lines] == [(1, "text 1"), (4, "text 4"), (5, "text 5")]


def test_a_prefix_stands_before_the_window_and_does_not_roll():
    channel, prefix = Channel(Depth(3, 2)), entries(501, 502)
    for end in range(2, 12):
        window = channel.build(entries(*range(1, end)), float(end), prefix=prefix)
        assert ids(window.entries)[:2] == [501, 502]
        assert window.blocks[0].lines == prefix
    assert ids(window.entries) == [501, 502, 7, 8, 9, 10]
    assert channel.build(entries(*range(1, 12)), 99.0, prefix=entries(501)).cut_at == 99.0


def test_tool_lines_stand_after_their_message_and_late_ones_before_what_is_newer():
    channel, search, fetch = Channel(), ToolLine(2, "web_search"), ToolLine(3, "web_fetch")
    assert channel.lines(entries(1, 2, 3), tools=[search]) == [*entries(1, 2), search, said(3)]
    lines = channel.lines(entries(1, 2, 3, 4), tools=[search, fetch])
    assert lines == [*entries(1, 2), search, said(3), fetch, said(4)]
    assert channel.lines(entries(1, 2, 3, 4), tools=[search, fetch]) == lines
    old = Channel()
    assert old.lines(entries(5, 6), tools=[search]) == list(entries(5, 6))


def test_tool_lines_of_a_prefix_stand_in_it_and_those_of_what_was_cleared_nowhere():
    channel, prefix = Channel(), entries(3, 501, 1)
    tools = [ToolLine(number, f"at {number}") for number in (1, 2, 3, 9)]
    lines = channel.lines(entries(9, 10), prefix=prefix, tools=tools)
    assert lines == [said(3), tools[2], said(501), said(1), tools[0], said(9), tools[3], said(10)]
    assert all(block.closed for block in channel.build(entries(9, 10), prefix=prefix).blocks)
    assert Channel().lines((), prefix=entries(1), tools=[ToolLine(2, "cleared")]) == list(entries(1))


def test_a_full_block_stays_the_same_object_and_pictures_and_marker_end_one():
    channel = Channel(marker_depth=1)
    before = channel.build([*entries(1, 2), said(3, ALICE, attachments=(PICTURE,)), *entries(4, 5)]).blocks
    assert [ids(block.lines) for block in before] == [[1, 2, 3], [4], [5]]
    assert [block.closed for block in before] == [True, True, False]
    more = [*entries(1, 2), said(3, ALICE, attachments=(PICTURE,)), *entries(*range(4, 5 + BLOCK + 1))]
    after = channel.build(more).blocks
    assert after[:2] == before[:2]
    assert [len(block.lines) for block in after] == [3, 1, BLOCK, 1]


def test_pictures_once_chosen_are_kept_in_memory_until_the_cut():
    channel, options = Channel(Depth(4, 4)), Options(max_images=2)
    shots = [said(n, attachments=(replace(PICTURE, id=100 + n),)) for n in range(1, 10)]

    def chosen(count):
        return sorted(channel.memory.choose(7, "recent", channel.build(shots[:count]), options).pictures)

    assert [chosen(count) for count in (2, 3, 4, 9)] == [[101, 102], [103], [103, 104], [108, 109]]
