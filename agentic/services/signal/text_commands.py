"""Commands that people write on Signal."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import ClassVar

from agentic.actions.base import File
from agentic.agent.services import Services
from agentic.chat.heard import HeardMessage
from agentic.services.signal.channels import SignalChannels
from agentic.services.signal.client import SignalError
from agentic.services.signal.contacts import SignalAccount
from agentic.services.text_commands import TextCommands

NOT_SENT = "I couldn't send the file. Please try again in a minute."

log = logging.getLogger(__name__)


class SignalCommands(TextCommands):
    """The commands that one agent's account takes."""

    left_messages: ClassVar[str] = "Messages on your phone, on other people's phones, and in Discord."

    def __init__(self, agent: str, account: SignalAccount, services: Services, channels: SignalChannels) -> None:
        self._account = account
        super().__init__(agent, services, channels)

    def agent_names(self) -> Iterable[str]:
        return [agent.name for agent in self._account.contacts.agents()]

    def name_of(self, person: int) -> str:
        who = self._account.contacts.of(person)
        return who.name if who is not None else ""

    def is_mine(self, heard: HeardMessage) -> bool:
        """Return whether a command is for this agent. In a group it is for the agent that it mentions or replies to,
        otherwise for the first one."""
        contacts, facts, chat = self._account.contacts, heard.facts, self._account.chats.get(heard.facts.channel_id)
        here = {contacts.ours(number).person for number in (chat.accounts if chat is not None else ())}
        meant = here & {*facts.mentioned_users, facts.replied_to or 0} or here
        return self._account.me.person == min(meant, default=0)

    async def send_file(self, heard: HeardMessage, text: str, file: File) -> None:
        account, chat = self._account, self._account.chats.get(heard.facts.channel_id)
        recipient = account.chats.recipient(chat) if chat is not None else None
        named = file.name, self._services.chats.redact(file.text)
        try:
            await account.client.send(
                account.number, recipient or "", text, file=named, may_send=lambda: self._channels.lease.is_held
            )
        except SignalError as error:
            log.warning("%s: sending a file to chat %d failed: %s", self._agent, heard.facts.channel_id, error)
            await self.post(heard, NOT_SENT)
