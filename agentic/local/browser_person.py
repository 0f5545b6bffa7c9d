"""The person of local mode, as they write and react in the console's page."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from agentic.console.parts import NotSaid, Upload
from agentic.local.discord.control import File, People
from agentic.local.terminal.typed_lines import MAX_MESSAGE, Vocabulary, with_mentions

COMMAND = "commands are typed in the terminal; to post this as text, begin with //"


class BrowserPerson:
    """Implements agentic.console's People over those of the stand-in. `shown` are the names of the bots, `words` the
    names that mention a user in a text, `roles` those that mention a role."""

    def __init__(
        self,
        people: People,
        name: str,
        shown: Sequence[str],
        words: Mapping[str, int],
        roles: Mapping[str, int],
    ) -> None:
        self._people, self._name = people, name
        self._shown, self._words = shown, Vocabulary({}, words, roles)

    @property
    def name(self) -> str:
        return self._name

    def mentions(self) -> Sequence[str]:
        return [*self._shown, *self._words.roles]

    async def say(self, channel_id: int, text: str, reply_to: int | None = None, upload: Upload | None = None) -> int:
        if text.startswith("/") and not text.startswith("//"):
            raise NotSaid(COMMAND)
        text = with_mentions(text[1:] if text.startswith("//") else text, self._words)
        if len(text) > MAX_MESSAGE:
            raise NotSaid(f"that is {len(text):,} characters, a message has at most {MAX_MESSAGE:,}")
        try:
            files = [_file(upload)] if upload is not None else []
            posted = await self._people.say(self._name, channel_id, text, reply_to=reply_to, attachments=files)
        except KeyError:
            raise NotSaid("the channel or the message that you answer is gone") from None
        except ValueError as error:
            raise NotSaid(str(error)) from None
        return int(posted["id"])

    async def react(self, channel_id: int, message_id: int, emoji: str, given: bool) -> None:
        try:
            if given:
                await self._people.react(self._name, channel_id, message_id, emoji)
            else:
                await self._people.unreact(self._name, channel_id, message_id, emoji)
        except KeyError:
            raise NotSaid("the message is gone") from None
        except ValueError as error:
            raise NotSaid(str(error) or "Discord would refuse that") from None


def _file(upload: Upload) -> File:
    """The file as the stand-in takes it; its type is guessed from its name, as Discord does."""
    name = PurePosixPath(upload.name.replace("\\", "/")).name or "file"
    return name, upload.data, mimetypes.guess_type(name)[0] or "application/octet-stream"
