"""A persona's posts by webhook: unpatched py-cord and its own HTTP on the stand-in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import discord
import pytest

from agent_cogs.base import TranscriptCog
from agentic.chat.attachments import AttachmentReader
from agentic.chat.directory import Directory
from agentic.chat.outlet import CannotPost, Post, TurnCost
from agentic.chat.splitting import MAX_MESSAGE, length
from agentic.chat.transcript import Transcripts
from agentic.llm.types import Picture, Source, Usage
from agentic.local.discord import world as permissions
from agentic.process.redaction import Redactor
from agentic.services.discord.gate import Gate, OutboundShared
from agentic.services.discord.history import HistoryCache, HistoryFetcher
from agentic.services.discord.rate_limit import webhook_session
from agentic.services.discord.view import DiscordView
from agentic.services.discord.webhooks import WebhookIdentity, Webhooks, WebhookSink, default_avatar
from agentic.state.leases import ConditionalLease
from tests.support.discord.discord_standin_bots import one_bot
from tests.support.discord.faults import RestFault
from tests.support.doubles import PNG, MemoryPosts, Pictures

SECRET = "sesame-open-1234"
CLIO = WebhookIdentity("historian", "Clio", default_avatar("historian"))
BY_WEBHOOK = r"^/webhooks/"


@dataclass
class Room:
    """A thread in which a persona speaks; each sink is that of a new process."""

    server: Any
    bot: discord.Bot
    thread: Any
    directory: Directory
    posts: MemoryPosts
    transcripts: Transcripts
    outbound: OutboundShared
    session: Any
    may: bool = True

    def sink(self, face: WebhookIdentity = CLIO, channel: Any = None) -> WebhookSink:
        fetcher: Any = Pictures()
        view = DiscordView(
            channel or self.thread,
            gate=Gate(shared=self.outbound),
            transcripts=self.transcripts,
            fetcher=HistoryFetcher(self.transcripts),
            attachments=AttachmentReader(fetcher),
            history_cache=HistoryCache(self.transcripts),
        ).read_by(face.name)
        webhooks = Webhooks(self.session, self.directory, self.posts, self.outbound.refused)
        return WebhookSink(view, webhooks, face, names={"claude": "Claude"}, lease=ConditionalLease(lambda: self.may))

    @property
    def messages(self) -> list[Any]:
        found = self.server.world.channel(self.thread.id).messages.values()
        return [message for message in found if message.webhook_id]

    @property
    def texts(self) -> list[str]:
        return [message.content for message in self.messages]

    @property
    def newest(self) -> int:
        return max(self.server.world.channel(self.thread.id).messages, default=self.thread.id)

    def fail(self, **how: Any) -> None:
        self.server.faults.add(RestFault(method="POST", path=BY_WEBHOOK, **how))


@asynccontextmanager
async def room() -> AsyncIterator[Room]:
    async with one_bot() as (server, bot, channel), webhook_session() as session:
        directory = Directory()
        directory.learn("claude", bot.user.id)
        transcripts = Transcripts(directory)
        bot.add_cog(TranscriptCog(bot, transcripts))
        thread = await channel.create_thread(name="debate of the day", type=discord.ChannelType.public_thread)
        outbound = OutboundShared(Redactor([SECRET]))
        yield Room(server, bot, thread, directory, MemoryPosts(), transcripts, outbound, session)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr("agentic.services.discord.webhooks.RETRY_PAUSE", 0.0)


async def test_a_persona_speaks_in_a_thread_under_its_name_and_is_known_as_an_agent():
    async with room() as r:
        posted = await r.sink().post(Post(text=f"@everyone <@{r.bot.user.id}> rose in 1848, {SECRET}"), "t1")
        (message,) = r.messages
        assert (message.author.username, message.author.avatar) == ("Clio", default_avatar("historian"))
        assert (message.mention_everyone, message.mentions, SECRET in message.content) == (False, [], False)
        assert (posted.message_id, posted.message_ids) == (message.id, (message.id,))
        entry = r.transcripts.of(r.thread.id).get(message.id)
        assert (entry.speaker.agent, entry.speaker.name) == ("historian", "Clio")
        assert await r.posts.read(r.thread.id) == {message.id: "historian"}


async def test_a_long_text_is_several_messages_with_whole_blocks_and_the_picture_at_the_end():
    async with room() as r:
        code = "```py\n" + "x = 1\n" * 700 + "```"
        cost = TurnCost(Usage(model="opus", text_cost_usd=0.5), 1.5, 7)
        posted = await r.sink().post(Post(text=code, picture=Picture(PNG, "image/png"), cost=cost), "t1")
        assert all(length(text) <= MAX_MESSAGE and text.count("```") == 2 for text in r.texts)
        assert [(len(message.attachments), len(message.embeds)) for message in r.messages] == [(0, 0), (0, 0), (1, 1)]
        assert posted.message_ids == tuple(message.id for message in r.messages)
        assert posted.picture_url.endswith("picture.png")


async def test_sources_stand_below_the_words_as_in_a_bots_post():
    async with room() as r:
        sources = (Source("A [paper]", "https://a.example/x"), Source("", "javascript:alert(1)"))
        await r.sink().post(Post(text="So they say.", sources=sources), "t1")
        assert r.texts == ["So they say.\n-# [A (paper)](<https://a.example/x>)"]
        await r.sink().post(Post(text=None, picture=Picture(PNG, "image/png"), sources=sources), "t2")
        assert r.texts[1:] == [""]


async def test_a_picture_may_stand_alone():
    async with room() as r:
        await r.sink().post(Post(text=None, picture=Picture(PNG, "image/png")), "t1")
        assert (r.texts, len(r.messages[0].attachments)) == ([""], 1)


@pytest.mark.promise(161)
@pytest.mark.parametrize(
    "name",
    [
        "Clyde of Discord",
        "dis\u200bcord",
        "ＤＩＳＣＯＲＤ fan",
        "here",
        " Everyone ",
        "@here",
        "he\u200dre",
        "Dr: Who #1 @home",
        "```py```",
        "\u200b\u2800",
        "  ",
        "a\nb",
        "n" * 200,
        "🎃" * 80,
    ],
)
async def test_a_name_is_made_one_that_discord_takes_and_its_post_is_found_again(name):
    async with room() as r:
        after, odd = r.newest, WebhookIdentity("odd", name)
        await r.sink(odd).post(Post(text="hi"), "t1")
        await r.sink(odd).post(Post(text="hi", after=after), "t1")
        assert r.texts == ["hi"]


@pytest.mark.parametrize("name", ["Ada", "The Here and Now", "Nowhere", "C-3PO", "Zoë 🎃"])
async def test_a_name_that_discord_takes_is_shown_as_it_is(name):
    async with room() as r:
        await r.sink(WebhookIdentity("ada", name)).post(Post(text="hi"), "t1")
        assert r.messages[0].author.username == name


@pytest.mark.promise(160)
async def test_after_a_crash_what_was_posted_is_found_part_by_part_and_only_the_rest_is_posted():
    async with room() as r:
        after, text = r.newest, f"{'first ' * 300}\n\n{'second ' * 200}"
        await r.sink().post(Post(text=text), "t1")
        first, second = r.messages
        del r.server.world.channel(r.thread.id).messages[second.id]
        r.directory = Directory()
        r.directory.learn("claude", r.bot.user.id)
        posted = await r.sink().post(Post(text=text, after=after), "t1")
        assert [message.content for message in r.messages] == [first.content, second.content]
        assert posted.message_ids == (first.id, r.messages[1].id)
        assert r.directory.agent_of_post(first.id) == "historian"
        assert await r.sink().post(Post(text=text, after=after), "t1") == posted, "all of it is there"


@pytest.mark.promise(160)
async def test_after_a_crash_before_the_post_it_is_made():
    async with room() as r:
        await r.sink().post(Post(text="Yes."), "an earlier turn")
        await r.sink().post(Post(text="Yes.", after=r.newest), "t1")
        assert r.texts == ["Yes.", "Yes."]


@pytest.mark.promise(161)
async def test_a_post_of_a_foreign_webhook_or_of_another_persona_is_not_taken_for_its_own():
    async with room() as r:
        after = r.newest
        await r.sink(WebhookIdentity("poet", "Orpheus")).post(Post(text="Yes."), "another's turn")
        await r.server.say_as_webhook("Clio", r.thread.id, "Yes.")
        await r.sink().post(Post(text="Yes.", after=after), "t1")
        assert [message.author.username for message in r.messages] == ["Orpheus", "Clio", "Clio"]


@pytest.mark.promise(160)
@pytest.mark.parametrize(
    "fault", [{"cut": "after"}, {"cut": "before"}, {"status": 500}, {"status": 502, "late": True}], ids=str
)
async def test_a_post_whose_arrival_is_uncertain_is_looked_for_and_made_at_most_once_more(fault):
    async with room() as r:
        r.fail(**fault)
        posted = await r.sink().post(Post(text="Once."), "t1")
        assert (r.texts, posted.message_id) == (["Once."], r.messages[0].id)
        assert r.directory.agent_of_post(posted.message_id) == "historian"


@pytest.mark.promise(160)
async def test_where_the_channel_cannot_be_read_after_it_an_uncertain_post_is_not_made_again():
    async with room() as r:
        r.fail(cut="after")
        r.server.faults.add(RestFault(method="GET", path=r"/messages", status=403, times=None))
        with pytest.raises(CannotPost, match="discord_failed"):
            await r.sink().post(Post(text="Once."), "t1")
        assert r.texts == ["Once."]


@pytest.mark.promise(161)
async def test_a_deleted_webhook_is_recreated_and_the_post_is_made():
    async with room() as r:
        sink = r.sink()
        await sink.post(Post(text="one"), "t1")
        r.server.world.webhooks.clear()
        await sink.post(Post(text="two"), "t2")
        assert (r.texts, len(r.server.world.webhooks)) == (["one", "two"], 1)


@pytest.mark.promise(161)
async def test_without_the_permission_nothing_is_asked_and_the_reason_is_said():
    async with room() as r:
        role = next(role for role in r.server.world.guild.roles.values() if role.bot_id == r.bot.user.id)
        sink, bits = r.sink(), role.permissions & ~permissions.MANAGE_WEBHOOKS & ~permissions.ADMINISTRATOR
        assert sink.refusal() is None
        await r.server.change_role(role.id, permissions=bits)
        await r.server.wait_for(lambda: sink.refusal() == "not_permitted")
        with pytest.raises(CannotPost, match="not_permitted"):
            await sink.post(Post(text="hi"), "t1")
        assert r.texts == []


@pytest.mark.promise(161)
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"status": 403}, "not_permitted"),
        ({"status": 400}, "discord_failed"),
        ({"status": 404, "body": {"code": 10003, "message": "Unknown Channel"}}, "unknown_channel"),
    ],
)
async def test_a_refusal_of_discord_is_the_results_reason(fault, reason):
    async with room() as r:
        r.fail(**fault)
        with pytest.raises(CannotPost, match=reason):
            await r.sink().post(Post(text="hi"), "t1")


async def test_nothing_is_posted_once_another_process_has_the_lease():
    async with room() as r:
        r.may = False
        with pytest.raises(CannotPost, match="not_ours"):
            await r.sink().post(Post(text="hi"), "t1")
        assert (r.texts, len(r.server.world.webhooks)) == ([], 0)


async def test_a_persona_shows_nothing_but_its_posts():
    async with room() as r:
        sink, asked = r.sink(), sum(r.server.counts.values())
        said = await r.server.say("you", r.thread.id, "hello")
        with sink.typing():
            async with sink.streaming("t1") as post:
                post.update("A text that is being written. " * 10)
        assert not await sink.react(int(said["id"]), "👍")
        await sink.withdraw("t1", after=1)
        assert sum(r.server.counts.values()) == asked


async def test_a_view_for_a_persona_has_its_name_and_is_mentioned_by_no_id():
    async with room() as r:
        view = r.sink()._view
        assert (view.own_name, view.own_ids, view.channel_id) == ("Clio", frozenset(), r.thread.id)
