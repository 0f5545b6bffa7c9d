"""What attached files are: their bytes decide, whatever their names and media types say."""

import asyncio
import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.chat.attachments import AttachmentLimits, AttachmentReader, as_text
from agentic.context.blocks import MAX_BYTES, choose
from agentic.context.entries import Attachment, Entry, Speaker
from agentic.context.options import Options
from agentic.net.addresses import FetchRefused
from tests.support.models.wire.values import SMALL_PNG


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


def with_file(name, media_type, size, number=1):
    return Entry(
        number,
        Speaker(1, "Alice", "person"),
        "",
        1.0,
        attachments=(Attachment(number, name, f"f{number}", size, media_type),),
    )


async def read(entries, files, **options):
    """As a turn does it: choose by the claims, download, and decide by the bytes."""
    reader = AttachmentReader(Files(**files))
    limits = AttachmentLimits(characters=options.pop("characters", 100))
    return await reader.read(choose(entries, Options(**options)).of(entries), limits)


async def test_the_newest_files_are_read_once_and_given_oldest_first():
    fetcher = Files(**{f"f{n}": f"text {n}".encode() for n in range(12)})
    reader = AttachmentReader(fetcher)
    entries = [with_files(n + 1, f"f{n}") for n in range(12)]
    found = (await reader.read(entries, AttachmentLimits(characters=6))).texts
    assert [(file.name, file.text, file.left_out) for file in found.values()] == [
        (f"f{n}.txt", f"text {n}"[:6], n // 10) for n in range(4, 12)
    ]
    await reader.read(entries)
    assert sorted(fetcher.asked) == sorted(f"f{n}" for n in range(4, 12))


async def test_of_two_files_with_the_same_text_the_older_one_is_shown():
    reader = AttachmentReader(Files(a=b"same", b=b"same"))
    assert list((await reader.read([with_files(1, "a"), with_files(2, "b")])).texts) == [10]


async def test_it_is_known_which_files_are_shown():
    files = [with_files(1, "text", "same", "gone", "binary"), with_file("a.png", "image/png", 9, number=5)]
    files.append(with_file("b.png", "image/png", 9, number=6))
    reader = AttachmentReader(Files(text=b"abc", same=b"abc", binary=b"\0\1\2", f5=SMALL_PNG, f6=SMALL_PNG))
    assert (await reader.read(files, AttachmentLimits(pictures=1))).shown == {10, 11, 6}


async def test_what_cannot_be_read_or_is_empty_is_left_out_and_binary_data_is_asked_for_once():
    fetcher = Files(a=b"", b=b"\0\1")
    reader = AttachmentReader(fetcher)
    for _ in range(2):
        found = await reader.read([with_files(1, "a", "b", "gone")])
        assert (found.texts, found.pictures) == ({}, {})
    assert fetcher.asked.count("b") == 1


@pytest.mark.promise(519)
@pytest.mark.parametrize(
    ("name", "media_type", "data", "text"),
    [
        ("app.ts", "video/mp2t", b"let x = 1", "let x = 1"),
        ("run.sh", "application/x-sh", b"ls", "ls"),
        ("a.toml", "application/octet-stream", b"a = 1", "a = 1"),
        ("q.sql", "application/sql", b"select 1", "select 1"),
        ("a.js", "application/javascript", b"x()", "x()"),
        ("Dockerfile", "", b"FROM scratch", "FROM scratch"),
        ("LICENSE", "application/octet-stream", b"free", "free"),
        ("notes", "", b"a text", "a text"),
        ("data.weird", "application/x-unheard-of", b"a,b", "a,b"),
        ("photo.png", "image/png", b"a text that is named so", "a text that is named so"),
        ("movie.mp4", "", b"only a text", "only a text"),
        ("utf16.txt", "text/plain", "höhe".encode("utf-16"), "höhe"),
        ("old.txt", "text/plain", b"caf\xe9", "café"),
        ("quotes.txt", "text/plain", "“5 €”".encode("cp1252"), "“5 €”"),
        ("plain16.txt", "text/plain", "a höhe of 3".encode("utf-16-le"), "a höhe of 3"),
        ("plain16be.txt", "text/plain", "a höhe of 3".encode("utf-16-be"), "a höhe of 3"),
        ("utf32.txt", "text/plain", "höhe".encode("utf-32"), "höhe"),
        ("cut.txt", "text/plain", "ééé".encode()[:-1], "éé\ufffd"),
        ("nul.csv", "text/csv", b"a,b\n1,\x002\n", "a,b\n1,2\n"),
        ("dos.txt", "text/plain", b"old\r\n\x1a", "old\r\n"),
        ("program", "", b"\x7fELF\x02\x01\x01\0\0\0\0 abc", None),
        ("bom.csv", "text/csv", b"\xef\xbb\xbfa,b", "a,b"),
        ("a.svg", "image/svg+xml", b"<svg/>", "<svg/>"),
        ("zipped.json", "application/json", gzip.compress(b"{}" * 99, mtime=0), None),
        ("empty.txt", "text/plain", b"", None),
        ("a.pdf", "text/plain", b"%PDF-1.4\nplain", None),
    ],
)
async def test_a_text_is_read_whatever_it_is_called(name, media_type, data, text):
    found = await read([with_file(name, media_type, len(data))], {"f1": data})
    assert [file.text for file in found.texts.values()] == ([] if text is None else [text])
    assert found.pictures == {}


@pytest.mark.promise(519)
@pytest.mark.parametrize(
    ("name", "media_type"),
    [("photo.PNG", ""), ("photo", "application/octet-stream"), ("notes.txt", "text/plain"), ("a.json", ""), ("x", "")],
)
async def test_a_picture_is_shown_whatever_it_is_called(name, media_type):
    found = await read([with_file(name, media_type, len(SMALL_PNG))], {"f1": SMALL_PNG})
    assert ([picture.data for picture in found.pictures[1]], found.texts) == ([SMALL_PNG], {})
    none = await AttachmentReader(Files(f1=SMALL_PNG)).read(
        [with_file(name, media_type, len(SMALL_PNG))], AttachmentLimits(pictures=0)
    )
    assert none.pictures == {}


@pytest.mark.parametrize(
    ("name", "media_type", "size"),
    [
        ("a.log", "text/plain", 300_000_000),
        ("a.png", "image/png", MAX_BYTES + 1),
        ("a.mp4", "video/mp4", 5),
        ("a.ogg", "audio/ogg", 5),
        ("a.zip", "application/zip", 5),
        ("a.pdf", "application/pdf", 5),
    ],
)
async def test_what_is_too_large_or_obviously_something_else_is_not_downloaded(name, media_type, size):
    fetcher = Files(f1=b"text")
    entries = [with_file(name, media_type, size)]
    await AttachmentReader(fetcher).read(choose(entries, Options()).of(entries))
    await AttachmentReader(fetcher).read(entries)
    assert fetcher.asked == []


async def test_a_binary_file_takes_no_room_from_a_text():
    entries = [with_file("notes.txt", "text/plain", 90), with_file("game.bin", "", 7_000_000, number=2)]
    found = await read(entries, {"f1": b"n" * 90, "f2": b"\0" * 99}, max_file_characters=100)
    assert list(found.texts) == [1]


async def test_texts_that_were_not_said_to_be_texts_get_the_room_that_the_others_leave():
    entries = [with_file("notes.txt", "text/plain", 90), with_file("notes", "", 50, number=2)]
    found = await read(entries, {"f1": b"n" * 90, "f2": b"m" * 50})
    assert [(file.text, file.left_out) for file in found.texts.values()] == [("n" * 90, 0), ("m" * 10, 40)]


@given(st.text(alphabet=st.characters(blacklist_categories=("Cs", "Cc")), min_size=1))
def test_utf_8_is_read_as_it_was_written(text):
    assert as_text(text.encode()) == text.removeprefix("\ufeff")
    assert as_text(text.encode("utf-16")) == text


@given(st.binary(max_size=40))
def test_any_bytes_are_a_text_or_none(data):
    assert isinstance(as_text(data), str | None)
