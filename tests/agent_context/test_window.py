from agent_context.entries import Entry, Speaker
from agent_context.window import WindowMemory, conversation_entries, recent_entries
from agent_llm.types import Message

ALICE = Speaker(1, "Alice", "person")


def entries(*ids):
    return tuple(Entry(i, ALICE, f"text {i}", float(i)) for i in ids)


def ids(found):
    return [entry.id for entry in found]


def test_a_conversation_that_begins_now_sees_the_last_fifteen():
    assert ids(conversation_entries(entries(*range(1, 31)), [])) == list(range(16, 31))


def test_every_round_sees_from_fifteen_before_the_start_to_now():
    said = entries(*range(1, 61))
    assert ids(conversation_entries(said, [20, 25, 40])) == list(range(5, 61))


def test_a_conversation_in_a_young_channel_sees_all_of_it():
    assert ids(conversation_entries(entries(1, 2, 3), [2])) == [1, 2, 3]


def test_other_turns_see_the_share_of_the_window_that_the_theme_needs():
    said = entries(*range(1, 101))
    assert len(recent_entries(said, 40, 1.0)) == 40
    assert ids(recent_entries(said, 40, 0.25)) == list(range(91, 101))
    assert len(recent_entries(said, 1, 0.01)) == 1


def test_a_full_window_grows_by_a_quarter_before_it_is_cut_back():
    said, memory, firsts = entries(*range(1, 61)), WindowMemory(), []
    for end in range(40, 61):
        first = memory.first(7, "recent")
        window = memory.lay(7, "recent", recent_entries(said[:end], 20, 1.0, first), 100.0)
        firsts.append(window.entries[0].id)
        assert ids(window.entries)[-20:] == list(range(end - 19, end + 1))
    assert firsts == [21] * 6 + [27] * 6 + [33] * 6 + [39] * 3


def test_a_window_of_which_too_much_was_deleted_is_laid_anew():
    assert ids(recent_entries(entries(*range(1, 31), 51), 5, 1.0, 50)) == [27, 28, 29, 30, 51]


def test_a_window_keeps_its_cut_while_its_first_entry_stays():
    memory = WindowMemory()
    first = memory.lay(7, "conversation", entries(1, 2), 100.0)
    later = memory.lay(7, "conversation", entries(1, 2, 3), 200.0)
    assert (first.cut_at, later.cut_at) == (100.0, 100.0)


def test_a_window_with_another_beginning_is_cut_anew():
    memory = WindowMemory()
    memory.lay(7, "recent", entries(1, 2), 100.0)
    assert memory.lay(7, "recent", entries(2, 3), 200.0).cut_at == 200.0


def test_windows_of_one_channel_do_not_disturb_each_other():
    memory = WindowMemory()
    memory.lay(7, "conversation", entries(1, 2), 100.0)
    memory.lay(7, "recent", entries(2), 150.0)
    assert memory.lay(7, "conversation", entries(1, 2, 3), 200.0).cut_at == 100.0


def test_what_was_rendered_is_kept_while_the_cut_is():
    memory = WindowMemory()
    memory.lay(7, "recent", entries(1, 2), 100.0).shown[1] = (entries(1), Message("user", "as shown"))
    assert memory.lay(7, "recent", entries(1, 2, 3), 200.0).shown[1][1].text == "as shown"
    assert memory.lay(7, "recent", entries(2, 3), 300.0).shown == {}
