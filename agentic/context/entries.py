"""Entry: a message of a channel as plain values; whether bots see it; and strangers' text made harmless.

Structure tells speakers apart in a transcript (render.py): a mark at the margin begins a message, and notes in brackets
are the program's. So strangers' text must not reach the margin, contain such marks or notes, or hide anything, since
invisible characters can carry instructions that no person sees. `words` and `one_line` keep the rest. `poses` and
`reads_as_label` recognize names that look like an agent's or like a label of the program.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from agentic.context.commands import Order, is_whole_command, parse_m

Kind = Literal["agent", "person", "stranger"]  # a stranger is another bot or webhook

HIDE_MARKS = ("🙃", "🫥")
SHOW_MARK = "👁\u200d🗨"  # as Discord tells it, with or without the variation selectors
_SELECTOR = "\ufe0f"
_MENTIONS = re.compile(r"\A(?:\s*<(?:@[!&]?|#)\d{1,20}>[ \t]*[,:]?)*\s*")
_M_COMMAND = re.compile(r"m[ \t]+\w|M[ \t]+(?i:continue|context)\b")
_SHOWN_M_COMMAND = re.compile(r"\A\s*(?:@[^\n]{0,200}?\s)?(?:m[ \t]+\w|M[ \t]+(?i:continue|context)\b)")

# Zero width, direction and tag characters, and the selectors beyond the one of emoji (U+FE0F); joiners stay.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0d\ufeff"
    "\U000e0000-\U000e01ef]"
)
_OPENING = "[\\[\uff3b\u3010\u3014\u27e6\u2045]"
_MARK = re.compile(_OPENING + r"(?=\s*(?:(?:msg|note)\s*[:\uff1a]|(?:tool|summary)\s*[\]\uff3d]))", re.IGNORECASE)
_MARK_OR_NOTE = re.compile(
    _OPENING
    + r"(?=\s*(?:(?:msg|note|reactions|picture|file|posted\s+image|sticker|poll|poll\s+result|components|embed|event"
    r"|link\s+preview|voice\s+message|forwarded\s[\w\s]{1,20})\s*[:\uff1a]|(?:tool|summary)\s*[\]\uff3d]))",
    re.IGNORECASE,
)
_BRACKETS = str.maketrans("[]\uff3b\uff3d\u3010\u3011", "()()()")

# Letters of other scripts, and digits, that look like the Latin letters of agents' names (unicode.org/reports/tr39,
# confusables.txt); i and l are the same.
_FANCY = re.compile(
    r"(?:LATIN LETTER SMALL CAPITAL|(?:CROSSED )?NEGATIVE (?:CIRCLED|SQUARED) LATIN CAPITAL LETTER"
    r"|REGIONAL INDICATOR SYMBOL LETTER|LATIN (?:SMALL|CAPITAL) LETTER(?= [A-Z] WITH)) ([A-Z])(?: WITH .*)?"
)
_CAPITALS = str.maketrans("\u041d\u0397\u039d", "hhn")  # their small forms look like others
_LOOKALIKES = str.maketrans(
    # Cyrillic, Greek, Latin and Armenian, Cherokee, Lisu, digits
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u043a\u043c\u0442\u0433\u04cf\u04bb\u043d"
    "\u03b1\u03bf\u03c5\u03b9\u03ba\u03bd\u03c1\u03c4\u03b5\u03c7\u03b7\u03bc\u03f2"
    "\u0131\u0261\u0251\u0269\u217c\u0581\u0585\u057d\u0578"
    "\u13df\u13de\u13aa\u13ac\u13c0\u13b7\u13a2"
    "\ua4da\ua4e1\ua4ee\ua4f0\ua4d6\ua4f3\ua4d3\ua4d7\ua4e3\ua4d1\ua4d4\ua4f4"
    "01i",
    "aeopcyxijsdqwkmtrlhhaouikvptexnmclgallgounclaegmlclaegodkrptuoll",
)
_END = re.compile(r"[\W\d_]+\Z")
_FIRST_WORD = re.compile(r"\W*(?:the\W+)?([^\W\d_]+)", re.IGNORECASE)
_OWN_LABELS = (
    *("System", "System message", "System prompt", "System note", "Assistant", "User", "Human", "You"),
    *("Developer", "Tool", "Tools", "Tool result", "Tool results", "Function", "Note", "Notes", "Summary"),
)


@dataclass(frozen=True, slots=True)
class Speaker:
    """The author of a message. `agent`: the key of one of our agents ("claude"), or None. `audience`: a person in a
    room of agents. `roles` and `may_manage` (Manage Messages in its channel) decide which commands they may use;
    empty if unknown. `webhook`: the message came through a webhook, ours or someone else's."""

    id: int
    name: str
    kind: Kind
    agent: str | None = None
    audience: bool = False
    roles: frozenset[int] = frozenset()
    may_manage: bool = False
    webhook: bool = False

    @property
    def is_service(self) -> bool:
        """Whether the chat service itself reports something, such as a join or a boost."""
        return self.kind == "stranger" and self.id == 0


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file attached to a message. `size` is in bytes; `media_type` as the service reports it, "" if unknown."""

    id: int
    filename: str
    url: str
    size: int
    media_type: str = ""

    @property
    def is_picture(self) -> bool:
        """Whether it is said to be a picture, by its media type or, without one, by its name."""
        if self.media_type in ("", "application/octet-stream"):
            return self.filename.lower().endswith((".png", ".jpg", ".jpeg", ".gif", ".webp"))
        return self.media_type.startswith("image/") and self.media_type != "image/svg+xml"


@dataclass(frozen=True, slots=True)
class Reaction:
    """One emoji on a message. `by`: the known names of the people and bots who reacted. `count`: from the service.
    `by_person`: False if only bots are known to have reacted."""

    emoji: str
    by: tuple[str, ...] = ()
    count: int = 1
    by_person: bool = True


@dataclass(frozen=True, slots=True)
class Addressees:
    """Who a message calls: ids of mentioned users and roles, and the author of the message it replies to."""

    mentions: frozenset[int] = frozenset()
    replied_to: int | None = None

    def has(self, user_id: int) -> bool:
        return user_id in self.mentions or self.replied_to == user_id

    def __iter__(self) -> Iterator[int]:
        yield from self.mentions
        if self.replied_to is not None:
            yield self.replied_to


NOBODY_CALLED = Addressees()


@dataclass(frozen=True, slots=True)
class Entry:
    """One message. `created_at` is in unix seconds. In `text`, mentions, channels and roles are already names.

    `hidden`: its own text hides it (a command, or text not meant for bots); a reaction may show or hide a message too
    (`visible`). `order`: the stop order that it is. `parts`: the messages joined into this one, the first included
    (history.py); empty for a single message. `extras`: a forward, a sticker, a poll, or an embed, one line each
    ("sticker: Wave"), in strangers' words. `private`: it is in a chat of one person with an agent.
    """

    id: int
    speaker: Speaker
    text: str
    created_at: float
    reply_to: int | None = None
    attachments: tuple[Attachment, ...] = ()
    extras: tuple[str, ...] = ()
    reactions: tuple[Reaction, ...] = field(default=())
    edited: bool = False
    addressees: Addressees = NOBODY_CALLED
    hidden: bool = False
    pinned: bool = False
    parts: tuple[Entry, ...] = ()
    private: bool = False
    order: Order | None = None

    def __post_init__(self) -> None:
        # Checked here once, not at each turn, and for sources that only have the text: an edit, a record.
        if not self.hidden and hidden_by_text(self.text, private=self.private):
            object.__setattr__(self, "hidden", True)

    @property
    def units(self) -> tuple[Entry, ...]:
        """The channel's messages behind this entry: its parts, or itself."""
        return self.parts or (self,)

    def with_addresses(self, addresses: Mapping[int, str]) -> Entry:
        """Return the message with other addresses for these files, by file id."""
        files = (replace(file, url=addresses.get(file.id, file.url)) for file in self.attachments)
        return replace(self, attachments=tuple(files))


