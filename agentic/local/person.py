"""The person of local mode: as they write, react, vote, and use commands in the console's page, and as they use
commands at the terminal."""

from __future__ import annotations

import mimetypes
import secrets
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any

from cachetools import LRUCache

from agentic.console.parts import CommandAnswer, FormField, Poll, PollAnswer, Upload
from agentic.console.requests import Refused
from agentic.local.discord.dialogs import EPHEMERAL, MENU, Filled, Interaction, fields
from agentic.local.discord.polls import is_over
from agentic.local.discord.server import DiscordStandIn, File
from agentic.local.discord.world import Attachment
from agentic.local.settings import to_edit
from agentic.local.terminal.commands import (
    Answer,
    Json,
    MessageNumbers,
    TypedCommand,
    Unclear,
    Values,
    Vocabulary,
    command_parts,
    is_by_bot,
    read_use,
)
from agentic.local.terminal.typed_lines import MAX_MESSAGE, OWN_COMMANDS, with_mentions
from agentic.local.terminal.view import SaveFile
from agentic.services.discord.mentions import to_names

MAX_SECONDS = 70.0  # for an answer; a bot gives up after a minute
TO_READ = (".md", ".txt")  # files that the terminal shows; others, such as a room's page, are saved
MAX_FORMS = 20  # that are open at the same time
PARAGRAPH = 2  # the style of a field with several lines
COMMAND = "this is a command; to post it as text, begin with //"


