"""Reactions with which people propose a debate on a bot's question, or agree to a proposed one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentic.agent.services import Services
from agentic.chat.service import AgentChannels, PersonReaction
from agentic.context.entries import one_line
from agentic.questions import QUESTION_MARKS, is_question
from agentic.state.proposals import PROPOSAL_SIGN, Proposal
from agentic.wire.messages import MAX_TOPIC

_MARKS = "".join(QUESTION_MARKS)
_END = re.compile(rf"[{_MARKS}]++|[!…\n]|\.(?!\S)")  # of a sentence; the period of "3.5" isn't one


class ProposedDebates:
    """What an agent's bot does with such reactions. Every bot that sees one does the same, and the first counts."""

    def __init__(self, services: Services, channels: AgentChannels) -> None:
        self._services, self._channels = services, channels

    async def on_reaction(self, sign: PersonReaction) -> None:
        if sign.emoji != PROPOSAL_SIGN:
            return
        services, place = self._services, self._channels.place(sign.channel_id)
        proposals = services.state.coordination.proposals
        transcript = services.chats.transcripts.known(sign.channel_id)
        entry = transcript.get(sign.message_id) if transcript is not None else None
        is_ours = services.chats.directory.agent_of(sign.author) is not None
        if is_ours or (entry is not None and entry.speaker.agent is not None):
            await proposals.stir(sign.message_id)
        if entry is None or entry.speaker.agent is None or entry.hidden or place.guild_id is None:
            return
        channel_id, topic = place.parent_id or place.channel_id, question_in(entry.text)
        is_served = channel_id in services.chats.scope.channels and services.silence.check(place) is None
        is_ignored = services.agents.ignored.has(sign.who.user_id, sign.who.roles, place.guild_id)
        if not topic or not is_served or is_ignored or services.settings.budget_rooms_usd == 0:
            return
        proposal = Proposal(
            id=sign.message_id,
            channel_id=channel_id,
            guild_id=place.guild_id,
            topic=services.chats.redact(topic),
            proposed_by=sign.who.user_id,
            name=sign.who.name,
            at=services.clock(),
            question_in=sign.channel_id,
        )
        await proposals.add(proposal)


def question_in(text: str) -> str:
    """Return the last question of a message as a topic, "" if it asks nothing or the question is too long."""
    if not is_question(text):
        return ""
    found = [one_line(sentence, len(sentence)).strip("*_ ") for sentence in _questions(text)]
    asked = [sentence for sentence in found if any(char.isalnum() for char in sentence)]
    return asked[-1] if asked and len(asked[-1]) <= MAX_TOPIC else ""


def _questions(text: str) -> Iterator[str]:
    """Yield the sentences that end with a question mark."""
    start = 0
    for end in _END.finditer(text):
        if end[0][0] in _MARKS:
            yield text[start : end.end()]
        start = end.end()
