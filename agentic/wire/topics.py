"""A person's topics as a text, one a line: as a model lists them, as they travel, as the person writes them."""

from __future__ import annotations

import re

MOST_TOPICS = 30  # of a profile
TOPIC_CHARACTERS = 80

_BULLET = re.compile(r"^\s*(?:[-*•–]+|\d{1,2}[.)](?=\s))")
_AROUND = " .,;*_`\"'"


def topics_in(text: str) -> tuple[str, ...]:
    """The topics of a text, each once, without bullets and what stands around them. Their count and length are free."""
    topics: dict[str, str] = {}
    for line in text.splitlines():
        topic = " ".join(_BULLET.sub("", line).split()).strip(_AROUND)
        if topic:
            topics.setdefault(topic.casefold(), topic)
    return tuple(topics.values())
