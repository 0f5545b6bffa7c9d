"""The sink of a persona without an account: posts in one Discord channel or thread, by its channel's webhook.

A webhook has a name, a picture and posts, and nothing else: a persona gives no reactions and shows no typing, since
both would show the bot that reads the channel for it. A post is not streamed: it appears whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from zlib import crc32

from agentic.chat.outlet import Post, Posted, SinkWithoutSigns, ignored, without_mark
from agentic.chat.splitting import split_text
from agentic.services.discord.channel_view import DiscordView
from agentic.services.discord.multipart import LIMIT, EarlierPosts, PostParts, put_all
from agentic.services.discord.name_markup import NameMarkup, user_ids
from agentic.services.discord.post_extras import extras_of, text_limit
from agentic.services.discord.source_line import text_with_sources
from agentic.services.discord.webhook_writer import WebhookWriter
from agentic.services.discord.webhooks import WebhookIdentity, Webhooks, may_use_webhooks

DEFAULT_AVATARS = 6  # Discord's own (discord.com/developers/docs/reference#image-formatting)


def default_avatar(agent: str) -> str:
    """One of Discord's default pictures, always the same for an agent."""
    return f"https://cdn.discordapp.com/embed/avatars/{crc32(agent.encode()) % DEFAULT_AVATARS}.png"


class WebhookSink(SinkWithoutSigns):
    """A channel or thread as a persona writes into it. `names` are agents' names by key; `may_post` is asked before
    each request."""

    may_attach = True
    may_react = False

    def __init__(
        self,
        view: DiscordView,
        webhooks: Webhooks,
        face: WebhookIdentity,
        *,
        names: Mapping[str, str],
        may_post: Callable[[], bool],
    ) -> None:
        self._view, self._names = view, names
        self._inner_names: Mapping[str, str] = {}
        self._writer = WebhookWriter(view, webhooks, face, may_post=may_post)

    def refusal(self) -> str | None:
        """Why the persona may not take a turn here. A locked thread is open to webhooks."""
        return None if may_use_webhooks(self._view.channel) else "not_permitted"

    def know_as(self, inner_names: Mapping[str, str]) -> None:
        """Sets further names of agents, by key: `@name` in what the persona writes is then a mention."""
        self._inner_names = inner_names

    async def post(self, post: Post, turn_id: str, noted: Callable[[Posted], None] = ignored) -> Posted:
        """Posts text and picture as one message, or as several where the text is too long. It pings nobody.

        `noted` gets what is in the channel as soon as it is there. Raises CannotPost when nothing could be posted; when
        only a later part fails, what was posted counts.
        """
        earlier = EarlierPosts(await self._writer.since(post.after) if post.after is not None else ())
        parts = PostParts(self._writer, turn_id, earlier)
        text = without_mark(text_with_sources(post))
        texts: list[str | None] = [*self._split(text, text_limit(post, LIMIT))] or [None]
        return await put_all(parts, texts, await extras_of(post, self._view.channel, embeds=True), noted)

    def _split(self, text: str, limit: int) -> list[str]:
        """Splits a text after it was cleaned: half a secret is not recognised."""
        ids = user_ids(self._view.transcripts.directory, self._names, self._inner_names)
        markup = NameMarkup(self._view.channel, self._view.transcript, ids)
        return split_text(markup.to_markup(self._view.gate.clean(text)), limit)
