"""Which attached files are read as text, and what of them."""

import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_chat.text_files import MAX_BYTES, TextReader, as_text, is_text
from agent_context.entries import Attachment, Entry, Speaker
from agent_net.addresses import FetchRefused


class Files:
    """A fetcher that knows its files by their addresses."""

    def __init__(self, **files):
        self.files, self.asked = files, []

    async def fetch_bytes(self, url, max_bytes):
        self.asked.append(url)
        await asyncio.sleep(0)
        if url not in self.files:
            raise FetchRefused("not there")
        return self.files[url]


def with_files(message_id, *names):
    files = tuple(Attachment(10 * message_id + n, f"{name}.txt", name, 5, "text/plain") for n, name in enumerate(names))
    return Entry(message_id, Speaker(1, "Alice", "person"), "", 1.0, attachments=files)


async def test_the_newest_files_are_read_once_and_given_oldest_first():
    fetcher = Files(a=b"aaa", b=b"bbb", c=b"ccc")
    reader, entries = TextReader(fetcher), [with_files(1, "a"), with_files(2, "b", "c")]
    found = await reader.read(entries, max_characters=2, most=2)
    assert [(key, file.name, file.text, file.left_out) for key, file in found.items()] == [
        (20, "b.txt", "bb", 1),
        (21, "c.txt", "cc", 1),
    ]
    await reader.read(entries, max_characters=10)
    assert sorted(fetcher.asked) == ["a", "b", "c"]


async def test_of_two_files_with_the_same_text_the_older_one_is_shown():
    reader = TextReader(Files(a=b"same", b=b"same"))
    found = await reader.read([with_files(1, "a"), with_files(2, "b")], max_characters=10)
    assert list(found) == [10]


async def test_what_cannot_be_read_or_is_empty_is_left_out():
    reader = TextReader(Files(a=b"", b=b"\0\1"))
    assert await reader.read([with_files(1, "a", "b", "gone")], max_characters=10) == {}


@pytest.mark.parametrize(
    ("filename", "media_type", "size", "text"),
    [
        ("a.txt", "text/plain", 5, True),
        ("a", "text/x-python", 5, True),
        ("a.py", "", 5, True),
        ("a.PY", "application/octet-stream", 5, True),
        ("data", "application/json", 5, True),
        ("a.exe", "application/octet-stream", 5, False),
        ("a.zip", "application/zip", 5, False),
        ("a.pdf", "application/pdf", 5, False),
        ("a.svg", "image/svg+xml", 5, False),
        ("a.txt", "text/plain", 0, False),
        ("a.txt", "text/plain", MAX_BYTES + 1, False),
    ],
)
def test_what_claims_to_be_a_text_of_a_size_that_is_read(filename, media_type, size, text):
    assert is_text(Attachment(1, filename, "", size, media_type)) is text


@given(st.text(alphabet=st.characters(blacklist_categories=("Cs", "Cc")), min_size=1))
def test_utf_8_is_read_as_it_was_written(text):
    assert as_text(text.encode()) == text.removeprefix("\ufeff")
    assert as_text(text.encode("utf-16")) == text


@given(st.binary(max_size=40))
def test_any_bytes_are_a_text_or_refused(data):
    with suppress(FetchRefused):
        assert isinstance(as_text(data), str)
