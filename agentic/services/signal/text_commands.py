"""Commands as text: what people do in Discord by slash commands, they write in a chat of Signal.

A command is all of a message and begins with a slash: "why" and "profile" alone are words that people say to an agent.
Signs around its words don't matter: "/forget me." is one. STOP and RESUME need no slash
(agentic.context.commands). A command and its answer are no context: they leave the transcript when the answer
is sent. What there is to write, and what it does, is in the table of actions.
"""

from __future__ import annotations

import asyncio
import logging
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from agentic.actions.base import ActionContext, ActionRequest, File, Place
from agentic.actions.registry import Action, Actions
from agentic.actions.texts import Style
from agentic.actions.values import extra_of
from agentic.agent.services import Services
from agentic.chat.outlet import CannotPost, Post
from agentic.chat.service import Person
from agentic.process.tasks import BackgroundTasks
from agentic.services.signal.channels import SignalChannels
from agentic.services.signal.client import SignalError
from agentic.services.signal.contacts import SignalAccount
from agentic.services.signal.messages import Heard
from agentic.state.silence import ChannelRef

NOT_SENT = "The file could not be sent. Please try again in a minute."
UNKNOWN = "I don't know that command. /help lists them."
HELP_HEAD = """What you can write to me, each as a whole message:
STOP – I am silent here; STOP 30 for 30 minutes. RESUME – I speak again. A 🛑 at a message of mine stops me too.
/help – Show this list"""
ORDERS = {"stop": "STOP", "resume": "RESUME"}  # actions that are words without a slash
ABOUT_DATA = ("forget", "privacy")
"""What begins like this is not left to the model, which might claim that it was done."""

TAKE_OVER_SECONDS = 15.0  # within which another process takes an agent over
LOOK_SECONDS = 0.1

_COMMAND = re.compile(r"[^\w>]*/(?!/)(.*)", re.DOTALL)
_WORD = re.compile(r"[^\W_]+")
_SHORT = re.compile(r"[a-z]{2,10}(?: [a-z]{2,12}){0,3}")  # what a group takes for a command, known or not

log = logging.getLogger(__name__)


class SignalPlace(Place):
    left_messages = "messages on your phone and on other people's, and those in Discord if you write there too"


class SignalStyle(Style):
    """People by name, times by the owner's clock, orders by their words."""

    def __init__(self, account: SignalAccount, services: Services) -> None:
        self._account, self._services = account, services

    def action(self, name: str) -> str:
        return ORDERS.get(name, f"/{name}")

    def channel(self, channel_id: int) -> str:
        return "this chat"

    def person(self, user_id: int) -> str:
        who = self._account.contacts.of(user_id)
        return self._services.chats.directory.name_of(user_id) or (who.name if who is not None else "") or "a person"

    def time(self, at: int, mark: str) -> str:
        return f"{datetime.fromtimestamp(at, self._services.settings.timezone):%Y-%m-%d %H:%M}"


