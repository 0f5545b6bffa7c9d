"""Idle tasks by a scripted voice: a summary and topics from what was said, and a line in place of news.

A voice cannot look anything up, and says so: what it posts unasked only shows when and how such a message comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from agentic.local.voices.phrases import capital, phrase, plain
from agentic.local.voices.topics import read_topic

MOST_TOPICS = 5
MAX_QUOTE = 90  # characters

_NEWS = "About “{x}”: this is where I would say what is new. A scripted voice cannot look it up, a model can."


def written(labels: Mapping[str, str]) -> str:
    """The text of the task in the label `reflection`: a summary, or a person's topics, one a line."""
    said = [(name, plain(text)) for name, colon, text in map(_parts, labels.get("material", "").splitlines()) if colon]
    if labels.get("reflection") == "profile":
        return "\n".join(_topics([text for name, text in said if name == labels.get("person")])) or "none"
    return _summary(said) if said else "Nothing was said."


def news(query: str) -> str:
    """A line about what a model would have looked up."""
    return _NEWS.format(x=phrase(plain(query), MAX_QUOTE) or "what you like to talk about")


def _summary(said: list[tuple[str, str]]) -> str:
    (first, began), (last, ended) = said[0], said[-1]
    others = [name for name in dict.fromkeys(name for name, _ in said) if name != first]
    whom = f" with {' and '.join(others)}" if others else ""
    closing = f" Last {last} said: “{phrase(ended, MAX_QUOTE)}”." if len(said) > 1 else ""
    return f"{first} talked{whom} about “{phrase(began, MAX_QUOTE)}”.{closing}"


def _topics(texts: list[str]) -> list[str]:
    """The words that stand out most often, the longer ones first among equals."""
    counts = Counter(word.lower() for text in texts for word in read_topic(text).words)
    ranked = sorted(counts, key=lambda word: (-counts[word], -len(word), word))
    return [capital(word) for word in ranked[:MOST_TOPICS]]


def _parts(line: str) -> tuple[str, str, str]:
    return line.strip().partition(": ")
