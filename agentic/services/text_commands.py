"""Text commands: on a service without slash commands, people write them as messages.

A command is a whole message and begins with a slash: "why" and "profile" alone are words that people say to an agent.
Punctuation doesn't matter: "/forget me." is a command. STOP and RESUME need no slash (agentic.context.commands). A
command and its answer leave the transcript when the answer is sent, so models don't read them. The table of actions
lists the commands.
"""

from __future__ import annotations

import asyncio
import logging
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar

from pydantic.fields import FieldInfo

from agentic.actions.base import ActionContext, ActionRequest, File, Place
from agentic.actions.registry import Action, Actions
from agentic.actions.texts import Style
from agentic.actions.values import extra_of
from agentic.agent.services import Services
from agentic.chat.heard import HeardChannels, HeardMessage
from agentic.chat.outlet import CannotPost, Post
from agentic.chat.service import Person
from agentic.process.tasks import BackgroundTasks
from agentic.state.silence import ChannelRef

UNKNOWN = "I don't know that command. /help lists all of them."
NEARLY = "I didn't understand that. You can write:"
HELP_HEAD = """You can write these to me, each as a message of its own:
STOP – Stop me here (STOP 30: for 30 minutes). Reacting with 🛑 to one of my messages does the same.
RESUME – Let me speak again
/help – Show this list"""
ORDERS = {"stop": "STOP", "resume": "RESUME"}  # actions that are words without a slash
ABOUT_DATA = ("forget", "privacy")
"""A message that begins like this never goes to the model, which might claim that it has done it."""

TAKE_OVER_SECONDS = 15.0  # within which another process takes an agent over
LOOK_SECONDS = 0.1

_COMMAND = re.compile(r"[^\w>]*/(?!/)(.*)", re.DOTALL)
_WORD = re.compile(r"[^\W_]+")
_SHORT = re.compile(r"[a-z]{2,10}(?: [a-z]{2,12}){0,3}")  # what a group takes for a command, known or not

log = logging.getLogger(__name__)


class TextStyle(Style):
    """Shows people by name, times by the owner's clock, and STOP and RESUME as words."""

    def __init__(self, services: Services, name_of: Callable[[int], str]) -> None:
        self._services, self._name_of = services, name_of

    def action(self, name: str) -> str:
        return ORDERS.get(name, f"/{name}")

    def channel(self, channel_id: int) -> str:
        return "this chat"

    def person(self, user_id: int) -> str:
        return self._services.chats.directory.name_of(user_id) or self._name_of(user_id) or "a person"

    def time(self, at: int, mark: str) -> str:
        return f"{datetime.fromtimestamp(at, self._services.settings.timezone):%Y-%m-%d %H:%M}"