def units_of(entries: Iterable[Entry]) -> list[Entry]:
    """Return the channel's messages behind these entries."""
    return [unit for entry in entries for unit in entry.parts or (entry,)]


def hidden_by_text(raw: str, *, private: bool = False) -> bool:
    """Whether a message hides itself: with a period after mentions (but not `..` and `...`, which people write), with
    🙃 or 🫥, or as an `m ` command. In a `private` chat only a complete command does, since people write only to the
    bot. `raw`: its content as Discord sends it, mentions as `<@1>`."""
    if private:
        return parse_m(raw) is not None or is_whole_command(raw)
    if raw[:1].isalnum() and raw[0] not in "mM":  # as most messages begin
        return False
    text = _MENTIONS.sub("", raw, count=1)
    if text.startswith(".") and not text.startswith(".."):
        return True
    return text.startswith(HIDE_MARKS) or _M_COMMAND.match(text) is not None


def visible(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that bots see (stage 3)."""
    return [entry for entry in entries if (is_visible(entry) if entry.reactions else not entry.hidden)]


def is_visible(entry: Entry) -> bool:
    """Whether bots see a message. Its own text may hide it (`hidden_by_text`), and so may a person's 🙃 or 🫥 reaction,
    even on a bot's message. A person's 👁️‍🗨️ shows it again, except for an `m ` command. Bots' reactions change
    nothing."""
    if not entry.reactions:
        return not entry.hidden
    marks = {reaction.emoji.replace(_SELECTOR, "") for reaction in entry.reactions if reaction.by_person}
    if SHOW_MARK in marks:
        return not (entry.hidden and _SHOWN_M_COMMAND.match(entry.text))
    return not entry.hidden and marks.isdisjoint(HIDE_MARKS)


def is_mark(emoji: str) -> bool:
    """Whether a person's reaction with this emoji hides or shows a message."""
    return emoji.replace(_SELECTOR, "") in (*HIDE_MARKS, SHOW_MARK)


def words(text: str, *, own_notes: bool = False) -> str:
    """Return a message's text, sanitized. `own_notes`: its notes are the program's, as in an agent's messages."""
    if text.isascii() and "[" not in text and text.isprintable():
        return text
    return (_MARK if own_notes else _MARK_OR_NOTE).sub("(", _UNSEEN.sub("", text))


def one_line(text: str, limit: int) -> str:
    """Return a short text (a file's name, a topic) on one line of at most `limit` characters, without brackets."""
    return " ".join(_UNSEEN.sub("", text).translate(_BRACKETS).split())[:limit].rstrip()


@lru_cache(maxsize=4096)
def skeleton(name: str) -> str:
    """Return the same text for names that look alike: by case, width, accents, look-alikes, or separators (UTS 39)."""
    # the Unicode names of letters in fancy type (ꜱ, 🅢, 🇸, ø) name the plain letter
    fancy = (_FANCY.fullmatch(unicodedata.name(char, "")) if char > "\x7f" else None for char in name)
    plain = "".join(found[1] if found else char for char, found in zip(name, fancy, strict=True))
    plain = unicodedata.normalize("NFKC", plain).translate(_CAPITALS).casefold()
    plain = unicodedata.normalize("NFKD", plain)
    # Twice: a look-alike may be one of an "i".
    plain = plain.translate(_LOOKALIKES).translate(_LOOKALIKES)
    return "".join(char for char in plain if char.isalnum())


def poses(name: str, agents: Iterable[str]) -> bool:
    """Whether a name looks like, or contains, one of these skeletons: "CLAUDE", "C1aude", "Claude bot"."""
    alike = skeleton(name)
    return bool([agent for agent in agents if agent and agent in alike])


@lru_cache(maxsize=4096)
def reads_as_label(name: str) -> bool:
    """Whether a name reads as one of the program's own labels: "SYSTEM", "S-y-s-t-e-m", "Ｓystem 2", "System admin"."""
    if skeleton(name) in RESERVED or skeleton(_END.sub("", name)) in RESERVED:
        return True
    first = _FIRST_WORD.match(unicodedata.normalize("NFKC", name))
    return first is not None and skeleton(first[1]) == skeleton("System")


RESERVED = frozenset(map(skeleton, _OWN_LABELS))
"""The skeletons of words with which the program, or a model's own format, says who is speaking."""
