"""The policy `pull`: after each message, the agent with the highest score gets the turn.

Code computes the score, without a model, as a sum of parts. Each part has its cause in plain words. Something that
concerns an agent has full weight in the newest message, and half in each message before it that the agent hasn't
answered.

If nothing calls for anyone in particular, the chosen agent is given a suggested topic: without one, models skip half of
such turns. Nobody speaks twice in a row. A round has as many turns as there are agents. It ends early after two turns
in a row without a message, or after one if nothing calls for anyone else, but not while the starter has no answer. A
person's message cancels all of that and gets an answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import ClassVar

from agent_coordinator.policies.policy import SPEAKERS_NEEDED, Choice, ConversationPolicy
from agent_coordinator.text_signals import DISAGREEMENT, asks, questions, says
from agentic.state.conversation_state import AgentCounts, ConversationState
from agentic.state.conversations import ScorePart, SpeakerScore
from agentic.state.rooms import RoomMember
from agentic.subject import content_words, in_common
from agentic.text import names_in
from agentic.wire.reasons import EndReason

MESSAGES_READ = 12
MAX_SILENCES = 2  # turns in a row
MIN_SCORE = 0.4  # after a turn without a message
SUGGESTED_TOPIC = (
    "something that keeps the conversation going, such as a question to one of the others, by name, or a subject of "
    "your own"
)

# Weights of a score's parts
NAMED = 1.0
NAME_ASKED = 0.4  # added, if the name is in a question
REPLIED_TO = 1.0
SUBJECT = 0.7
SUBJECT_ASKED = 0.3  # added, if the message is a question
OWN_WORDS = 0.12  # for each word that it has used, too
MAX_OWN_WORDS = 3
DISPUTED = 0.5
ASKED_BACK = 0.4
SHARE = 0.2  # for each message by which it is behind its share
MAX_BEHIND = 2.0  # messages
WAITED = 0.05  # for each message since its last
MAX_WAITED = 6  # messages
DUTY = 0.3
CHANCE = 0.05  # at most
SILENCE_FACTOR = 0.6  # of the channel's score, for each turn without a post since the newest message
MESSAGES_FELT = 3
FADING = 0.5

DEFAULT_TALKATIVENESS = 0.5  # if the persona doesn't set it
MIN_TALKATIVENESS = 0.05  # an agent with 0 still speaks when it is called
BY_CHANCE = "chance"
BEHIND, AHEAD, HAS_WAITED = "has said less than its share", "has said its share", "hasn't spoken for a while"
REST = "began the conversation, which came to rest"
CALLS_NOBODY = frozenset({BY_CHANCE, BEHIND, AHEAD, HAS_WAITED, REST})
MIN_CALL = 0.2  # sum of the parts that come from messages


@dataclass(frozen=True, slots=True)
class PullPolicy(ConversationPolicy):
    """`speakers`: the agents, in the same order."""

    chooses_each_turn: ClassVar[bool] = True

    speakers: tuple[RoomMember, ...] = ()

    def opening(self, starter: str, rng: random.Random) -> Choice:
        return Choice((starter,), because="begins the conversation")

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        begins, scene = self._round_is_over(state), scene_of(state, self.speakers)
        silences = 0 if begins else _silences(state)
        # if everyone has had a chance: anyone but the last speaker
        others = tuple(each for each in self.speakers if each.name != state.talk.last_speaker)
        candidates = self._available(state) or others or self.speakers
        scores = score_speakers(candidates, self.speakers, scene, silences, rng)
        suggested_topic = None if is_called(scores[0]) or state.person_waits or not state.is_opened else SUGGESTED_TOPIC
        return Choice((scores[0].agent,), begins, reason_for(scores[0]), scores, suggested_topic)

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """End only after a round, and not while a person waits: if the round had no message, or only one agent has
        spoken at all; otherwise by length, as in rounds."""
        if state.counts.agreed_to_end:
            return "agreed"
        if state.queue.pending or not self._round_is_over(state):
            return None
        if not state.is_opened:
            return "nobody_opened"
        if not state.counts.spoke:
            return "most_skipped"
        if not _is_talk(state):
            return "too_few_spoke"
        return self.by_length(state, rng)

    def _round_is_over(self, state: ConversationState) -> bool:
        candidates = self._available(state)
        if not candidates:
            return True
        if state.person_waits:
            return False
        if state.counts.turns >= len(self.speakers):
            return True
        if state.is_opened and not _is_talk(state):
            return False
        silences = _silences(state)
        if silences >= MAX_SILENCES:
            return True
        if not (state.is_opened and silences):
            return False
        scores = score_speakers(candidates, self.speakers, scene_of(state, self.speakers), silences)
        return scores[0].strength < MIN_SCORE

    def _available(self, state: ConversationState) -> tuple[RoomMember, ...]:
        """Return the speakers without those who have had a turn since the newest message, and without those that a
        person has just called, who answer anyway. An agent that was late in this round is asked again only for a
        person."""
        heard = state.heard[-1] if state.heard else None
        out = {*state.counts.silent, *state.counts.missing}
        if heard is None or heard.after < state.counts.messages:
            out |= {state.talk.last_speaker or "", *state.counts.unheard}
        if heard is not None and heard.calls and heard.after >= state.counts.messages - 1:
            out |= {*heard.names, heard.replied_to or ""}
        return tuple(each for each in self.speakers if each.name not in out)


def _is_talk(state: ConversationState) -> bool:
    """Whether at least two agents have spoken."""
    return sum(tally.messages > 0 for tally in state.counts.agents.values()) >= SPEAKERS_NEEDED


def _silences(state: ConversationState) -> int:
    """Count the turns without a post since the newest message, without absent agents."""
    return sum(agent not in state.counts.missing for agent in state.counts.silent)


@dataclass(frozen=True, slots=True)
class Message:
    """`agent` wrote it (None: a person, whose displayed name is `author`). `names`: the agents that it names;
    `replied_to`: the agent that it replies to."""

    text: str
    words: frozenset[str]
    agent: str | None = None
    author: str | None = None
    names: tuple[str, ...] = ()
    replied_to: str | None = None

    @property
    def asks(self) -> bool:
        return asks(self.text)


@dataclass(frozen=True, slots=True)
class Scene:
    """`messages`: the last ones, oldest first. `posts`: agent → how many it has posted in the conversation."""

    messages: tuple[Message, ...]
    posts: Mapping[str, int]
    starter: str | None = None
    lull: bool = False  # the last round ended in silence

    def unseen(self, agent: str) -> tuple[Message, ...]:
        """Return the messages since the agent's last one, the newest first."""
        return tuple(takewhile(lambda message: message.agent != agent, reversed(self.messages)))

    def own_words(self, agent: str, besides: Message) -> frozenset[str]:
        """Return the words that only the agent's messages have. `besides` is left out."""
        own, others = set[str](), set[str]()
        for message in self.messages:
            if message is not besides:
                (own if message.agent == agent else others).update(message.words)
        return frozenset(own - others)