class TextCommands(ABC):
    """The commands of one agent on a service. It answers in `channels`, even while it is stopped."""

    left_messages: ClassVar[str]  # what /forget me says of the messages themselves

    def __init__(self, agent: str, services: Services, channels: HeardChannels) -> None:
        self._agent, self._services, self._channels = agent, services, channels
        self._waiting = BackgroundTasks()
        place = Place()
        place.left_messages = self.left_messages
        self._actions, self._style = Actions(ActionContext(services, place)), TextStyle(services, self.name_of)

    @abstractmethod
    def agent_names(self) -> Iterable[str]:
        """Return the names by which people mention our agents, after an @."""

    @abstractmethod
    def name_of(self, person: int) -> str:
        """Return the name of a person, or "" if it is unknown."""

    @abstractmethod
    def is_mine(self, heard: HeardMessage) -> bool:
        """Return whether a command is for this agent: in a group, one agent answers."""

    @abstractmethod
    async def send_file(self, heard: HeardMessage, text: str, file: File) -> None:
        """Answer with a file."""

    async def aclose(self) -> None:
        """Cancel the waiting commands: another process takes over the agent."""
        await self._waiting.cancel()

    async def handle(self, heard: HeardMessage) -> bool:
        """Answer a command that is for this agent. Return whether the message was a command, for whichever agent."""
        words = self._words(heard)
        wanted = _wanted(words)
        # in a private chat only known commands are commands
        is_known = self._read(words) is not None or wanted == "help" or wanted.partition(" ")[0] in ABOUT_DATA
        if not is_known and (heard.facts.is_private or _SHORT.fullmatch(wanted) is None):
            return False
        if not self.is_mine(heard):
            return True
        self._services.chats.transcripts.of(heard.facts.channel_id).delete(heard.facts.message_id)
        if self._channels.lease.is_held:
            await self._carry_out(heard, words)
        else:
            self._waiting.start(self._take_over(heard, words), "a command as text")
        return True

    async def _take_over(self, heard: HeardMessage, words: str) -> None:
        """Carry out a command if this process soon acts for the agent and the process before it hasn't done so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TAKE_OVER_SECONDS):
                while not self._channels.lease.is_held:  # noqa: ASYNC110 - a lease has no event for it
                    await asyncio.sleep(LOOK_SECONDS)
        if self._channels.lease.is_held:
            await self._carry_out(heard, words)

    async def _carry_out(self, heard: HeardMessage, words: str) -> None:
        if not await self._services.state.posts.claims.first(self._agent, f"command {heard.facts.message_id}"):
            return
        text, file, more = await self._answer(words, heard)
        await (self.post(heard, text) if file is None else self.send_file(heard, text, file))
        if more:
            await self.post(heard, more, ":more")

    async def post(self, heard: HeardMessage, text: str, part: str = "") -> None:
        if (outlet := self._channels.answering(heard.facts.channel_id)) is None:
            return
        try:
            posted = await outlet.sink.post(Post(text=text), f"c{heard.facts.message_id}{part}")
        except CannotPost as error:
            log.warning("%s: could not answer a command in chat %d: %s", self._agent, heard.facts.channel_id, error)
        else:
            for each in posted.message_ids:
                outlet.view.transcript.delete(each)

    def _words(self, heard: HeardMessage) -> str:
        """Return the message on one line as it is seen, without the mention of an agent."""
        text = unicodedata.normalize("NFKC", heard.entry.text)
        for name in self.agent_names():
            text = re.sub(rf"@{re.escape(name)}(?!\w)", " ", text, flags=re.IGNORECASE)
        seen = (char for char in text if char.isspace() or unicodedata.category(char) not in ("Cc", "Cf"))
        return " ".join("".join(seen).split())

    async def _answer(self, words: str, heard: HeardMessage) -> tuple[str, File | None, str]:
        """Return the answer, its file, and a second message."""
        if (read := self._read(words)) is None:
            return self._help(_wanted(words)), None, ""
        action, values = read
        if any(extra_of(field)["kind"] == "message" for field in action.values.model_fields.values()):
            own = reversed(self._services.chats.transcripts.of(heard.facts.channel_id).entries())
            newest = next((each.id for each in own if each.speaker.agent == self._agent), "")
            values = {**values, "message": str(heard.entry.reply_to or newest)}
        request = ActionRequest(
            id=heard.facts.message_id,
            name=action.name,
            who=Person(heard.facts.author_id, manages_messages=True),
            surface="text",
            place=ChannelRef(heard.facts.channel_id),
            values=values,
            source=f"c{heard.facts.message_id}",
            is_shared=heard.facts.group,
            agent=self._agent,
        )
        outcome = await self._actions.perform(request)
        return self._style.text_of(outcome), outcome.reply if isinstance(outcome.reply, File) else None, outcome.more

    def _help(self, wanted: str) -> str:
        """Return all commands, or the ones that begin like `wanted`."""
        about, rows = wanted.partition(" ")[0], list[str]()
        for name, action in self._actions.on("text").items():
            if name == action.name and action.about and about in ("help", name.partition(" ")[0]):
                rows.append(f"/{name}{''.join(map(_shown, _options(action).items()))} – {action.about}")
        if wanted == "help":
            return "\n".join((HELP_HEAD, *rows))
        return "\n".join((NEARLY, *rows)) if rows and about != "help" else UNKNOWN

    def _read(self, words: str) -> tuple[Action, Mapping[str, Any]] | None:
        """Return the action that a message names, with its values; None if it names none, or has more words than the
        action takes."""
        wanted, known = _wanted(words), self._actions.on("text")
        names = [name for name in known if f"{wanted} ".startswith(f"{name} ")]
        if not names:
            return None
        action = known[name := max(names, key=len)]
        rest = wanted.removeprefix(name).strip()
        if not rest:
            return action, {}
        for option, field in _options(action).items():
            choices = extra_of(field)["choices"]
            value = rest.removeprefix(f"{option} ")
            if value in choices or (rest == option and len(choices) == 1):
                return action, {option: value if value in choices else next(iter(choices))}
            if field.annotation in (int, int | None) and value.isdecimal():
                return action, {option: int(value)}
            if not choices and field.annotation in (str, str | None):
                words_of_name = r"[\W_]+".join(name.split())
                return action, {option: re.sub(rf"(?i)\A\W*{words_of_name}[\W_]*", "", words)}
        return None


def _wanted(words: str) -> str:
    """Return the words of a command in lower case without the signs between them: Discord has `unprompted:off`, and
    people write "/forget-me!". Empty for a text that doesn't begin with a slash."""
    found = _COMMAND.fullmatch(words)
    wanted = " ".join(_WORD.findall(found[1].lower())) if found is not None else ""
    wanted = re.sub("^privacy unasked ", "privacy unprompted ", wanted)  # the option's former name
    return f"forget me{wanted[8:]}" if wanted.partition(" ")[0] == "forgetme" else wanted


def _options(action: Action) -> dict[str, FieldInfo]:
    """Return what a person may write after a command's name."""
    fields = ((field.alias or name, field) for name, field in action.values.model_fields.items())
    return {
        name: field
        for name, field in fields
        if extra_of(field)["only"] in (None, "text") and extra_of(field)["kind"] != "message"
    }


def _shown(option: tuple[str, FieldInfo]) -> str:
    """Return an option as the list of commands has it: " [export]", " [unprompted on/off]"."""
    name, choices = option[0], extra_of(option[1])["choices"]
    return f" [{name} {'/'.join(choices)}]" if len(choices) > 1 else f" [{name}]"
