"""How strongly a conversation calls for an agent, from what code can see; no model is asked.

A pull is a sum of parts, each with its cause in plain words. What concerns an agent counts in the newest message, and
half as much in each one before it that the agent has not answered.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from agent_coordinator.policies.scene import Message, Scene
from agent_coordinator.policies.speakers import Speaker
from agent_coordinator.text_signals import content_words, in_common
from agentic.state.pulls import Pull, PullPart

NAMED = 1.0
NAME_ASKED = 0.4  # more, where it is in a question
REPLIED_TO = 1.0
SUBJECT = 0.7
SUBJECT_ASKED = 0.3  # more, where it is a question
OWN_WORDS = 0.12  # each, of what it has talked about
MOST_OWN_WORDS = 3
DISPUTED = 0.5
ASKED_BACK = 0.4
SHARE = 0.2  # for each message that it is behind its share
MOST_BEHIND = 2.0  # messages
WAITED = 0.05  # for each message since its last
MOST_WAITED = 6  # messages
DUTY = 0.3
CHANCE = 0.05  # at most
SILENCE_FACTOR = 0.6  # of the channel's pull, for each turn since the newest message that left none
MESSAGES_FELT = 3
FADING = 0.5

DEFAULT_TALKATIVENESS = 0.5  # of agents whose persona says nothing
LEAST_TALKATIVENESS = 0.05  # one that has 0 speaks when it is called
BY_CHANCE = "chance"
BEHIND, AHEAD, HAS_WAITED = "has said less than its share", "has said its share", "has not spoken for a while"
REST = "began the conversation, which came to rest"
CALLS_NOBODY = frozenset({BY_CHANCE, BEHIND, AHEAD, HAS_WAITED, REST})
LEAST_CALL = 0.2  # of what is in messages

_Cause = tuple[str, str, float]  # what it is, in words, its amount


def pulls_of(
    candidates: Sequence[Speaker],
    all_speakers: Sequence[Speaker],
    scene: Scene,
    silences: int,
    rng: random.Random | None = None,
) -> tuple[Pull, ...]:
    """The pulls of the candidates, the strongest first; without `rng` there is no chance in them."""
    channel = SILENCE_FACTOR**silences
    pulls = [_pull(each, scene, behind(each.name, all_speakers, scene.posts), channel, rng) for each in candidates]
    return tuple(sorted(pulls, key=lambda pull: -pull.strength))


def reason_for(pull: Pull) -> str | None:
    """Name the strongest part but chance."""
    strongest = max((part for part in pull.parts if part.why != BY_CHANCE), key=lambda part: part.amount, default=None)
    return strongest.why if strongest is not None and strongest.amount > 0 else None


def is_called(pull: Pull) -> bool:
    """Whether something in the messages calls for the agent."""
    return sum(part.amount for part in pull.parts if part.why not in CALLS_NOBODY) >= LEAST_CALL


def behind(agent: str, speakers: Sequence[Speaker], posts: Mapping[str, int]) -> float:
    """How many messages the agent is behind its share of the conversation, by talkativeness; negative: ahead."""
    talkativeness = {each.name: _talkativeness(each) for each in speakers}
    share = talkativeness[agent] / sum(talkativeness.values())
    return share * (sum(posts.values()) + 1) - posts.get(agent, 0)


def _pull(speaker: Speaker, scene: Scene, behind_by: float, channel: float, rng: random.Random | None) -> Pull:
    parts = [*_of_messages(speaker, scene), *_of_balance(speaker, scene, behind_by)]
    if rng is not None:
        parts.append(PullPart(why=BY_CHANCE, amount=rng.random() * CHANCE))
    parts = [part.model_copy(update={"amount": round(part.amount, 3)}) for part in parts if part.amount]
    strength = round(sum(part.amount for part in parts) * channel, 3)
    return Pull(agent=speaker.name, strength=strength, parts=tuple(parts), channel=round(channel, 3))


def _of_messages(speaker: Speaker, scene: Scene) -> Iterator[PullPart]:
    """Count each cause once, where it is strongest: a name in three messages does not call thrice."""
    strongest: dict[str, PullPart] = {}
    for age, message in enumerate(scene.unseen(speaker.name)[:MESSAGES_FELT]):
        for cause, why, amount in (*_of_address(speaker, message), *_of_words(speaker, scene, message)):
            faded = amount * FADING**age
            if cause not in strongest or faded > strongest[cause].amount:
                strongest[cause] = PullPart(why=why, amount=faded)
    yield from strongest.values()
    yield from _of_dispute(speaker, scene)


def _of_address(speaker: Speaker, message: Message) -> Iterator[_Cause]:
    if speaker.name in message.names:
        if message.asks_for(speaker):
            yield "named", f"asked by {_author(message)}", NAMED + NAME_ASKED
        else:
            yield "named", f"named by {_author(message)}", NAMED
    if message.replied_to == speaker.name:
        yield "replied to", "a person replied to it", REPLIED_TO


def _of_words(speaker: Speaker, scene: Scene, message: Message) -> Iterator[_Cause]:
    subject = _subject(speaker, message)
    if subject is not None:
        why = f"asked a question about {subject}, its subject" if message.asks else f"{subject} is its subject"
        yield "subject", why, SUBJECT + (SUBJECT_ASKED if message.asks else 0.0)
    recent = len(in_common(message.words, scene.own_words(speaker.name, message)))
    if recent:
        yield "words", "it has talked about this", OWN_WORDS * min(recent, MOST_OWN_WORDS)


def _subject(speaker: Speaker, message: Message) -> str | None:
    """The interest that the message is about. All words of an interest are in it, or forms of them."""
    for interest in speaker.interests:
        words = content_words(interest)
        if words and len(in_common(words, message.words)) == len(words):
            return interest
    return None


def _of_dispute(speaker: Speaker, scene: Scene) -> Iterator[PullPart]:
    """Somebody answered the agent's last message with a contradiction, or with a question."""
    if len(scene.messages) < 2 or scene.messages[-2].agent != speaker.name or scene.messages[-1].agent == speaker.name:
        return
    newest = scene.messages[-1]
    if newest.disagrees:
        yield PullPart(why=f"contradicted by {_author(newest)}", amount=DISPUTED)
    elif newest.asks and not newest.names:
        yield PullPart(why=f"asked about its words by {_author(newest)}", amount=ASKED_BACK)


def _of_balance(speaker: Speaker, scene: Scene, behind_by: float) -> Iterator[PullPart]:
    bounded = max(-MOST_BEHIND, min(MOST_BEHIND, behind_by))
    yield PullPart(why=BEHIND if bounded > 0 else AHEAD, amount=SHARE * bounded)
    waited = len(scene.unseen(speaker.name))
    yield PullPart(why=HAS_WAITED, amount=WAITED * min(waited, MOST_WAITED))
    if scene.lull and speaker.name == scene.starter:
        yield PullPart(why=REST, amount=DUTY)


def _author(message: Message) -> str:
    return message.author or "a person"


def _talkativeness(speaker: Speaker) -> float:
    own = DEFAULT_TALKATIVENESS if speaker.talkativeness is None else speaker.talkativeness
    return max(own, LEAST_TALKATIVENESS)
