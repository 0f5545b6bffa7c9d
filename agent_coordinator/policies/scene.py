"""The last messages of a conversation, agents' and people's in one order, as the policy `pull` reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_coordinator.policies.speakers import Speaker
from agent_coordinator.state import ConversationState, Heard, Said
from agent_coordinator.text_signals import DISAGREEMENT, asks, content_words, questions, says
from agentic.coordination_names import names_in

MESSAGES_READ = 12


@dataclass(frozen=True, slots=True)
class Message:
    """`agent`: its author, None for a person; `author`: that one's shown name. `names`: the agents named in it;
    `replied_to`: the one it replies to."""

    text: str
    words: frozenset[str]
    agent: str | None = None
    author: str | None = None
    names: tuple[str, ...] = ()
    replied_to: str | None = None

    @property
    def asks(self) -> bool:
        return asks(self.text)

    def asks_for(self, speaker: Speaker) -> bool:
        """Whether the speaker is named in a question."""
        return any(names_in(question, {speaker.name: speaker.shown}) for question in questions(self.text))

    @property
    def disagrees(self) -> bool:
        return says(self.text, DISAGREEMENT)


@dataclass(frozen=True, slots=True)
class Scene:
    """`messages`: the last ones, oldest first. `posts`: agent → how many it has posted in the conversation."""

    messages: tuple[Message, ...]
    posts: Mapping[str, int]
    starter: str | None = None
    lull: bool = False  # a round begins after one that ended in silence

    @property
    def newest(self) -> Message | None:
        return self.messages[-1] if self.messages else None

    def unseen(self, agent: str) -> tuple[Message, ...]:
        """The messages since the agent's last one, the newest first."""
        found: list[Message] = []
        for message in reversed(self.messages):
            if message.agent == agent:
                break
            found.append(message)
        return tuple(found)

    def own_words(self, agent: str, besides: Message) -> frozenset[str]:
        """The words of the agent's last messages that no other's have, besides this one's."""
        own, others = set[str](), set[str]()
        for message in self.messages:
            if message is not besides:
                (own if message.agent == agent else others).update(message.words)
        return frozenset(own - others)


def scene_of(state: ConversationState, speakers: tuple[Speaker, ...]) -> Scene:
    counts = {each.name: state.tallies[each.name].messages if each.name in state.tallies else 0 for each in speakers}
    starter = state.history[0].agent if state.history else None
    return Scene(_messages(state, speakers), counts, starter, lull=len(state.silent) > 1)


def _messages(state: ConversationState, speakers: tuple[Speaker, ...]) -> tuple[Message, ...]:
    shown = {speaker.name: speaker.shown for speaker in speakers}
    last = state.history[-MESSAGES_READ:]
    first = max(0, state.messages - len(last))
    placed = [(first + at + 1, 0, _of_agent(said, shown)) for at, said in enumerate(last)]
    placed += [(heard.after, 1, _of_person(heard, shown)) for heard in state.heard if heard.after >= first]
    return tuple(message for *_, message in sorted(placed, key=lambda entry: entry[:2]))[-MESSAGES_READ:]


def _of_agent(said: Said, shown: Mapping[str, str]) -> Message:
    author = shown.get(said.agent, said.agent)
    return Message(said.text, content_words(said.text), said.agent, author, names_in(said.text, shown))


def _of_person(heard: Heard, shown: Mapping[str, str]) -> Message:
    names = tuple(dict.fromkeys((*heard.names, *names_in(heard.text, shown))))
    return Message(heard.text, content_words(heard.text), names=names, replied_to=heard.replied_to)