class TextCommands:
    """The commands of one agent on Signal. `channels` are those in which it answers, also while it is stopped."""

    def __init__(self, agent: str, account: SignalAccount, services: Services, channels: SignalChannels) -> None:
        self._agent, self._account, self._services, self._channels = agent, account, services, channels
        self._waiting = BackgroundTasks()
        self._actions, self._style = Actions(ActionContext(services, SignalPlace())), SignalStyle(account, services)

    async def aclose(self) -> None:
        """Carry out none of those that wait: another process takes the agent over."""
        await self._waiting.cancel()

    async def answered(self, heard: Heard) -> bool:
        """Whether the message was a command; this agent answers it, unless it is another's."""
        words = self._words(heard)
        wanted = _wanted(words)
        # in a private chat only a known one is a command
        is_known = self._read(words) is not None or wanted == "help" or wanted.partition(" ")[0] in ABOUT_DATA
        if not is_known and (heard.facts.is_private or _SHORT.fullmatch(wanted) is None):
            return False
        if not self._is_mine(heard):
            return True
        self._account.transcript(heard.chat).delete(heard.facts.message_id)
        if self._channels.lease.is_held:
            await self._carry_out(heard, words)
        else:
            self._waiting.start(self._take_over(heard, words), "Signal: a command")
        return True

    async def _take_over(self, heard: Heard, words: str) -> None:
        """Carry it out where this process acts for the agent soon, and the one before it has not done so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TAKE_OVER_SECONDS):
                while not self._channels.lease.is_held:  # noqa: ASYNC110 - a lease has no event for it
                    await asyncio.sleep(LOOK_SECONDS)
        if self._channels.lease.is_held:
            await self._carry_out(heard, words)

    async def _carry_out(self, heard: Heard, words: str) -> None:
        if not await self._services.state.posts.claims.first(self._agent, f"command {heard.facts.message_id}"):
            return
        text, file = await self._answer(words, heard)
        if file is not None:
            await self._send_file(heard, text, file)
            return
        if (outlet := self._channels.answering(heard.facts.channel_id)) is None:
            return
        try:
            posted = await outlet.sink.post(Post(text=text), f"c{heard.facts.message_id}")
        except CannotPost as error:
            log.warning("%s: a command in chat %d was not answered: %s", self._agent, heard.facts.channel_id, error)
        else:
            for each in posted.message_ids:
                outlet.view.transcript.delete(each)

    async def _send_file(self, heard: Heard, text: str, file: File) -> None:
        account, lease = self._account, self._channels.lease
        recipient, data = account.chats.recipient(heard.chat) or "", self._services.chats.redact(file.text)
        try:
            await account.client.send(
                account.number, recipient, text, file=(file.name, data), may_send=lambda: lease.is_held
            )
        except SignalError as error:
            log.warning("%s: chat %d did not get its file: %s", self._agent, heard.chat.channel_id, error)
            outlet = self._channels.answering(heard.facts.channel_id)
            if outlet is not None:
                with suppress(CannotPost):  # logged there
                    await outlet.sink.post(Post(text=NOT_SENT), f"c{heard.facts.message_id}")

    def _words(self, heard: Heard) -> str:
        """Return the message on one line as it is seen, without the mention of an agent."""
        text = unicodedata.normalize("NFKC", heard.entry.text)
        for agent in self._account.contacts.agents():
            text = re.sub(rf"@{re.escape(agent.name)}(?!\w)", " ", text, flags=re.IGNORECASE)
        seen = (char for char in text if char.isspace() or unicodedata.category(char) not in ("Cc", "Cf"))
        return " ".join("".join(seen).split())

    def _is_mine(self, heard: Heard) -> bool:
        """Whether a command is for this agent: in a group for the one that it mentions or replies to, else the
        first."""
        contacts, facts = self._account.contacts, heard.facts
        here = {contacts.ours(number).person for number in heard.chat.accounts}
        meant = here & {*facts.mentioned_users, facts.replied_to or 0} or here
        return self._account.me.person == min(meant)

    async def _answer(self, words: str, heard: Heard) -> tuple[str, File | None]:
        if (read := self._read(words)) is None:
            return self._help() if _wanted(words) == "help" else UNKNOWN, None
        action, values = read
        if any(extra_of(field)["kind"] == "message" for field in action.values.model_fields.values()):
            values = {**values, "message": str(self._meant_message(heard) or "")}
        request = ActionRequest(
            id=heard.facts.message_id,
            name=action.name,
            who=Person(heard.facts.author_id, manages_messages=True),
            surface="text",
            place=ChannelRef(heard.facts.channel_id),
            values=values,
            source=f"c{heard.facts.message_id}",
            is_shared=heard.chat.person is None,
            agent=self._agent,
        )
        outcome = await self._actions.perform(request)
        return self._style.text_of(outcome), outcome.reply if isinstance(outcome.reply, File) else None

    def _help(self) -> str:
        rows = [HELP_HEAD]
        for name, action in self._actions.on("text").items():
            if name == action.name and action.about:
                options = "".join(f" [{option}]" for option in _options(action))
                rows.append(f"/{name}{options} – {action.about}")
        return "\n".join(rows)

    def _read(self, words: str) -> tuple[Action, Mapping[str, Any]] | None:
        """Return the action that a message is, with its values; None if it is none, or has more than the action
        takes."""
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

    def _meant_message(self, heard: Heard) -> int | None:
        """Return the quoted message, else the newest one of the agent."""
        newest = reversed(self._account.transcript(heard.chat).entries())
        return heard.entry.reply_to or next((each.id for each in newest if each.speaker.agent == self._agent), None)


def _wanted(words: str) -> str:
    """Return the words of a command in lower case without the signs between them: Discord has `unasked:off`, and people
    write "/forget-me!". Empty for a text that doesn't begin with a slash."""
    found = _COMMAND.fullmatch(words)
    wanted = " ".join(_WORD.findall(found[1].lower())) if found is not None else ""
    return f"forget me{wanted[8:]}" if wanted.partition(" ")[0] == "forgetme" else wanted


def _options(action: Action) -> dict[str, Any]:
    """Return what a person may write after a command's name."""
    fields = ((field.alias or name, field) for name, field in action.values.model_fields.items())
    return {
        name: field
        for name, field in fields
        if extra_of(field)["only"] in (None, "text") and extra_of(field)["kind"] != "message"
    }
