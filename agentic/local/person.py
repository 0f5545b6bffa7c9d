"""The person of local mode: as they write and react in the console's page, and as they use commands at the terminal."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from agentic.console.parts import Upload
from agentic.console.requests import Refused
from agentic.local.discord.dialogs import EPHEMERAL, Interaction, fields
from agentic.local.discord.server import DiscordStandIn, File
from agentic.local.discord.world import Attachment
from agentic.local.settings import to_edit
from agentic.local.terminal.commands import Answer, TypedCommand, Values, Vocabulary
from agentic.local.terminal.typed_lines import MAX_MESSAGE, with_mentions
from agentic.local.terminal.view import SaveFile

MAX_SECONDS = 70.0  # for an answer; a bot gives up after a minute
TO_READ = (".md", ".txt")  # files that the terminal shows; others, such as a room's page, are saved
COMMAND = "commands only work in the terminal; to post this as text, begin with //"


class BrowserPerson:
    """Implements agentic.console's People over the stand-in. `shown`: the bots' names; `words` and `roles`: the names
    that mention a user or a role in a text."""

    def __init__(
        self,
        server: DiscordStandIn,
        name: str,
        shown: Sequence[str],
        words: Mapping[str, int],
        roles: Mapping[str, int],
    ) -> None:
        self._server, self.name = server, name
        self._shown, self._words = shown, Vocabulary({}, words, roles)

    def mentions(self) -> Sequence[str]:
        return [*self._shown, *self._words.roles]

    async def say(self, channel_id: int, text: str, reply_to: int | None = None, upload: Upload | None = None) -> int:
        if text.startswith("/") and not text.startswith("//"):
            raise Refused(400, COMMAND)
        text = with_mentions(text[1:] if text.startswith("//") else text, self._words)
        if len(text) > MAX_MESSAGE:
            raise Refused(400, f"that's {len(text):,} characters; a message has at most {MAX_MESSAGE:,}")
        try:
            files: list[File] = []
            if upload is not None:  # its type is guessed from its name, as Discord does
                file_name = PurePosixPath(upload.name.replace("\\", "/")).name or "file"
                files.append((file_name, upload.data, mimetypes.guess_type(file_name)[0] or "application/octet-stream"))
            posted = await self._server.say(self.name, channel_id, text, reply_to=reply_to, attachments=files)
        except KeyError:
            raise Refused(400, "the channel or the message that you answer is gone") from None
        except ValueError as error:
            raise Refused(400, str(error)) from None
        return int(posted["id"])

    async def react(self, channel_id: int, message_id: int, emoji: str, given: bool) -> None:
        try:
            await self._server.react(self.name, channel_id, message_id, emoji, given)
        except KeyError:
            raise Refused(400, "the message is gone") from None
        except ValueError as error:
            raise Refused(400, str(error) or "Discord would refuse that") from None


class CommandUse:
    """Uses commands as `person` in a channel. `save` takes files that the terminal can't show as text."""

    def __init__(self, server: DiscordStandIn, person: str, personas: Path, save: SaveFile) -> None:
        self._server, self._person, self._personas, self._save = server, person, personas, save

    async def __call__(self, channel_id: int, use: TypedCommand) -> Answer:
        """Use a command and return the answer. Raises LookupError and ValueError."""
        server, guild_id = self._server, self._server.world.guild.id
        bots = server.world.apps.values()
        try:
            await server.wait_for(lambda: any(app.commands.get(guild_id) for app in bots))  # soon after the start
        except TimeoutError:
            raise LookupError("no bot has registered its commands yet; try again in a moment") from None
        bot = next(app for app in bots if app.commands.get(guild_id))
        used = await server.interact(self._person, channel_id, bot.key, use.command, dict(use.values))
        return await self._answer(used, use)

    async def _answer(self, used: Interaction, use: TypedCommand) -> Answer:
        async def fill_in(values: Values) -> Answer:
            return await self._answer(await self._server.fill_in(used, *values), use)

        async def choose(values: Values) -> Answer:
            (chosen,) = values
            return await self._answer(await self._server.choose(used, *chosen), use)

        try:
            await self._server.wait_for(lambda: used.done, MAX_SECONDS)
        except TimeoutError:
            raise LookupError("no bot answered; try again in a moment") from None
        if used.form is not None:
            if "file" in use.values:
                file = self._personas / str(use.values.get("agent", "")) / str(use.values["file"])
                return Answer(f"in Discord a form opens here; instead, edit {to_edit(file)}")
            return Answer(title=str(used.form["title"]), fields=fields(used.form), send=fill_in)
        text = answer_text(used.answers[-1], self._server.world.attachments, self._save)
        if used.menu is None:
            return Answer(text)
        menu = {**used.menu, "label": used.menu.get("placeholder") or "Your choice"}
        return Answer(text, fields=(menu,), send=choose)


def answer_text(answer: Mapping[str, Any], attachments: Mapping[int, Attachment], save: SaveFile) -> str:
    """Return the text of an answer to one person, with the text or the paths of its files, and "" if everybody sees the
    answer in the channel. Raises ValueError if a file can't be saved."""
    if not answer.get("flags", 0) & EPHEMERAL:
        return ""
    parts = [str(answer["content"])]
    for file in answer.get("attachments") or ():
        if Path(str(file["filename"])).suffix in TO_READ:
            parts.append(attachments[int(file["id"])].content.decode(errors="replace"))
            continue
        try:
            parts.append(str(save(file) or ""))
        except OSError as error:
            raise ValueError(f"the file {file['filename']} was not saved: {error.strerror or error}") from None
    return "\n".join(filter(None, parts))
