"""`/ask` in a channel: the bot that has the commands shows the question, and Discord says with it who asked.

For every bot that hears of it the question is that person's message, to the agent whose mention it begins with. That it
was a person's command is Discord's word (`interaction_metadata`), and the message is one of our own bots': no
other user, bot or webhook can make one. Every other answer to a command is hidden, so there is no such message
of another kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import discord

from agent_discord.directory import Directory

LONGEST_QUESTION = 1900  # characters; the mention goes before it
_QUESTION = re.compile(r"<@(\d{1,20})> (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AskedFor:
    """Who asked which agent (a user id) what."""

    by: discord.User
    agent: int
    prompt: str


def question_text(agent_id: int, prompt: str) -> str:
    """What is shown; the prompt stands in it as it was given."""
    return f"<@{agent_id}> {prompt}"


def read_question(text: str) -> tuple[int, str] | None:
    """The agent's user id and the prompt, exactly; None for what is no question."""
    found = _QUESTION.fullmatch(text)
    return (int(found[1]), found[2]) if found else None


def asked_for(message: discord.Message, directory: Directory) -> AskedFor | None:
    """None for every message but such a question."""
    used = message.interaction_metadata
    if used is None or directory.agent_of(message.author.id) is None or used.user.bot:
        return None
    read = read_question(message.content)
    if read is None or directory.agent_of(read[0]) is None:
        return None
    return AskedFor(used.user, *read)
