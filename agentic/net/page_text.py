"""Decode a page's bytes: which kinds are read as text, and with which encoding. Pure.

The server's content type decides whether the bytes are text; zero bytes show that they are not. The encoding comes from
the byte order mark, else the header, else the page's own `meta`, else UTF-8 if the bytes are valid, else windows-1252,
as in browsers (encoding.spec.whatwg.org). Only encodings used by pages are accepted: a name from outside must not
choose among all of Python's codecs.
"""

from __future__ import annotations

import codecs
import re

from agentic.net.addresses import FetchRefused

HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = frozenset({"application/json", "application/xml", "application/ld+json", "application/x-ndjson"})
_TEXT_ENDS = ("+json", "+xml")
_NO_TEXT = frozenset({"text/css", "text/javascript"})

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_CODECS = frozenset(
    {
        *(f"iso8859-{number}" for number in range(1, 17)),
        *(f"cp{number}" for number in (866, 874, 932, 949, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)),
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "gb2312", "gbk", "gb18030", "big5", "big5hkscs"),
        *("euc_jp", "shift_jis", "iso2022_jp", "euc_kr", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "tis-620"),
    }
)
_LATIN = frozenset({"iso8859-1", "ascii"})  # browsers read both as windows-1252
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*+=\s*+[\"']?\s*+([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE)
_META_BYTES = 4096


def media_type(content_type: str) -> str:
    """Return the media type in a header, in lower case: text/html."""
    return content_type.partition(";")[0].strip().lower()


def page_text(data: bytes, content_type: str) -> str:
    """Decode a page. Raises FetchRefused for other kinds than text."""
    kind = media_type(content_type) or "text/plain"
    is_text = kind.startswith("text/") or kind in HTML or kind in _TEXT or kind.endswith(_TEXT_ENDS)
    if not is_text or kind in _NO_TEXT:
        raise FetchRefused("not a text page")
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    name = _claimed(content_type) or (_meta(data) if kind in HTML else None) or _guessed(data)
    if b"\0" in data and not name.startswith("utf-16"):
        raise FetchRefused("not a text page")
    return data.decode("cp1252" if name in _LATIN else name, "replace")


def _claimed(content_type: str) -> str | None:
    found = re.search(r"charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-zA-Z0-9_:.-]{1,40})", content_type, re.IGNORECASE)
    return _known(found[1]) if found else None


def _meta(data: bytes) -> str | None:
    found = _META.search(data, 0, _META_BYTES)
    name = _known(found[1].decode("ascii")) if found else None
    return (
        "utf-8" if name and name.startswith("utf-16") else name
    )  # the declaration itself would be unreadable in UTF-16


def _known(name: str) -> str | None:
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    return found if found in _CODECS else None


def _guessed(data: bytes) -> str:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"
