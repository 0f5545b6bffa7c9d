"""One account of ours with what its listener, views and sinks share."""

from __future__ import annotations

from dataclasses import dataclass

from agent_chat.attachments import AttachmentReader
from agent_chat.transcript import Transcript, Transcripts
from agent_signal.chats import Chat, Chats
from agent_signal.contacts import Contact, Contacts
from agent_signal.rest_api.client import SignalClient
from agent_signal.rest_api.files import SignalFetcher


@dataclass(frozen=True, slots=True)
class SignalAccount:
    """An agent's account. All but the phone number is shared by the accounts of a process; `attachments` reads through
    `files`."""

    number: str
    client: SignalClient
    contacts: Contacts
    chats: Chats
    transcripts: Transcripts
    files: SignalFetcher
    attachments: AttachmentReader

    @property
    def me(self) -> Contact:
        """The agent, as people on Signal know it."""
        return self.contacts.ours(self.number)

    def transcript(self, chat: Chat) -> Transcript:
        """A chat's transcript. There is no history to read: it has what was heard since the program runs, so it is
        whole from the beginning."""
        transcript = self.transcripts.of(chat.channel_id)
        transcript.whole = True
        return transcript
