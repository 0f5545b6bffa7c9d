"""An agent's chats on Signal: a chat's view and sink, and all chats of an account."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import ClassVar

from agentic.agent.services import Services
from agentic.chat.attachments import DEFAULT_LIMITS, Attached, AttachmentLimits
from agentic.chat.heard import HeardChannels, HeardView
from agentic.chat.outlet import (
    CannotPost,
    Outlet,
    Post,
    Posted,
    ServiceInfo,
    SinkWithoutSigns,
    TypingSign,
    ignore_post,
    pick_sources,
    title_of,
)
from agentic.chat.service import ChannelInfo
from agentic.context.entries import Addressees, Attachment, Entry, Speaker
from agentic.llm.types import Picture
from agentic.process.tasks import BackgroundTasks
from agentic.services.signal.client import (
    NOT_SENT,
    MessageRef,
    NotConnected,
    Quoted,
    Refused,
    SignalError,
    Unreachable,
    picture_name,
)
from agentic.services.signal.contacts import Chat, SignalAccount
from agentic.services.signal.envelopes import file_id, mask_address, message_id, timestamp_of
from agentic.services.signal.settings import SignalSettings
from agentic.services.signal.styled_text import Run, Style, parse, plain, split_runs, to_styled_text
from agentic.state.leases import AnyLease
from agentic.state.posts import PostClaims

REFRESH = 10.0  # seconds; Signal's apps hide a typing indicator after 15 s
MAX_QUOTE = 300  # characters of a quoted message; apps show its beginning
MAX_EMOJI = 16  # characters
MAY_BE_MISSING = "Part of this answer may be missing: the connection broke while I was sending it."

SIGNAL = ServiceInfo(
    key="signal",
    name="Signal",
    membership="an AI that people chat with on Signal",
    members="AIs that people chat with on Signal",
    heading="The chat {}",
    markup="Signal's style: **bold**, *italic*, ~~struck~~, `code`, and links as plain addresses",
)

log = logging.getLogger(__name__)


class SignalView(HeardView):
    """A chat as one account reads it. signal-cli-rest-api can't read pinned messages."""

    service = SIGNAL

    def __init__(self, account: SignalAccount, chat: Chat) -> None:
        super().__init__(chat.channel_id, chat.name, account.transcripts, is_group=chat.is_group)
        self.account, self.chat = account, chat

    @property
    def own_name(self) -> str:
        return self.account.me.name

    @property
    def own_ids(self) -> frozenset[int]:
        return frozenset((self.account.me.person,))

    async def attached(self, entries: Sequence[Entry], limits: AttachmentLimits = DEFAULT_LIMITS) -> Attached:
        return await self.account.attachments.read(entries, limits)


class PartMayBeMissing(CannotPost):
    """The connection broke after a message was handed over, so it may have been sent."""


