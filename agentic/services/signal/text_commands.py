"""Commands as text: what people do in Discord by slash commands, they write in a chat of Signal.

A command is all of a message and begins with a slash: "why" and "profile" alone are words that people say to an agent.
Signs around its words don't matter: "/forget me." is one. STOP and RESUME need no slash
(agentic.context.commands). A command and its answer are no context: they leave the transcript when the answer
is sent.
"""

from __future__ import annotations

import asyncio
import logging
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial

from agentic.actions.explain import NO_RECORD, unasked_text, why
from agentic.actions.status import unasked_waits
from agentic.agent.services import Services
from agentic.chat.outlet import CannotPost, Post
from agentic.process.tasks import BackgroundTasks
from agentic.services.signal.channels import SignalChannels
from agentic.services.signal.client import SignalError
from agentic.services.signal.contacts import SignalAccount
from agentic.services.signal.messages import Heard
from agentic.text import counted, dollars, listed
from agentic.wire.connection import StateUnavailable

NOTHING_POSTED = "I have posted nothing here that I know of. Quote a message of mine and write /why."
REDIS_AWAY = "That did not work: a part of the program is away. Please try again in a minute."
NOT_SENT = "The file could not be sent. Please try again in a minute."
NOT_ALL = "Not everything could be removed; my owner's log says what. The rest is removed when I start again."
CONFIRM = (
    "This removes what I keep of you: records, notes, your profile, the log of your messages, here and on Discord"
    " if you are linked. It cannot be undone. Write /forget me yes"
)
MESSAGES = "messages on your phone and on other people's, and those in Discord if you write there too"
UNKNOWN = "I don't know that command. /help lists them."
HELP = """What you can write to me, each as a whole message:
STOP – I am silent here; STOP 30 for 30 minutes. RESUME – I speak again.
/why – why I wrote the message that you quote, or my last one
/status – my day: turns, money, limits
/privacy – who reads here, and what is kept of you; /privacy unasked off, or on – may I write to you unasked?
/privacy export – what is kept of you, as a file
/profile – topics that are noted of you; /profile edit tea, ships – only these; /profile delete – none
/forget me – remove what I keep of you
/help – this list
A 🛑 at a message of mine stops me too."""

HOW_TO_EDIT = "Write /profile edit and all topics that may be noted of you, with commas between them."
PRIVATE = ("privacy", "privacy export", "profile", "profile show")  # not answered in a group
IN_OUR_CHAT = "Others read here. Write that to me in a chat of our own."

TAKE_OVER_SECONDS = 15.0  # within which another process takes an agent over
LOOK_SECONDS = 0.1

_COMMAND = re.compile(r"[^\w>]*/(?!/)(.*)", re.DOTALL)
_WORD = re.compile(r"[^\W_]+")
_SHORT = re.compile(r"[a-z]{2,10}(?: [a-z]{2,12}){0,3}")  # what a group takes for a command, known or not
_EDIT = re.compile(r"/profile edit (.+)", re.IGNORECASE | re.DOTALL)
_MENTION = re.compile(r"<@!?(\d{1,20})>")
_TIME = re.compile(r"<t:(\d{1,12})(?::\w)?>")

Answer = Callable[[Heard], Awaitable[str]]

log = logging.getLogger(__name__)


def _wanted(words: str) -> str:
    """Return the words of a command in lower case without the signs between them: Discord has `unasked:off`, and people
    write "/forget-me!". Empty for a text that doesn't begin with a slash."""
    found = _COMMAND.fullmatch(words)
    wanted = " ".join(_WORD.findall(found[1].lower())) if found is not None else ""
    return "forget me" if wanted == "forgetme" else wanted