def scene_of(state: ConversationState, speakers: tuple[RoomMember, ...]) -> Scene:
    shown = {speaker.name: speaker.shown for speaker in speakers}
    posts = state.talk.history[-MESSAGES_READ:]
    first = max(0, state.counts.messages - len(posts))
    placed: list[tuple[int, int, Message]] = []
    for at, post in enumerate(posts):
        author = shown.get(post.agent, post.agent)
        message = Message(post.text, content_words(post.text), post.agent, author, names_in(post.text, shown))
        placed.append((first + at + 1, 0, message))
    for heard in (each for each in state.heard if each.after >= first):
        names = tuple(dict.fromkeys((*heard.names, *names_in(heard.text, shown))))
        message = Message(heard.text, content_words(heard.text), names=names, replied_to=heard.replied_to)
        placed.append((heard.after, 1, message))
    placed.sort(key=lambda entry: entry[:2])
    counts = {each.name: state.counts.agents.get(each.name, AgentCounts()).messages for each in speakers}
    starter = state.talk.history[0].agent if state.talk.history else None
    messages = tuple(message for *_, message in placed)[-MESSAGES_READ:]
    return Scene(messages, counts, starter, lull=len(state.counts.silent) > 1)


def score_speakers(
    candidates: Sequence[RoomMember],
    all_speakers: Sequence[RoomMember],
    scene: Scene,
    silences: int,
    rng: random.Random | None = None,
) -> tuple[SpeakerScore, ...]:
    """Return the candidates' scores, the strongest first. Without `rng`, they have no random part."""
    channel = SILENCE_FACTOR**silences
    scores = [_score(each, scene, behind(each.name, all_speakers, scene.posts), channel, rng) for each in candidates]
    return tuple(sorted(scores, key=lambda score: -score.strength))