class BrowserPerson:
    """Implements agentic.console's People over the stand-in. `shown`: the bots' names; `words` and `roles`: the names
    that mention a user or a role in a text; `commands` are the bots', and `use` uses them."""

    def __init__(
        self,
        server: DiscordStandIn,
        name: str,
        shown: Sequence[str],
        words: Mapping[str, int],
        roles: Mapping[str, int],
        commands: Sequence[Json] = (),
        use: CommandUse | None = None,
    ) -> None:
        self._server, self.name, self._use = server, name, use
        self._shown, self._words = shown, Vocabulary({}, words, roles, commands=commands)
        self._forms = LRUCache[str, Answer](MAX_FORMS)

    def mentions(self) -> Sequence[str]:
        return [*self._shown, *self._words.roles]

    async def say(self, channel_id: int, text: str, reply_to: int | None = None, upload: Upload | None = None) -> int:
        if text.startswith("/") and not text.startswith("//"):
            raise Refused(400, COMMAND)
        text = with_mentions(text[1:] if text.startswith("//") else text, self._words)
        if len(text) > MAX_MESSAGE:
            raise Refused(400, f"that's {len(text):,} characters; a message has at most {MAX_MESSAGE:,}")
        files: list[File] = []
        if upload is not None:  # its type is guessed from its name, as Discord does
            file_name = PurePosixPath(upload.name.replace("\\", "/")).name or "file"
            files.append((file_name, upload.data, mimetypes.guess_type(file_name)[0] or "application/octet-stream"))
        with _refusing("the channel or the message that you answer is gone"):
            posted = await self._server.say(self.name, channel_id, text, reply_to=reply_to, attachments=files)
        return int(posted["id"])

    async def react(self, channel_id: int, message_id: int, emoji: str, given: bool) -> None:
        with _refusing("the message is gone"):
            await self._server.react(self.name, channel_id, message_id, emoji, given)

    def commands(self) -> Sequence[tuple[str, str]]:
        return [part for command in self._words.commands for part in command_parts(command)]

    async def use(self, channel_id: int, line: str) -> CommandAnswer:
        world, numbers = self._server.world, MessageNumbers()
        channels = {channel.name: channel.id for channel in world.guild.channels.values()}
        if (channel := world.find_channel(channel_id)) is not None:  # which a command means that names none
            for each in reversed(channel.messages.values()):
                bot = each.author.bot or each.webhook_id is not None
                if is_by_bot(each.content, each.type, bot=bot, in_thread=channel.is_thread):
                    numbers.add(each.id, channel_id, by_bot=True)
                    break
        known = replace(self._words, channels=channels, messages=numbers)
        try:
            typed = read_use(line.split(), channel_id, known)
        except Unclear as error:
            raise Refused(400, f"{error}. /help shows what you can type") from None
        if typed is None or self._use is None:
            word = line.split()[0].lower()
            if word in OWN_COMMANDS:
                raise Refused(400, f"{word} works only in the terminal. Here, use the buttons beside a message")
            alike = get_close_matches(word, [f"/{name.split()[0]}" for name, _ in self.commands()], n=1)
            meant = f"did you mean {alike[0]}?" if alike else "/help shows what you can type."
            raise Refused(400, f"there's no command {word}; {meant} To post it as text, begin with //")
        return await self._answer(self._use(channel_id, typed))

    async def fill_in(self, form: str, values: Sequence[Sequence[str]]) -> CommandAnswer:
        asked = self._forms.get(form)
        if asked is None or asked.send is None or len(values) != len(asked.fields):
            raise Refused(400, "this form is no longer open; type the command again")
        filled: list[Filled] = [
            value if each["type"] == MENU else "".join(value) for each, value in zip(asked.fields, values, strict=True)
        ]
        return await self._answer(asked.send(filled))

    async def _answer(self, answering: Awaitable[Answer]) -> CommandAnswer:
        """Return a bot's answer, with names for mentions, and keep its form open."""
        try:
            answer = await answering
        except (LookupError, ValueError, TimeoutError) as error:
            raise Refused(400, f"the command failed: {error.args[0] if error.args else error}") from None
        world = self._server.world
        users = {user_id: user.display_name for user_id, user in world.users.items()}
        channels = {channel.id: channel.name for channel in world.guild.channels.values()}
        text = to_names(answer.text, users, channels, {role: name for name, role in self._words.roles.items()})
        if not answer.fields:
            return CommandAnswer(text)
        form = secrets.token_hex(8)
        self._forms[form] = answer
        return CommandAnswer(text, answer.title, [_form_field(each) for each in answer.fields], form)

    def poll(self, channel_id: int, message_id: int) -> Poll | None:
        world = self._server.world
        channel, me = world.find_channel(channel_id), world.user(self.name).id
        message = channel.messages.get(message_id) if channel is not None else None
        if message is None or message.poll is None:
            return None
        answers = []
        for each in message.poll.answers:
            who = message.poll.votes.get(each["answer_id"], ())
            answers.append(PollAnswer(str(each["poll_media"]["text"]), len(who), me in who))
        return Poll(str(message.poll.question["text"]), tuple(answers), is_over(world, message.poll))

    async def vote(self, channel_id: int, message_id: int, answer: str, given: bool) -> None:
        with _refusing("the poll is gone"):
            await self._server.vote(self.name, channel_id, message_id, answer, given)


@contextmanager
def _refusing(gone: str) -> Iterator[None]:
    """Refuse with `gone` if something doesn't exist, or with Discord's words."""
    try:
        yield
    except KeyError:
        raise Refused(400, gone) from None
    except ValueError as error:
        raise Refused(400, str(error) or "Discord would refuse that") from None


def _form_field(field: Json) -> FormField:
    label = str(field["label"])
    if field["type"] != MENU:
        value, is_long = str(field.get("value") or ""), field.get("style") == PARAGRAPH
        return FormField(label, value, is_long, field.get("required", True), field.get("max_length", 4000))
    choices = [(each["value"], each["label"], each.get("description") or "") for each in field["options"]]
    most = min(field.get("max_values", 1), len(choices))
    return FormField(label, choices=choices, most=most)


class CommandUse:
    """Uses commands as `person` in a channel. `save` takes files that the terminal can't show as text."""

    def __init__(self, server: DiscordStandIn, person: str, personas: Path, save: SaveFile) -> None:
        self._server, self._person, self._personas, self._save = server, person, personas, save

    async def __call__(self, channel_id: int, use: TypedCommand) -> Answer:
        """Use a command and return the answer. Raises LookupError and ValueError."""
        try:
            used = await self._server.use_command(self._person, channel_id, use.command, dict(use.values))
        except TimeoutError:
            raise LookupError("no bot has registered its commands yet; try again in a moment") from None
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
