"""What a text's chunks leave out of it, and whether they say anything else."""

from __future__ import annotations

import re

FENCE = "```"
OPENING = re.compile(r"```(?:[A-Za-z0-9_+\-.#]{1,32}\n)?")

MARKS = frozenset("*_~|`>#-")  # what formatting that is cut repeats


def spoken(text: str) -> list[tuple[str, str | None]]:
    """Every visible character that is no mark, with the language of the code block it is in (None outside)."""
    characters: list[tuple[str, str | None]] = []
    at, language = 0, None
    while at < len(text):
        if text.startswith("```", at) and language is None:
            opening = OPENING.match(text, at)
            assert opening
            at, language = opening.end(), opening[0][3:].strip()
        elif text.startswith("```", at):
            at, language = at + 3, None
        else:
            if not text[at].isspace() and text[at] not in MARKS:
                characters.append((text[at], language))
            at += 1
    return characters


def left_out(text: str, chunks: list[str]) -> list[str]:
    """The pieces of the text that stand in no chunk: before the first, between two, behind the last. A fence that was
    put in to close a block, or to open it again in its language, is no part of it; everything else of a chunk must
    stand in the text to the letter, else this raises AssertionError."""
    at, gone = 0, []
    for chunk in chunks:
        body = chunk
        if reopened := opening_of(text, at):
            assert chunk.startswith(reopened), f"{chunk[:40]!r} does not go on with {reopened!r}"
            body = chunk.removeprefix(reopened)
        closed = (body, body.removesuffix(f"\n{FENCE}"), body.removesuffix(FENCE))
        found = next(((text.find(one, at), one) for one in closed if stands(text, at, one)), None)
        assert found is not None, f"{body[:40]!r} … {body[-40:]!r} is not what follows"
        start, said = found
        gone.append(text[at:start])
        at = start + len(said)
        closing = re.compile(rf"\s*{FENCE}").match(text, at)
        if said != body and closing:  # it stands for the text's own
            gone[-1] += text[at : closing.end() - len(FENCE)]
            at = closing.end()
    return [*gone, text[at:]]


def stands(text: str, at: int, said: str) -> bool:
    """Whether this comes next, but for white space."""
    start = text.find(said, at)
    return start >= 0 and not text[at:start].strip()


def opening_of(text: str, at: int) -> str:
    """What opens a block again that is open there; empty where none is."""
    fences = [match.start() for match in re.finditer(FENCE, text) if match.end() <= at]
    if len(fences) % 2 == 0:
        return ""
    opening = OPENING.match(text, fences[-1])
    assert opening is not None
    return opening[0] if opening[0] != FENCE else f"{FENCE}\n"