class TextCommands:
    """The commands of one agent on Signal. `channels` are those in which it answers, also while it is stopped."""

    def __init__(self, agent: str, account: SignalAccount, services: Services, channels: SignalChannels) -> None:
        self._agent, self._account, self._services, self._channels = agent, account, services, channels
        self._waiting = BackgroundTasks()
        self._answers: Mapping[str, str | Answer] = {
            "help": HELP,
            "why": self._why,
            "status": self._status,
            "privacy": self._privacy,
            "privacy export": self._export,
            "privacy unasked on": partial(self._set_unasked, True),
            "privacy unasked off": partial(self._set_unasked, False),
            "profile": self._profile,
            "profile show": self._profile,
            "profile edit": HOW_TO_EDIT,
            "profile delete": self._delete_profile,
            "forget me": CONFIRM,
            "forget me yes": self._forget,
        }

    async def aclose(self) -> None:
        """Carry out none of those that wait: another process takes the agent over."""
        await self._waiting.cancel()

    async def answered(self, heard: Heard) -> bool:
        """Whether the message was a command; this agent answers it, unless it is another's."""
        words = self._words(heard)
        wanted = _wanted(words)
        # in a private chat only a known one is a command; what begins like one about the person's own data is not left
        # to the model, which might claim that it was done
        is_known = wanted in self._answers or wanted.partition(" ")[0] in ("forget", "privacy")
        is_command = is_known or (not heard.facts.is_private and _SHORT.fullmatch(wanted) is not None)
        if _EDIT.fullmatch(words) is None and not is_command:
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
        text = await self._answer(words, heard)
        if not text:  # it was sent with a file
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

    async def _answer(self, words: str, heard: Heard) -> str:
        if (edit := _EDIT.fullmatch(words)) is not None:
            if heard.chat.person is None:
                return IN_OUR_CHAT
            topics = edit[1].replace(",", "\n")
            return self._services.own_memory.save_profile(heard.facts.author_id, topics)
        wanted = _wanted(words)
        if wanted in PRIVATE and heard.chat.person is None:
            return IN_OUR_CHAT
        answer = self._answers.get(wanted, UNKNOWN)
        if isinstance(answer, str):
            return answer
        try:
            return self._plain(await answer(heard))
        except StateUnavailable as away:
            log.warning("/%s was not carried out: Redis is unavailable (%s)", wanted, away)
            return REDIS_AWAY

    async def _why(self, heard: Heard) -> str:
        """Explain the quoted message, else the newest one of the agent."""
        services, entry = self._services, heard.entry
        newest = reversed(self._account.transcript(heard.chat).entries())
        message_id = entry.reply_to or next((each.id for each in newest if each.speaker.agent == self._agent), None)
        if message_id is None:
            return NOTHING_POSTED
        record = await services.state.turns.records.of_message(message_id, services.roster.names)
        if record is not None and record.channel_id != heard.facts.channel_id:
            return NO_RECORD  # a quote may name any message, also one of another person's chat
        text = await why(services.state, services.roster.names, message_id, services.clock())
        sent = await services.memory.unasked(message_id) if text == NO_RECORD else None
        if sent is None or sent.channel_id != heard.facts.channel_id:
            return text
        return unasked_text(sent, services.roster.names)

    async def _status(self, heard: Heard) -> str:
        services, state, agent = self._services, self._services.state, self._agent
        now = services.clock()
        date = f"{datetime.fromtimestamp(now, services.settings.timezone):%Y-%m-%d}"
        turns, cost = await state.limits.all(agent, date), await state.limits.costs.read(agent, date)
        lines = [f"Today: {counted(turns, 'turn')}, {dollars(cost.get('total_cost', 0.0))}."]
        silenced = services.silence.check(self._channels.place(heard.facts.channel_id))
        if silenced is not None:
            paused, stopped = "All agents are paused by their owner.", "I am stopped here. Write RESUME to lift it."
            lines.append(paused if silenced.kind == "paused" else stopped)
        if agent in services.silence.muted_agents():
            lines.append("My owner has muted me for now.")
        idle = await state.coordination.idle.read()
        if idle is not None and (waits := unasked_waits(idle, agent, now)):
            lines.append(f"What I write unasked: {listed(waits)}.")
        return "\n".join(lines)

    async def _privacy(self, heard: Heard) -> str:
        return await self._services.privacy.text(heard.facts.author_id, heard.facts.channel_id)

    async def _export(self, heard: Heard) -> str:
        reply = await self._services.own_memory.export(heard.facts.author_id)
        if reply.file is None:
            return reply.text
        account, lease = self._account, self._channels.lease
        recipient = account.chats.recipient(heard.chat) or ""
        file = reply.file[0], self._services.redact(reply.file[1])
        try:
            await account.client.send(account.number, recipient, reply.text, file=file, may_send=lambda: lease.is_held)
        except SignalError as error:
            log.warning("%s: chat %d did not get its data: %s", self._agent, heard.chat.channel_id, error)
            return NOT_SENT
        return ""

    async def _set_unasked(self, wanted: bool, heard: Heard) -> str:
        return await self._services.own_memory.set_unasked(heard.facts.author_id, wanted)

    async def _profile(self, heard: Heard) -> str:
        return await self._services.own_memory.profile_text(heard.facts.author_id)

    async def _delete_profile(self, heard: Heard) -> str:
        return self._services.own_memory.delete_profile(heard.facts.author_id)

    async def _forget(self, heard: Heard) -> str:
        forgotten = await self._services.forgetting.forget(heard.facts.author_id)
        return forgotten.text(MESSAGES) if forgotten.whole else NOT_ALL

    def _plain(self, text: str) -> str:
        """Turn a reply that was written for Discord into text: people by name, times by the clock."""
        zone = self._services.settings.timezone

        def name(found: re.Match[str]) -> str:
            number = int(found[1])
            agent = self._services.directory.name_of(number)
            who = self._account.contacts.of(number)
            return agent or (who.name if who is not None and who.name else "a person")

        def time(found: re.Match[str]) -> str:
            return f"{datetime.fromtimestamp(int(found[1]), zone):%Y-%m-%d %H:%M}"

        return _TIME.sub(time, _MENTION.sub(name, text))
