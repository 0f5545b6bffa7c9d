"""Convert HTML to readable text: headings, paragraphs, lists, tables and links, without the page's navigation and the
like.

lxml parses: it is written in C, limits depth and time on hostile pages (the standard library's parser takes quadratic
time on some), fetches nothing, and ddgs requires it anyway. The tree is walked without recursion. Blocks for some
milliseconds a megabyte: call it in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

_DROPPED = frozenset(
    {
        *("script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas", "video"),
        *("audio", "button", "input", "select", "textarea", "nav", "aside", "dialog", "link", "meta", "title"),
    }
)
_AROUND = frozenset({"header", "footer"})  # a page's own; an article's header holds its title
_BLOCKS = frozenset(
    {
        *("p", "div", "section", "article", "main", "ul", "ol", "dl", "dd", "dt", "table", "tr", "blockquote", "pre"),
        *("figure", "figcaption", "address", "details", "summary", "hr", "header", "footer", "body", "li", "form"),
    }
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_MIN_MAIN_TEXT = 400  # characters; a shorter main part is not taken for the page's text
MAX_LINK = 300

# Stands for significant white space (in <pre>) while all other is folded.
_KEPT = "\x01"
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\n[\s]*\n")
_EMPTY_LINK = re.compile(r"\[\s*\]\([^()\s]*\)")


@dataclass(frozen=True, slots=True)
class ReadablePage:
    title: str
    text: str


def readable_page(html: str, address: str) -> ReadablePage:
    """Return the title and the text of a page. Links in it are absolute, `[words](address)`."""
    tree = _parsed(html)
    if tree is None:
        return ReadablePage("", "")
    title = " ".join((tree.findtext(".//title") or "").split())[:200]
    for path in (".//main", ".//article", ".//body"):
        found = list(tree.iterfind(path))
        text = _text(found[0], address) if len(found) == 1 else ""
        if len(text) >= _MIN_MAIN_TEXT:
            return ReadablePage(title, text)
    return ReadablePage(title, _text(tree, address))


def _parsed(html: str) -> Any:
    # Imported here, since it takes 24 ms and 8 MiB, and not every process reads pages.
    from lxml import etree  # type: ignore[import-untyped]
    from lxml import html as lxml_html

    # As bytes, so that the page's own declaration of its encoding is ignored.
    parser = lxml_html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    try:
        return lxml_html.document_fromstring(html.replace(_KEPT, "").encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):  # nothing in it
        return None


def _text(root: Any, address: str) -> str:
    text = _SPACES.sub(" ", _EMPTY_LINK.sub("", "".join(_pieces(root, address))))
    lines = "\n".join(line.strip(" ") for line in text.split("\n"))
    return _LINES.sub("\n\n", lines).strip().replace(_KEPT, " ")


def _pieces(root: Any, address: str) -> Iterator[str]:
    """Yield a tree's text and separators in the order of the page."""
    from lxml import etree

    walk = etree.iterwalk(root, events=("start", "end"))
    in_pre = 0
    targets: list[str] = []  # of the links that are open
    for event, element in walk:
        left_out = _is_left_out(element, root)
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


def _is_left_out(element: Any, root: Any) -> bool:
    if element is root:
        return False
    hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
    around = element.tag in _AROUND and element.getparent() is not None and element.getparent().tag == "body"
    return hidden or around or not isinstance(element.tag, str) or element.tag in _DROPPED


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
    """Return a link's address, "" if it does not lead to another page."""
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
