"""The sink of one chat of Signal: posts, reactions and the typing sign. A post is not streamed: it appears whole.

Signal has no mark by which a message that was sent already could be recognised. So each part of a post is claimed
before it is sent, at a place that survives the process: a turn that is resumed sends no part again that an earlier run
may have sent.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from agentic.chat.outlet import CannotPost, Post, Posted, SinkWithoutSigns, TurnCost, ignored, title_of, unlinked
from agentic.context.entries import Attachment, Entry, Speaker
from agentic.llm.types import Picture
from agentic.process.tasks import BackgroundTasks
from agentic.services.signal.client import NOT_SENT, MessageRef, Quoted
from agentic.services.signal.contacts import Contact
from agentic.services.signal.errors import NotConnected, Refused, SignalError, Unreachable
from agentic.services.signal.ids import file_id, masked, message_id, timestamp_of
from agentic.services.signal.markdown import Run, Style, parse, plain
from agentic.services.signal.splitting import split_runs
from agentic.services.signal.styled_text import styled
from agentic.services.signal.typing import TypingSign
from agentic.services.signal.view import SignalView

MAX_QUOTE = 300  # characters of a quoted message; apps show its beginning
MAY_BE_MISSING = "A part of this answer may be missing: the connection broke while I was sending it."
LONGEST_EMOJI = 16  # characters

Claim = Callable[[str], Awaitable[bool]]
GiveUp = Callable[[str], Awaitable[None]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answered:
    """The message that a post quotes, with its author and the text that is shown of it."""

    message_id: int
    author: Contact
    text: str

    @property
    def quoted(self) -> Quoted:
        return Quoted(MessageRef(self.author.address, timestamp_of(self.message_id)), self.text)


class PartMayBeMissing(CannotPost):
    """The connection broke after a message was handed over: it may have been sent or not."""


class SignalSink(SinkWithoutSigns):
    """A chat as one agent writes into it.

    `may_post` is asked before each request that shows the agent, `claim` before each part of a post: whether nobody has
    claimed this key before. `give_up` ends a claim of a part that was not sent, so that the process that takes the turn
    over may send it. `clean` removes secrets from a text.
    """

    may_attach = True
    may_react = True
    _background: ClassVar[BackgroundTasks] = BackgroundTasks()

    def __init__(
        self,
        view: SignalView,
        *,
        may_post: Callable[[], bool],
        claim: Claim,
        give_up: GiveUp,
        clean: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._view, self._account = view, view.account
        self._may_post, self._claim, self._give_up, self._clean = may_post, claim, give_up, clean
        self._posted: dict[str, list[int]] = {}

    def refusal(self) -> str | None:
        """Why the agent may not write here; None when it may."""
        if self._recipient() is None:
            return "unknown_channel"
        person = self._account.chats.person(self._view.chat)
        if person is not None and not self._account.contacts.is_allowed(person):
            return "not_permitted"
        return None

    def know_as(self, inner_names: Mapping[str, str]) -> None:
        """Nobody is mentioned by a post."""

    def _recipient(self) -> str | None:
        return self._account.chats.recipient(self._view.chat)

    # -- posts --------------------------------------------------------------------------------------------------------

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignored) -> Posted:
        """Posts text and picture as one message, or as several where the text is too long. It mentions nobody.

        `noted` gets what is in the chat as soon as it is there. Raises CannotPost when nothing could be posted; when
        only a later part fails, what was posted counts. A post whose parts an earlier run has claimed has no message
        ids of those parts: whether they were sent is known to nobody. A part whose request broke on its way may be
        missing: the others are sent all the same, and a last line says so.
        """
        parts = split_runs(self._runs(post)) or [[]]
        posted: Posted | None = None
        broken: PartMayBeMissing | None = None

        async def send(key: str, runs: list[Run], picture: Picture | None, answered: Answered | None) -> None:
            nonlocal posted
            entry = await self._part(f"{turn_id}/{key}", runs, picture, answered)
            posted = _with(posted, entry)
            if entry is not None:
                self._posted.setdefault(turn_id, []).append(entry.id)
                noted(posted)

        for number, runs in enumerate(parts):
            picture = post.picture if number == len(parts) - 1 else None
            try:
                await send(str(number), runs, picture, self._answered(post) if number == 0 else None)
            except PartMayBeMissing as error:
                broken = error
            except CannotPost as error:
                if posted is None:
                    raise
                log.warning("only %d of %d messages of a post could be posted: %s", number, len(parts), error)
                return posted
        if posted is None:
            raise broken or CannotPost("signal_failed")
        if broken is not None:
            try:
                await send("missing", [Run(MAY_BE_MISSING, Style.ITALIC)], None, None)
            except CannotPost as error:
                log.warning("Signal: a person was not told that a part of an answer may be missing: %s", error)
        return posted

    async def _part(
        self, key: str, runs: list[Run], picture: Picture | None, answered: Answered | None
    ) -> Entry | None:
        """Sends one message, and adds it to the transcript; None where an earlier run has claimed it."""
        if (refusal := self.refusal()) is not None:
            raise CannotPost(refusal)
        if not self._may_post():
            raise CannotPost("not_ours")
        if not await self._claim(key):
            log.warning("Signal: part %s of a post may have been sent before, it is not sent again", key)
            return None
        recipient, pictures = self._recipient() or "", (picture,) if picture is not None else ()
        try:
            timestamp = await self._account.client.send(
                self._account.number,
                recipient,
                styled(runs),
                pictures=pictures,
                quoted=answered.quoted if answered is not None else None,
                may_send=self._may_post,
            )
        except SignalError as error:
            if _was_not_wanted(error):
                await self._give_up(key)
                raise CannotPost("not_ours") from error
            if isinstance(error, NotConnected):  # the server never got it, so another try can't double it
                await self._give_up(key)
            raise self._cannot_post(error) from error
        entry = self._entry(timestamp, plain(runs), pictures, answered)
        self._view.transcript.add(entry)
        return entry

    def _cannot_post(self, error: SignalError) -> CannotPost:
        number = masked(self._account.number)
        log.warning("Signal: a post of the account %s to chat %d failed: %s", number, self._view.channel_id, error)
        is_uncertain = isinstance(error, Unreachable) and not isinstance(error, NotConnected)
        is_uncertain |= isinstance(error, Refused) and error.is_uncertain
        return PartMayBeMissing("signal_failed") if is_uncertain else CannotPost("signal_failed")

    def _entry(self, timestamp: int, text: str, pictures: tuple[Picture, ...], answered: Answered | None) -> Entry:
        """The message as transcripts have it."""
        me = self._account.me
        number = message_id(me.base, timestamp)
        return Entry(
            id=number,
            speaker=Speaker(me.person, me.name, "agent", me.agent),
            text=text,
            created_at=timestamp / 1000,
            reply_to=answered.message_id if answered is not None else None,
            replied_to=answered.author.person if answered is not None else None,
            private=self._view.is_private,
            attachments=tuple(self._attachment(number, picture) for picture in pictures),
        )

    def _attachment(self, number: int, picture: Picture) -> Attachment:
        name = f"picture.{picture.media_type.rpartition('/')[2]}"
        url = self._account.files.keep(picture)
        return Attachment(file_id(f"{number}/{name}"), name, url, len(picture.data), picture.media_type)

    # -- the text -----------------------------------------------------------------------------------------------------

    def _runs(self, post: Post) -> list[Run]:
        """The text and what stands below it. It is cleaned first: half a secret is not recognised."""
        text = self._clean(post.text or "").strip()
        runs = parse(text) if text else []
        for line in (*_source_lines(text, post), *([_cost_line(post.cost)] if post.cost is not None else ())):
            runs += [*([Run("\n\n" if not runs[-1].text.endswith("\n") else "\n")] if runs else []), line]
        return runs

    def _answered(self, post: Post) -> Answered | None:
        """The message that is quoted: in a group an answer to a person quotes their question."""
        number = post.reply_to
        if number is None and self._view.chat.is_group and post.ping is not None:
            number = post.asked
        author = self._account.contacts.author_of(number) if number is not None else None
        if number is None or author is None:
            return None
        entry = self._view.transcript.get(number)
        return Answered(number, author, entry.text[:MAX_QUOTE] if entry is not None else "")

    async def withdraw(self, turn_id: str, after: int | None = None) -> None:
        """Deletes what this sink has posted for a turn that came to nothing, for everybody."""
        recipient = self._recipient()
        for number in self._posted.pop(turn_id, ()):
            try:
                await self._account.client.remote_delete(self._account.number, recipient or "", timestamp_of(number))
            except SignalError as error:
                log.warning("Signal: message %d could not be deleted: %s", number, error)
            else:
                self._view.transcript.delete(number)

    # -- signs --------------------------------------------------------------------------------------------------------

    async def react(self, message_id: int, emoji: str) -> bool:
        """Gives a reaction in place of the agent's former one. False where the message is not one of this chat's,
        Signal refuses the emoji, or a person has stopped the chat."""
        return self._may_post() and await self._react(message_id, emoji)

    async def acknowledge(self, message_id: int, emoji: str) -> bool:
        """Gives a reaction also in a stopped chat, to show that an order was understood or is in force."""
        return await self._react(message_id, emoji)

    async def _react(self, number: int, emoji: str) -> bool:
        transcript, me = self._view.transcript, self._account.me
        author, recipient = self._account.contacts.author_of(number), self._recipient()
        if number not in transcript or author is None or recipient is None or not _is_emoji(emoji):
            return False
        message = MessageRef(author.address, timestamp_of(number))
        try:
            await self._account.client.react(self._account.number, recipient, message, emoji)
        except SignalError as error:
            log.info("Signal: message %d: reaction %s was not given: %s", number, emoji, error)
            return False
        entry = transcript.get(number)
        for former in entry.reactions if entry is not None else ():
            if former.emoji != emoji and me.name in former.by:
                transcript.unreact(number, former.emoji, me.person, bot=True)
        transcript.react(number, emoji, me.person, me.name, bot=True)
        return True

    @contextmanager
    def typing(self) -> Iterator[None]:
        """Shows typing beside the work within; nothing waits for it."""
        sign = TypingSign(self._show_typing, self._background)
        try:
            yield
        finally:
            sign.stop()

    async def _show_typing(self, shown: bool) -> None:
        recipient = self._recipient()
        if recipient is not None and (not shown or self._may_post()):
            await self._account.client.typing(self._account.number, recipient, shown=shown)


def _was_not_wanted(error: SignalError) -> bool:
    return isinstance(error, Refused) and error.status == NOT_SENT


def _with(before: Posted | None, entry: Entry | None) -> Posted:
    """The post with one more message; 0 stands for a message that an earlier run has claimed."""
    before = before or Posted(0)
    if entry is None:
        return before
    url = entry.attachments[0].url if entry.attachments else before.picture_url
    return Posted(before.message_id or entry.id, url, (*before.message_ids, entry.id))


def _source_lines(text: str, post: Post) -> Iterator[Run]:
    for source in unlinked(text, post.sources):
        yield Run(f"{title_of(source)}: {source.url}")


def _cost_line(cost: TurnCost) -> Run:
    """One line: model, cost, tokens in and out, the agent's total of the day."""
    usage = cost.usage
    tokens = f"{usage.input_tokens:,} in / {usage.output_tokens:,} out"
    parts = [usage.model, f"${usage.cost_usd:.4f}", tokens, f"today ${cost.day_total_usd:.2f}"]
    return Run(" · ".join(part for part in parts if part), Style.ITALIC)


def _is_emoji(emoji: str) -> bool:
    """Whether Signal may take it for one: an emoji of a server has a name of letters."""
    return bool(emoji) and len(emoji) <= LONGEST_EMOJI and not any(char.isascii() and char.isalpha() for char in emoji)
