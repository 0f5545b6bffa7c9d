"""One account of ours with what its listener, views and sinks share."""

from __future__ import annotations

from dataclasses import dataclass

from agentic.chat.attachments import AttachmentReader
from agentic.chat.transcript import Transcript, Transcripts
from agentic.services.signal.chats import Chat, Chats
from agentic.services.signal.client import SignalClient
from agentic.services.signal.contacts import Contact, Contacts
from agentic.services.signal.files import SignalFetcher


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
