"""`/profile` and `/privacy`, for the person who uses them and nobody else."""

from __future__ import annotations

from collections.abc import Mapping

from agent_cogs.slash import CommandInvocation, Handle
from agent_cogs.slash_definitions import FORM
from agentic.actions.own_memory import OwnMemory
from agentic.actions.privacy import Privacy
from agentic.actions.responses import CommandReply, Field, Form, Response
from agentic.wire.topics import MOST_TOPICS, TOPIC_CHARACTERS

PROFILE = "profile"  # the form, and the file of a long profile
TOPICS = "topics"  # its field
MOST_CHARACTERS = 1_900  # of a reply without a file


class MemoryCommands:
    """The handlers, by command."""

    def __init__(self, own: OwnMemory, privacy: Privacy) -> None:
        self._own, self._privacy = own, privacy
        self.everyone: Mapping[str, Handle] = {
            "profile show": self._show,
            "profile edit": self._edit,
            "profile delete": self._delete,
            f"{FORM} {PROFILE}": self._save,
            "privacy": self._about,
        }

    async def _show(self, command: CommandInvocation) -> Response:
        text = await self._own.profile_text(command.who.user_id)
        if len(text) <= MOST_CHARACTERS:
            return text
        return CommandReply("Your profile:", file=(f"{PROFILE}.txt", text))

    async def _edit(self, command: CommandInvocation) -> Response:
        if problem := self._own.problem:
            return problem
        field = Field(
            id=TOPICS,
            label=f"Your topics, one a line, {MOST_TOPICS} at most",
            text="\n".join(await self._own.topics(command.who.user_id)),
            hint=f"Up to {TOPIC_CHARACTERS} characters a line. Nothing at all removes the profile.",
            long=True,
        )
        return Form(id=PROFILE, title="Topics that you talk about", fields=(field,))

    async def _save(self, command: CommandInvocation) -> Response:
        return self._own.save_profile(command.who.user_id, str(command.values.get(TOPICS, "")))

    async def _delete(self, command: CommandInvocation) -> Response:
        return self._own.delete_profile(command.who.user_id)

    async def _about(self, command: CommandInvocation) -> Response:
        who = command.who.user_id
        if (wanted := command.values.get("unasked")) is not None:
            return await self._own.set_unasked(who, wanted == "on")
        return await self._privacy.text(who, command.channel_id)
