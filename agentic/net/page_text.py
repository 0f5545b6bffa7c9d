"""Converts a page to readable text: headings, paragraphs, lists, tables, and links, without navigation.

The server's content type decides whether the bytes are text, unless they contain zero bytes. The encoding comes from
the byte order mark, or else the header, the page's own `meta`, UTF-8 if the bytes are valid, or windows-1252, as in
browsers (encoding.spec.whatwg.org). Only encodings used by pages are accepted, so that a foreign name can't select any
of Python's codecs.

lxml is the parser because it is written in C, limits depth and time on hostile pages (the standard library's parser
takes quadratic time on some), fetches nothing, and is required by ddgs anyway. The tree is walked without recursion.
This blocks for some milliseconds per megabyte: call it in a thread.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

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
_CHARSET = re.compile(r"charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE)

_DROPPED = frozenset(
    {
        *("script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas", "video"),
        *("audio", "button", "input", "select", "textarea", "nav", "aside", "dialog", "link", "meta", "title"),
    }
)
_AROUND = frozenset({"header", "footer"})  # dropped from the page; an article's header contains its title
_BLOCKS = frozenset(
    {
        *("p", "div", "section", "article", "main", "ul", "ol", "dl", "dd", "dt", "table", "tr", "blockquote", "pre"),
        *("figure", "figcaption", "address", "details", "summary", "hr", "header", "footer", "body", "li", "form"),
    }
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_MIN_MAIN_TEXT = 400  # characters; a shorter main part isn't the page's text
MAX_LINK = 300

# Replaces significant white space (in <pre>) while all other white space is folded.
_KEPT = "\x01"
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\n[\s]*\n")
_EMPTY_LINK = re.compile(r"\[\s*\]\([^()\s]*\)")


def media_type(content_type: str) -> str:
    """Return the media type in a header, such as text/html, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def page_text(data: bytes, content_type: str) -> str:
    """Decode a page. Raises FetchRefused if it isn't text."""
    kind = media_type(content_type) or "text/plain"
    is_text = kind.startswith("text/") or kind in HTML or kind in _TEXT or kind.endswith(_TEXT_ENDS)
    if not is_text or kind in _NO_TEXT:
        raise FetchRefused("not a text page")
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(codec, "replace")
    claim = _CHARSET.search(content_type)
    name = _known_codec(claim[1]) if claim else None
    if name is None and kind in HTML and (meta := _META.search(data, 0, _META_BYTES)):
        name = _known_codec(meta[1].decode("ascii"))
        if name is not None and name.startswith("utf-16"):
            name = "utf-8"  # in UTF-16 the declaration itself would have been unreadable
    if name is None:
        name = "utf-8"
        try:
            data.decode(name)
        except UnicodeDecodeError:
            name = "cp1252"
    if b"\0" in data and not name.startswith("utf-16"):
        raise FetchRefused("not a text page")
    return data.decode("cp1252" if name in _LATIN else name, "replace")


def _known_codec(name: str) -> str | None:
    """Return the codec's own name, or None if pages don't use it."""
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return None
    return found if found in _CODECS else None


def readable_page(html: str, address: str) -> tuple[str, str]:
    """Return a page's title and text. Its links are absolute: `[words](URL)`."""
    # Imported here because it takes 24 ms and 8 MiB, and not every process reads pages.
    from lxml import etree  # type: ignore[import-untyped]
    from lxml import html as lxml_html

    # As bytes, so that the page's own declaration of its encoding is ignored.
    parser = lxml_html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    try:
        tree = lxml_html.document_fromstring(html.replace(_KEPT, "").encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):  # an empty page
        return "", ""
    title = " ".join((tree.findtext(".//title") or "").split())[:200]
    for path in (".//main", ".//article", ".//body"):
        found = list(tree.iterfind(path))
        text = _text(found[0], address) if len(found) == 1 else ""
        if len(text) >= _MIN_MAIN_TEXT:
            return title, text
    return title, _text(tree, address)


def _text(root: Any, address: str) -> str:
    text = _SPACES.sub(" ", _EMPTY_LINK.sub("", "".join(_pieces(root, address))))
    lines = "\n".join(line.strip(" ") for line in text.split("\n"))
    return _LINES.sub("\n\n", lines).strip().replace(_KEPT, " ")


def _pieces(root: Any, address: str) -> Iterator[str]:
    """Yield a tree's text and separators in the order of the page."""
    from lxml import etree

    walk = etree.iterwalk(root, events=("start", "end"))
    in_pre = 0
    targets: list[str] = []  # of open links
    for event, element in walk:
        is_hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
        parent = element.getparent()
        is_around = element.tag in _AROUND and parent is not None and parent.tag == "body"
        is_dropped = not isinstance(element.tag, str) or element.tag in _DROPPED
        left_out = element is not root and (is_hidden or is_around or is_dropped)
        if event == "start":
            in_pre += element.tag == "pre"
            if left_out:
                walk.skip_subtree()
            else:
                if element.tag == "a":
                    targets.append(_target(element, address))
                yield _before(element, targets) + _words(element.text, in_pre)
            continue
        in_pre -= element.tag == "pre"
        after = "" if left_out else _after(element.tag, targets)
        yield after + (_words(element.tail, in_pre) if element is not root else "")


def _before(element: Any, targets: list[str]) -> str:
    tag = element.tag
    if tag in _HEADINGS:
        return f"\n\n{_HEADINGS[tag]} "
    if tag == "li":
        return "\n- "
    if tag == "br":
        return "\n"
    if tag in ("td", "th"):
        return " | " if element.getprevious() is not None else ""
    if tag == "a":
        return "[" if targets[-1] else ""
    if tag == "img":
        alt = " ".join((element.get("alt") or "").split())[:200]
        return f"[picture: {alt}]" if alt else ""
    return "\n" if tag in _BLOCKS else ""


def _after(tag: str, targets: list[str]) -> str:
    if tag == "a":
        target = targets.pop()
        return f"]({target})" if target else ""
    if tag in _HEADINGS or tag in ("p", "ul", "ol", "table", "pre", "blockquote"):
        return "\n\n"
    return "\n" if tag in _BLOCKS and tag not in ("li", "tr") else ""


def _target(element: Any, address: str) -> str:
    """Return a link's URL, or "" if it doesn't lead to another page."""
    href = (element.get("href") or "").strip()
    if not href or href.startswith("#"):
        return ""
    try:
        target = urljoin(address, href)
    except ValueError:
        return ""
    fits = len(target) <= MAX_LINK and not re.search(r"[\s()\[\]<>]", target)
    return target if fits and target.startswith(("http://", "https://")) else ""


def _words(text: str | None, in_pre: int) -> str:
    if not text:
        return ""
    if in_pre:
        return text.replace("\t", _KEPT * 4).replace(" ", _KEPT)
    return " ".join(re.split(r"\s+", text))
