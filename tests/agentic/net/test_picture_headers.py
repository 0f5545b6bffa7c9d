from __future__ import annotations

import struct

import pytest

from agentic.net.images import media_type_of, size_of

JPEG = b"\xff\xd8" + b"\xff\xe0\0\x04ab" + b"\xff\xff\xc2\0\x11\x08" + struct.pack(">HH", 30, 40)
SAMPLES = {
    "png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 40, 30), "image/png"),
    "gif": (b"GIF89a" + struct.pack("<HH", 40, 30), "image/gif"),
    "jpeg": (JPEG, "image/jpeg"),
    "lossy webp": (b"RIFF1234WEBPVP8 1234\x30\x01\0\x9d\x01\x2a" + struct.pack("<HH", 40, 30), "image/webp"),
    "lossless webp": (b"RIFF1234WEBPVP8L1234\x2f" + struct.pack("<I", 39 | 29 << 14), "image/webp"),
    "extended webp": (b"RIFF1234WEBPVP8X1234\0\0\0\0" + b"\x27\0\0" + b"\x1d\0\0", "image/webp"),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_kind_and_size_are_read_from_the_header(name: str) -> None:
    data, media_type = SAMPLES[name]
    assert media_type_of(data) == media_type
    assert size_of(data, media_type) == (40, 30)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_header_cut_anywhere_has_no_size_until_all_of_it_is_there(name: str) -> None:
    data, media_type = SAMPLES[name]
    sizes = [size_of(data[:length], media_type) for length in range(len(data) + 1)]
    first = sizes.index((40, 30))
    assert first > 8
    assert sizes == [None] * first + [(40, 30)] * (len(sizes) - first)


@pytest.mark.promise(29)
@pytest.mark.parametrize("data", [b"", b"%PDF-1.7", b"\x89PN", b"GIF88a", b"<svg/>", b"BM" + bytes(60)])
def test_other_files_are_no_pictures(data: bytes) -> None:
    assert media_type_of(data) is None
