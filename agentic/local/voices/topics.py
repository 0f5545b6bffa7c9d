"""A room's topic, read for the debaters' lines: a question, a claim or a thing; the words that stand out in it. Pure.

| the topic | kind | {topic} | {it} | {side} |
| --- | --- | --- | --- | --- |
| Is P equal to NP? | decided | “Is P equal to NP?” | this question | yes, no |
| Robots will take our jobs | claim | “Robots will take our jobs” | this claim | true, false |
| Remote work | thing | remote work | remote work | for, against |
| What is time? | open | “What is time?” | this question | none |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agentic.local.voices.phrases import plain, words_of

Kind = Literal["decided", "claim", "thing", "open"]

MOST_THING = 6  # words that fit into a sentence
SHORTEST_WORD = 4  # letters of a word that stands out, unless it is written in capitals

_ASKS_YES_OR_NO = words_of(
    "am are is was were do does did can could will would shall should may might must has have had isn't aren't don't"
    " doesn't can't won't shouldn't"
)
_ASKS_OPENLY = words_of("what who whom whose which where when why how what's who's")
_FINITE = _ASKS_YES_OR_NO | words_of("makes make needs need takes take gets get wins win beats beat cannot ought")
_COMMON = _FINITE | _ASKS_OPENLY | words_of(
    "about above after again against also another any around because been before being better between both each else"
    " ever every everybody everyone from good have here into itself just like many more most much need never nobody"
    " nothing often only other over really same some somebody someone something still such than that their them then"
    " there these they thing things think this those through under until very well while with within without your"
)  # fmt: skip
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
SIDES: dict[Kind, tuple[str, str] | None] = {
    "decided": ("yes", "no"), "claim": ("true", "false"), "thing": ("for", "against"), "open": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoomTopic:
    """`name` is the whole topic, in quotation marks unless it is a thing; `it` a noun phrase for it, `words` those that
    stand out."""

    kind: Kind
    name: str
    it: str
    words: tuple[str, ...]

    def side(self, place: int) -> str | None:
        """The side of the member at this place: neighbours differ. None where there are none to take."""
        sides = SIDES[self.kind]
        return sides[place % 2] if sides is not None else None


def read_topic(text: str) -> RoomTopic:
    said = plain(text).strip() or "this"
    words = _WORD.findall(_inside(said))
    kind = _kind(said, [word.lower() for word in words])
    if kind == "thing":
        return RoomTopic(kind, _inside(said), _inside(said), _standing_out(words) or (said,))
    it = "this claim" if kind == "claim" else "this question"
    return RoomTopic(kind, f"“{said}”", it, _standing_out(words) or (said,))


def _kind(said: str, words: list[str]) -> Kind:
    if said.endswith("?") or (words and words[0] in _ASKS_OPENLY):
        decided = bool(words) and words[0] in _ASKS_YES_OR_NO and " or " not in said.lower()
        return "decided" if decided else "open"
    if len(words) <= MOST_THING and not _FINITE.intersection(words):
        return "thing"
    return "claim"


def _inside(said: str) -> str:
    """The topic as it stands inside of a sentence: "Remote work." → "remote work"; NATO and P stay as they are."""
    said = said.rstrip(".!:; ")
    second = said[1:2]
    return said[:1].lower() + said[1:] if second.islower() else said


def _standing_out(words: list[str]) -> tuple[str, ...]:
    telling = (word for word in words if word.lower() not in _COMMON)
    return tuple(dict.fromkeys(word for word in telling if len(word) >= SHORTEST_WORD or word.isupper()))