class SignalSink(SinkWithoutSigns):
    """A chat as one agent writes to it. A post isn't streamed: it appears whole.

    A message on Signal has nothing by which a later run could recognize it. So each part of a post is claimed in Redis
    before it is sent: a resumed turn never repeats a part that an earlier run may have sent.

    `lease` is checked before each visible request. If a part certainly wasn't sent, its claim is released so that the
    process that takes over the turn may send it. `clean` removes secrets from a text.
    """

    may_attach = True
    may_react = True
    _background: ClassVar[BackgroundTasks] = BackgroundTasks()

    def __init__(
        self, view: SignalView, *, lease: AnyLease, claims: PostClaims, clean: Callable[[str], str] = lambda text: text
    ) -> None:
        self._view, self._account = view, view.account
        self._agent, self._lease, self._claims, self._clean = self._account.me.agent or "", lease, claims, clean
        self._posted: dict[str, list[int]] = {}

    @property
    def _recipient(self) -> str | None:
        return self._account.chats.recipient(self._view.chat)

    def refusal(self) -> str | None:
        """Return why the agent may not write here, or None if it may."""
        if self._recipient is None:
            return "unknown_channel"
        person = self._account.chats.person(self._view.chat)
        is_allowed = person is None or self._account.contacts.is_allowed(person)
        return None if is_allowed else "not_permitted"

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignore_post) -> Posted:
        """Post text and picture as one message, or as several if the text is too long. It mentions nobody.

        `noted` is called after each message that is sent. Raises CannotPost if nothing could be posted; if a later part
        fails, the result contains the earlier ones. Parts that an earlier run claimed have no message ids, because
        nobody knows if they were sent. If a part's request breaks, the part may be missing: the others are sent anyway,
        and a last line says so.
        """
        text = self._clean(post.text or "").strip()  # before it is split: half a secret isn't recognized
        text_runs = parse(text) if text else []
        below = [Run(f"{title_of(source)}: {source.url}") for source in pick_sources(text, post.sources)]
        for line in (*below, *([Run(str(post.cost), Style.ITALIC)] if post.cost is not None else ())):
            if text_runs:
                text_runs.append(Run("\n" if text_runs[-1].text.endswith("\n") else "\n\n"))
            text_runs.append(line)
        parts = split_runs(text_runs) or [[]]
        answered = post.reply_to
        if answered is None and self._view.chat.is_group and post.ping is not None:
            answered = post.asked  # in a group, an answer to a person quotes their question
        posted: Posted | None = None
        broken: PartMayBeMissing | None = None

        async def send(key: str, runs: list[Run], picture: Picture | None, number: int | None) -> None:
            nonlocal posted
            entry = await self._send_part(f"{turn_id}/{key}", runs, picture, number)
            posted = posted or Posted(0)  # 0 for a message that an earlier run claimed
            if entry is not None:
                url = entry.attachments[0].url if entry.attachments else posted.picture_url
                posted = Posted(posted.message_id or entry.id, url, (*posted.message_ids, entry.id))
                self._posted.setdefault(turn_id, []).append(entry.id)
                noted(posted)

        for number, runs in enumerate(parts):
            picture = post.picture if number == len(parts) - 1 else None
            try:
                await send(str(number), runs, picture, answered if number == 0 else None)
            except PartMayBeMissing as error:
                broken = error
            except CannotPost as error:
                if posted is None:
                    raise
                log.warning("Signal: posting failed after %d of %d messages: %s", number, len(parts), error)
                return posted
        if posted is None:
            raise broken or CannotPost("signal_failed")
        if broken is not None:
            try:
                await send("missing", [Run(MAY_BE_MISSING, Style.ITALIC)], None, None)
            except CannotPost as error:
                log.warning("Signal: posting the note that part of an answer may be missing failed: %s", error)
        return posted

    async def _send_part(
        self, key: str, runs: list[Run], picture: Picture | None, answered: int | None
    ) -> Entry | None:
        """Send one message, which quotes the message it answers, and add it to the transcript. Return None if an
        earlier run claimed it."""
        if (refusal := self.refusal()) is not None:
            raise CannotPost(refusal)
        if not self._lease.is_held:
            raise CannotPost("not_ours")
        if not await self._claims.first(self._agent, key):
            log.warning("Signal: part %s of a post may have been sent before; it is not sent again", key)
            return None
        account, me = self._account, self._account.me
        quoted: Quoted | None = None
        author = account.contacts.author_of(answered) if answered is not None else None
        if answered is not None and author is not None:
            question = self._view.transcript.get(answered)
            text = question.text[:MAX_QUOTE] if question is not None else ""
            quoted = Quoted(MessageRef(author.address, timestamp_of(answered)), text)
        try:
            timestamp = await account.client.send(
                account.number,
                self._recipient or "",
                to_styled_text(runs),
                pictures=(picture,) if picture is not None else (),
                quoted=quoted,
                may_send=lambda: self._lease.is_held,
            )
        except SignalError as error:
            if isinstance(error, Refused) and error.status == NOT_SENT:
                await self._claims.give_up(self._agent, key)
                raise CannotPost("not_ours") from error
            if isinstance(error, NotConnected):  # the server never got it, so another try can't duplicate it
                await self._claims.give_up(self._agent, key)
            number, chat = mask_address(account.number), self._view.channel_id
            log.warning("Signal: a post of the account %s to chat %d failed: %s", number, chat, error)
            is_uncertain = isinstance(error, Unreachable) and not isinstance(error, NotConnected)
            is_uncertain |= isinstance(error, Refused) and error.is_uncertain
            raise (PartMayBeMissing if is_uncertain else CannotPost)("signal_failed") from error
        own_id, files = message_id(me.base, timestamp), list[Attachment]()
        if picture is not None:
            name, url = picture_name(picture), account.files.keep(picture)
            files.append(Attachment(file_id(f"{own_id}/{name}"), name, url, len(picture.data), picture.media_type))
        entry = Entry(
            id=own_id,
            speaker=Speaker(me.person, me.name, "agent", me.agent),
            text=plain(runs),
            created_at=timestamp / 1000,
            reply_to=answered if author is not None else None,
            addressees=Addressees(replied_to=author.person if author is not None else None),
            private=self._view.is_private,
            attachments=tuple(files),
        )
        self._view.transcript.add(entry)
        return entry

    async def withdraw(self, turn_id: str, after: int | None = None) -> None:
        """Delete for everyone the messages that this sink posted for a failed turn."""
        client, recipient = self._account.client, self._recipient or ""
        for number in self._posted.pop(turn_id, ()):
            try:
                await client.remote_delete(self._account.number, recipient, timestamp_of(number))
            except SignalError as error:
                log.warning("Signal: deleting message %d failed: %s", number, error)
            else:
                self._view.transcript.delete(number)

    async def react(self, message_id: int, emoji: str) -> bool:
        """React to a message, replacing the agent's earlier reaction. Return False if the message isn't in this chat,
        Signal rejects the emoji, or a person has stopped the chat."""
        return self._lease.is_held and await self.acknowledge(message_id, emoji)

    async def acknowledge(self, message_id: int, emoji: str) -> bool:
        """React even in a stopped chat, to show that a command was understood or is in effect."""
        account, transcript, me = self._account, self._view.transcript, self._account.me
        author, recipient = account.contacts.author_of(message_id), self._recipient
        # an emoji of a Discord server has a name of letters
        is_emoji = 0 < len(emoji) <= MAX_EMOJI and not any(char.isascii() and char.isalpha() for char in emoji)
        if message_id not in transcript or author is None or recipient is None or not is_emoji:
            return False
        message = MessageRef(author.address, timestamp_of(message_id))
        try:
            await account.client.react(account.number, recipient, message, emoji)
        except SignalError as error:
            log.info("Signal: reacting to message %d with %s failed: %s", message_id, emoji, error)
            return False
        entry = transcript.get(message_id)
        for former in entry.reactions if entry is not None else ():
            if former.emoji != emoji and me.name in former.by:
                transcript.unreact(message_id, former.emoji, me.person, bot=True)
        transcript.react(message_id, emoji, me.person, me.name, bot=True)
        return True

    def typing(self) -> TypingSign:
        async def show(shown: bool) -> None:
            if (recipient := self._recipient) is not None and (not shown or self._lease.is_held):
                try:
                    await self._account.client.typing(self._account.number, recipient, shown=shown)
                except SignalError as error:  # it is soon repeated
                    log.debug("Signal: showing typing failed: %s", error)

        return TypingSign(show, self._background, REFRESH)


class SignalChannels(HeardChannels):
    """The known chats of one agent's account, from this run and earlier ones. `lease` says whether this process acts
    for the agent."""

    def __init__(self, account: SignalAccount, services: Services, *, lease: AnyLease) -> None:
        super().__init__(services.silence, lease)
        self._account, self._services = account, services

    def own_id(self, _: int) -> int | None:
        return self._account.me.person

    def known(self) -> Sequence[ChannelInfo]:
        theme = SignalSettings.of(self._services.settings).signal_theme
        chats = self._account.chats.of_account(self._account.number)
        return [ChannelInfo(chat.channel_id, chat.name, theme, group=chat.is_group) for chat in chats]

    def view_of(self, channel_id: int) -> SignalView | None:
        """Return the view of a chat, or None if the account isn't in it."""
        chat = self._account.chats.get(channel_id)
        if chat is None or self._account.number not in chat.accounts:
            return None
        return SignalView(self._account, chat)

    def make_outlet(self, channel_id: int, lease: AnyLease) -> Outlet | None:
        if (view := self.view_of(channel_id)) is None:
            return None
        claims, redact = self._services.state.posts.claims, self._services.chats.redact
        return Outlet(view, SignalSink(view, lease=lease, claims=claims, clean=redact))
