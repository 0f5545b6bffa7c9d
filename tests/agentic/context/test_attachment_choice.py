from agentic.context.blocks import NOTHING_CHOSEN, Chosen, choose
from agentic.context.entries import Attachment
from agentic.context.options import Options
from tests.support.said import said


def with_files(entry_id, *files):
    return said(entry_id, attachments=files)


def picture(number):
    return Attachment(number, f"{number}.png", f"https://cdn/{number}.png", 10, "image/png")


def text(number, size):
    return Attachment(number, f"{number}.txt", f"https://cdn/{number}.txt", size, "text/plain")


def test_the_newest_pictures_are_shown_up_to_the_limit():
    entries = [with_files(number, picture(number)) for number in range(1, 7)]
    assert choose(entries, Options(max_images=4)).pictures == {3, 4, 5, 6}
    assert choose(entries, Options(include_images=False)).pictures == set()
    assert choose(entries, Options(max_images=0)).pictures == set()


def test_what_was_shown_stays_while_there_is_room_and_then_half_of_the_room_is_freed():
    options, chosen, shown = Options(max_images=4), NOTHING_CHOSEN, []
    for count in range(1, 8):
        chosen = choose([with_files(number, picture(number)) for number in range(1, count + 1)], options, chosen)
        shown.append(sorted(chosen.pictures))
    assert shown == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [4, 5], [4, 5, 6], [4, 5, 6, 7]]


def test_text_files_are_quoted_up_to_a_limit_together():
    entries = [with_files(1, text(1, 500)), with_files(2, text(2, 400)), with_files(3, text(3, 300), picture(9))]
    assert choose(entries, Options(max_file_characters=800)).files == {2, 3}
    assert choose(entries, Options(max_file_characters=100)).files == {3}
    assert choose(entries, Options(include_files=False)).files == set()


def test_files_of_which_only_the_bytes_will_tell_are_chosen_beside_the_others_the_newest_four():
    files = [Attachment(number, "thing", "u", 1, "application/octet-stream") for number in range(1, 7)]
    chosen = choose([with_files(1, *files), with_files(2, text(9, 10), picture(8))], Options(max_file_characters=500))
    assert (chosen.files, chosen.pictures, chosen.unclear) == ({9}, {8}, {1, 2, 3, 4})
    assert not choose([with_files(1, *files)], Options(include_files=False, include_images=False))


def test_what_is_to_be_read_are_the_entries_with_nothing_else_attached():
    entries = [with_files(1, picture(1)), with_files(2, picture(2), text(3, 5))]
    assert [(e.id, [a.id for a in e.attachments]) for e in Chosen(frozenset({2})).of(entries)] == [(2, [2])]
