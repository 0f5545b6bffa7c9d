"""The rules of a message that nobody asked for: it is wanted, it says something new, and nobody has written meanwhile.

The coordinator has looked at most of this before it gave the task. It is looked at once more here, where the words are
known, right before they are posted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from agentic.agent.agent import Agent, Turn
from agentic.agent.events import ReflectionEvent
from agentic.similarity import says_again
from agentic.turn.decision import Decision
from agentic.wire.link import RedisAway
from agentic.wire.reasons import TurnOver


async def check_wanted(turn: Turn, event: ReflectionEvent) -> None:
    """Raises TurnOver where the person has said no, and where nobody knows: the record may learn of it later. Nor is
    anything written to or about people whom the bots ignore, whose words the record may still have, or on topics that
    somebody who reads there could not know of."""
    person_id = event.person_id
    if is_about_ignored(turn.agent, event) or _tells_more(turn.agent, event):
        raise TurnOver("unwanted")
    try:
        if person_id is not None and not await turn.agent.unasked.is_unwanted(person_id):
            return
    except RedisAway as away:
        raise TurnOver("unwanted") from away
    raise TurnOver("unwanted")


def is_about_ignored(agent: Agent, event: ReflectionEvent) -> bool:
    return any(agent.ignores(person, frozenset()) for person in event.about)


def _tells_more(agent: Agent, event: ReflectionEvent) -> bool:
    return not all(map(agent.sees(event.channel_id), event.reflection.origins))


def check_quiet(turn: Turn, newest: int) -> None:
    """Raises TurnOver where a person wrote in the channel after the message `newest`, the last one in the prompt."""
    if turn.outlet.view.transcript.person_spoke_after(newest):
        raise TurnOver("person_wrote")


def check_unedited(turn: Turn, about: Mapping[int, str]) -> None:
    """Raises TurnOver where one of the messages, with the words that the prompt had, reads otherwise now: an answer may
    have words that their author took back."""
    entries = ((turn.outlet.view.transcript.get(message_id), text) for message_id, text in about.items())
    if any(entry is not None and entry.text != text for entry, text in entries):
        raise TurnOver("edited")


def words_alone(event: ReflectionEvent, decision: Decision) -> Decision:
    """The decision without what else was decided: nobody asked for a picture, and a sign without words says nothing.

    Raises TurnOver for words that say again what was said, or sent unasked, before.
    """
    if decision.skip or not decision.text:
        raise TurnOver("skipped")
    given = event.reflection
    if says_again(decision.text, chain(given.avoid, given.material.splitlines())):
        raise TurnOver("not_new")
    return replace(Decision(), text=decision.text)
