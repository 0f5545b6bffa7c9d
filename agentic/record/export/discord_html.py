"""Discord's markdown as HTML: bold, italic, code, quotes, lists, headings, links, spoilers, mentions by name.

Only tags of this module come out; every piece of the text is escaped. Links lead to http and https alone. Nothing is
loaded: custom emoji and mentions are names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import groupby

from markupsafe import Markup, escape

from agentic.record.export.story import Look, emoji_name

_FENCE = re.compile(r"```(?:([\w+#-]{1,20})\n)?(.+?)```\n?", re.DOTALL)
_REST_QUOTED = re.compile(r"^>>> ", re.MULTILINE)
_QUOTE = re.compile(r"> ?(.*)")
_HEADING = re.compile(r"(#{1,3}|-#) +(.+)")
_ITEM = re.compile(r"( *)([-*]|\d{1,9}\.) +(.+)")
# What Discord writes by its id. In a verbose pattern.
NAMED = r"""
    (?P<person><@!?(?P<person_id>\d{1,20})>)
    | (?P<role><@&\d+>)
    | (?P<channel><\#(?P<channel_id>\d{1,20})>)
    | (?P<emoji><a?:\w+:\d+>)
    | (?P<time><t:(?P<seconds>-?\d{1,10})(?::[tTdDfFR])?>)
    | (?P<command></(?P<command_name>[^:<>]+):\d+>)
"""
_INLINE = re.compile(
    rf"""
    (?P<escaped>\\[^\w\s])
    | (?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))
    | (?P<link>\[(?P<label>[^\[\]\n]+)\]\(<?(?P<to>https?://[^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?\))
    | (?P<address><https?://[^\s<>]+>|https?://[^\s<>]*[^\s<>.,;:!?'"*_~|)\]])
    | {NAMED}
    | (?P<strong>\*\*(?!\*\*).+?\*\*(?!\*))
    | (?P<u>__(?!__).+?__(?!_))
    | (?P<s>~~.+?~~)
    | (?P<spoiler>\|\|.+?\|\|)
    | (?P<em>\*(?![\s*]).+?(?<![\s*])\*(?!\*)|\b_[^_].*?_\b)
    """,
    re.VERBOSE | re.DOTALL,
)


def to_html(text: str, look: Look) -> Markup:
    """A message as HTML: blocks, one below the other."""
    return Markup("").join(_with_fences(text.strip("\n"), look))


def _with_fences(text: str, look: Look) -> Iterator[Markup]:
    end = 0
    for fence in _FENCE.finditer(text):
        yield _blocks(text[end : fence.start()], look)
        yield Markup("<pre><code>{}</code></pre>").format(fence[2].strip("\n"))
        end = fence.end()
    yield _blocks(text[end:], look)


def _blocks(text: str, look: Look) -> Markup:
    if rest := _REST_QUOTED.search(text):
        quoted = Markup("<blockquote>{}</blockquote>").format(_by_lines(text[rest.end() :], look))
        return _by_lines(text[: rest.start()], look) + quoted
    return _by_lines(text, look)


def _by_lines(text: str, look: Look) -> Markup:
    kinds = groupby(text.split("\n"), key=_kind)
    return Markup("").join(_BLOCKS[kind](list(lines), look) for kind, lines in kinds)


def _kind(line: str) -> str:
    if not line.strip():
        return "nothing"
    if line.startswith(("> ", ">\n")) or line == ">":
        return "quote"
    if item := _ITEM.fullmatch(line):
        return "ol" if item[2][0].isdigit() else "ul"
    return "heading" if _HEADING.fullmatch(line) else "paragraph"


def _nothing(lines: list[str], look: Look) -> Markup:
    return Markup("")


def _quote(lines: list[str], look: Look) -> Markup:
    inner = "\n".join(_QUOTE.sub(r"\1", line, count=1) for line in lines)
    return Markup("<blockquote>{}</blockquote>").format(_paragraph(inner.split("\n"), look))


def _heading(lines: list[str], look: Look) -> Markup:
    found = [_HEADING.fullmatch(line) for line in lines]
    return Markup("").join(
        Markup('<p class="{}">{}</p>').format("subtext" if match[1] == "-#" else "heading", inline(match[2], look))
        for match in found
        if match
    )


def _list(tag: str) -> Callable[[list[str], Look], Markup]:
    def render(lines: list[str], look: Look) -> Markup:
        items = [match for match in map(_ITEM.fullmatch, lines) if match]
        start = Markup(' start="{}"').format(int(items[0][2][:-1])) if tag == "ol" else ""
        inner = Markup("").join(
            Markup("<li{}>{}</li>").format(Markup(' class="deeper"') if len(item[1]) > 1 else "", inline(item[3], look))
            for item in items
        )
        return Markup("<{0}{1}>{2}</{0}>").format(tag, start, inner)

    return render


def _paragraph(lines: list[str], look: Look) -> Markup:
    return Markup("<p>{}</p>").format(inline("\n".join(lines), look))


_BLOCKS: Mapping[str, Callable[[list[str], Look], Markup]] = {
    "nothing": _nothing,
    "quote": _quote,
    "heading": _heading,
    "ul": _list("ul"),
    "ol": _list("ol"),
    "paragraph": _paragraph,
}


def inline(text: str, look: Look, *, linked: bool = False) -> Markup:
    """The text of one block; `linked`: it is a link's label, which has no link in it. A mark ends at the next of its
    kind, so marks within marks are as deep as there are kinds of them."""
    found, end = Markup(""), 0
    for match in _INLINE.finditer(text):
        found += _lines(text[end : match.start()]) + _marked(match, look, linked)
        end = match.end()
    return found + _lines(text[end:])


def _marked(match: re.Match[str], look: Look, linked: bool) -> Markup:
    kind, whole = match.lastgroup, match[0]
    if kind in ("strong", "u", "s"):
        return Markup("<{0}>{1}</{0}>").format(kind, inline(whole[2:-2], look, linked=linked))
    if kind == "em":
        return Markup("<em>{}</em>").format(inline(whole[1:-1], look, linked=linked))
    if kind == "spoiler":
        hidden = inline(whole[2:-2], look, linked=linked)
        return Markup('<span class="spoiler" tabindex="0" title="Spoiler">{}</span>').format(hidden)
    if kind == "code":
        return Markup("<code>{}</code>").format(whole.strip("`").strip())
    if kind in ("link", "address"):
        return _lines(whole) if linked else _link(match, look)
    return _named(match, look)


def _named(match: re.Match[str], look: Look) -> Markup:
    name = name_of(match, look)
    return _mention(name) if match.lastgroup in ("person", "role", "channel", "command") else escape(name)


def name_of(match: re.Match[str], look: Look) -> str:
    """A match of NAMED, by its name; of an escaped character, that character."""
    match match.lastgroup:
        case "person":
            return "@" + look.people.get(int(match["person_id"]), "somebody")
        case "role":
            return "@role"
        case "channel":
            return "#" + look.channels.get(int(match["channel_id"]), "channel")
        case "command":
            return "/" + match["command_name"]
        case "time":
            at = datetime.fromtimestamp(int(match["seconds"]), look.zone)
            return f"{at.day} {at:%B %Y, %H:%M}"
        case "emoji":
            return emoji_name(match[0])
    return match[0][1:]


def _mention(name: str) -> Markup:
    return Markup('<span class="mention">{}</span>').format(name)


def _link(match: re.Match[str], look: Look) -> Markup:
    address = match["to"] or match[0].strip("<>")
    label = inline(match["label"], look, linked=True) if match["label"] else escape(address)
    return Markup('<a href="{}" target="_blank" rel="noopener noreferrer nofollow">{}</a>').format(address, label)


def _lines(text: str) -> Markup:
    return escape(text).replace("\n", Markup("<br>"))