def reason_for(score: SpeakerScore) -> str | None:
    """Return the strongest part's cause, other than chance."""
    strongest = max((part for part in score.parts if part.why != BY_CHANCE), key=lambda part: part.amount, default=None)
    return strongest.why if strongest is not None and strongest.amount > 0 else None


def is_called(score: SpeakerScore) -> bool:
    """Whether messages call for the agent."""
    return sum(part.amount for part in score.parts if part.why not in CALLS_NOBODY) >= MIN_CALL


def behind(agent: str, speakers: Sequence[RoomMember], posts: Mapping[str, int]) -> float:
    """Return by how many messages the agent is behind its share, set by talkativeness; negative if ahead."""
    talkativeness: dict[str, float] = {}
    for each in speakers:
        own = DEFAULT_TALKATIVENESS if each.talkativeness is None else each.talkativeness
        talkativeness[each.name] = max(own, MIN_TALKATIVENESS)
    share = talkativeness[agent] / sum(talkativeness.values())
    return share * (sum(posts.values()) + 1) - posts.get(agent, 0)


def _score(
    speaker: RoomMember, scene: Scene, behind_by: float, channel: float, rng: random.Random | None
) -> SpeakerScore:
    # Each cause is added once, at its strongest: a name in three messages isn't three calls.
    strongest: dict[str, ScorePart] = {}
    unseen = scene.unseen(speaker.name)
    for age, message in enumerate(unseen[:MESSAGES_FELT]):
        for cause, why, amount in _causes(speaker, scene, message):
            faded = amount * FADING**age
            if cause not in strongest or faded > strongest[cause].amount:
                strongest[cause] = ScorePart(why=why, amount=faded)
    parts = [*strongest.values(), *_dispute(speaker, scene)]
    bounded = max(-MAX_BEHIND, min(MAX_BEHIND, behind_by))
    parts.append(ScorePart(why=BEHIND if bounded > 0 else AHEAD, amount=SHARE * bounded))
    parts.append(ScorePart(why=HAS_WAITED, amount=WAITED * min(len(unseen), MAX_WAITED)))
    if scene.lull and speaker.name == scene.starter:
        parts.append(ScorePart(why=REST, amount=DUTY))
    if rng is not None:
        parts.append(ScorePart(why=BY_CHANCE, amount=rng.random() * CHANCE))
    parts = [part.model_copy(update={"amount": round(part.amount, 3)}) for part in parts if part.amount]
    strength = round(sum(part.amount for part in parts) * channel, 3)
    return SpeakerScore(agent=speaker.name, strength=strength, parts=tuple(parts), channel=round(channel, 3))


def _causes(speaker: RoomMember, scene: Scene, message: Message) -> Iterator[tuple[str, str, float]]:
    """Yield what in a message calls for the speaker: (cause, cause in words, amount)."""
    author = message.author or "a person"
    if speaker.name in message.names:
        # whether a question in it names the speaker
        if any(names_in(question, {speaker.name: speaker.shown}) for question in questions(message.text)):
            yield "named", f"asked by {author}", NAMED + NAME_ASKED
        else:
            yield "named", f"named by {author}", NAMED
    if message.replied_to == speaker.name:
        yield "replied to", "a person replied to it", REPLIED_TO
    # the first interest whose words, or forms of them, are all in the message
    for interest in speaker.interests:
        words = content_words(interest)
        if words and len(in_common(words, message.words)) == len(words):
            if message.asks:
                yield "subject", f"asked about {interest}, one of its interests", SUBJECT + SUBJECT_ASKED
            else:
                yield "subject", f"{interest} is one of its interests", SUBJECT
            break
    recent = len(in_common(message.words, scene.own_words(speaker.name, message)))
    if recent:
        yield "words", "it has talked about this", OWN_WORDS * min(recent, MAX_OWN_WORDS)


def _dispute(speaker: RoomMember, scene: Scene) -> Iterator[ScorePart]:
    """Yield a part if the reply to the agent's last message contradicts it or asks about it."""
    if len(scene.messages) < 2 or scene.messages[-2].agent != speaker.name or scene.messages[-1].agent == speaker.name:
        return
    newest = scene.messages[-1]
    author = newest.author or "a person"
    if says(newest.text, DISAGREEMENT):
        yield ScorePart(why=f"contradicted by {author}", amount=DISPUTED)
    elif newest.asks and not newest.names:
        yield ScorePart(why=f"asked about its own words by {author}", amount=ASKED_BACK)
