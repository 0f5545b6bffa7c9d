from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.net.addresses import FetchRefused
from agentic.net.page_text import page_text

UMLAUTS = "Käse, größer"


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (UMLAUTS.encode(), "text/html"),
        (UMLAUTS.encode(), ""),
        (UMLAUTS.encode("latin-1"), "text/html; charset=ISO-8859-1"),
        (UMLAUTS.encode("latin-1"), "text/plain"),
        (UMLAUTS.encode("cp1252"), 'text/html; charset="us-ascii"'),
        (UMLAUTS.encode("utf-8-sig"), "text/html; charset=windows-1251"),
        (UMLAUTS.encode("utf-16"), "text/html"),
        (UMLAUTS.encode("utf-16-le"), "text/html; charset=utf-16le"),
        (UMLAUTS.encode(), "TEXT/HTML;Charset=UTF8"),
        (UMLAUTS.encode(), "application/ld+json"),
        (UMLAUTS.encode(), "application/atom+xml"),
        (UMLAUTS.encode("cp1252"), "text/html; charset=no-such"),
    ],
)
def test_a_page_is_read_in_its_characters(data, content_type):
    assert page_text(data, content_type) == UMLAUTS


@pytest.mark.parametrize(
    "meta",
    [
        '<meta charset="koi8-r">',
        "<META http-equiv=Content-Type content='text/html; charset=koi8-r'>",
    ],
)
def test_a_page_that_names_its_own_characters_is_believed(meta):
    assert page_text((meta + "привет").encode("koi8-r"), "text/html").endswith("привет")


@pytest.mark.parametrize("name", ["zip", "hex", "rot13", "idna", "punycode", "unicode_escape", "utf-7", "undefined"])
def test_no_other_codec_of_python_can_be_chosen(name):
    assert page_text(b"+AGEAYg-\\u0041", f"text/html; charset={name}") == "+AGEAYg-\\u0041"


@pytest.mark.parametrize(
    "content_type",
    ["application/pdf", "application/octet-stream", "image/svg", "video/mp4", "text/css", "text/javascript"],
)
def test_other_kinds_are_refused(content_type):
    with pytest.raises(FetchRefused):
        page_text(b"abc", content_type)


@given(st.binary(max_size=300), st.text(max_size=60))
def test_any_bytes_under_any_name_are_text_or_refused(data, name):
    with suppress(FetchRefused):
        assert isinstance(page_text(data, f"text/html; charset={name}"), str)
