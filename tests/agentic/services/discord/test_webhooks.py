"""Webhooks, files, pins and streaming posts, by unpatched py-cord on the stand-in."""

import asyncio
import io
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import discord
import pytest
from PIL import Image

from agent_cogs.base import TranscriptCog
from agentic.chat.attachments import AttachmentLimits, AttachmentReader
from agentic.chat.directory import Directory
from agentic.chat.outlet import Outlet, Post
from agentic.chat.splitting import MAX_MESSAGE, length
from agentic.chat.transcript import Transcripts
from agentic.llm.types import Picture
from agentic.local.discord import world as permissions
from agentic.local.discord.rest_guilds import make_webhook
from agentic.local.discord.world import User
from agentic.net.images import PictureFetcher
from agentic.process.redaction import Redactor
from agentic.services.discord.gate import Gate, OutboundShared, fit
from agentic.services.discord.history import HistoryCache, HistoryFetcher
from agentic.services.discord.rate_limit import NARROW_AT
from agentic.services.discord.sink import STREAMING_LIMIT, DiscordSink
from agentic.services.discord.view import DiscordView
from agentic.services.discord.webhooks import NAME, WebhookIdentity, Webhooks
from agentic.state.leases import ALWAYS_HELD
from tests.support.discord.discord_standin_bots import one_bot
from tests.support.discord.rendering import render
from tests.support.doubles import MemoryPosts

SECRET = "sesame-open-1234"
CLAUDE = WebhookIdentity("claude", "Claude")


@dataclass
class House:
    server: object
    bot: discord.Bot
    channel: discord.TextChannel
    gate: Gate
    directory: Directory
    posts: MemoryPosts
    transcripts: Transcripts
    session: aiohttp.ClientSession
    outbound: OutboundShared
    fetcher: HistoryFetcher

    def webhooks(self):
        return Webhooks(self.session, self.directory, self.posts, self.outbound.refused)

    def outlet(self, channel=None):
        origin = self.server.api_base.split("/api")[0]
        view = DiscordView(
            channel or self.channel,
            gate=self.gate,
            transcripts=self.transcripts,
            fetcher=self.fetcher,
            attachments=AttachmentReader(PictureFetcher(self.session, extra_origins=[origin])),
            history_cache=HistoryCache(self.transcripts),
        )
        sink = DiscordSink(view, names={"claude": "Claude"}, posting=ALWAYS_HELD, lease=ALWAYS_HELD)
        return Outlet(view, sink)

    def asked(self, method, route):
        return self.server.counts[f"{method} {route}"]

    def texts(self):
        return [m["content"] for m in self.server.messages("debate") if m["type"] in (0, 19)]


@asynccontextmanager
async def services():
    async with one_bot() as (server, bot, channel):
        directory, outbound = Directory(), OutboundShared(Redactor([SECRET]))
        directory.learn("claude", bot.user.id)
        transcripts = Transcripts(directory)
        fetcher = HistoryFetcher(transcripts)
        bot.add_cog(TranscriptCog(bot, transcripts))
        async with aiohttp.ClientSession() as session:
            yield House(
                server,
                bot,
                channel,
                Gate(shared=outbound),
                directory,
                MemoryPosts(),
                transcripts,
                session,
                outbound,
                fetcher,
            )
        await fetcher.aclose()


MAKE, LIST = ("POST", "/channels/{channel_id}/webhooks"), ("GET", "/channels/{channel_id}/webhooks")


async def test_a_channel_has_one_webhook_that_a_restarted_process_finds_again():
    async with services() as h:
        webhooks = h.webhooks()
        first = await webhooks.send(h.gate, h.channel, ".claude>[clock]: now", CLAUDE)
        await webhooks.send(h.gate, h.channel, ".claude<[clock]: noon", CLAUDE)
        await h.webhooks().send(h.gate, h.channel, ".after a restart", CLAUDE)
        assert (h.asked(*MAKE), h.asked(*LIST), len(h.server.world.webhooks)) == (1, 2, 1)
        assert await h.posts.read(h.channel.id) == dict.fromkeys((m.id for m in _all(h)), "claude")
        assert h.directory.agent_of_post(first) == "claude"
        assert {m["author"]["username"] for m in h.server.messages("debate")} == {"Claude"}


def _all(h):
    return h.server.world.channel("debate").messages.values()


@pytest.mark.promise(1)
async def test_an_edited_post_pings_nobody_and_holds_no_secret():
    async with services() as h:
        webhooks = h.webhooks()
        text = f".claude>[x]: @everyone <@{h.bot.user.id}> {SECRET}"
        post = await webhooks.send(h.gate, h.channel, text, CLAUDE)
        (message,) = _all(h)
        assert (message.mention_everyone, message.mentions) == (False, [])
        assert SECRET not in message.content
        assert await webhooks.edit(h.gate, h.channel, post, f"@everyone {SECRET} done")
        assert h.texts() == ["@everyone [redacted] done"]
        assert message.mention_everyone is False


async def test_a_thread_uses_its_channels_webhook():
    async with services() as h:
        thread = await h.channel.create_thread(name="side", type=discord.ChannelType.public_thread)
        webhooks = h.webhooks()
        await webhooks.send(h.gate, h.channel, ".above", CLAUDE)
        post = await webhooks.send(h.gate, thread, ".in here", CLAUDE)
        assert await webhooks.edit(h.gate, thread, post, ".in here, edited")
        assert h.asked(*MAKE) == 1
        assert [m.content for m in h.server.world.channel(thread.id).messages.values()][-1] == ".in here, edited"
        assert await h.posts.read(thread.id) == {post: "claude"}


@pytest.mark.promise(61)
async def test_a_deleted_webhook_is_recreated_once_for_a_post():
    async with services() as h:
        webhooks = h.webhooks()
        old = await webhooks.send(h.gate, h.channel, ".one", CLAUDE)
        h.server.world.webhooks.clear()
        assert await webhooks.send(h.gate, h.channel, ".two", CLAUDE) is not None
        assert (h.asked(*MAKE), len(h.server.world.webhooks)) == (2, 1)
        assert not await webhooks.edit(h.gate, h.channel, old, ".edited"), "its webhook is gone"
        h.server.world.webhooks.clear()
        make = h.gate.make_webhook

        async def make_and_lose(*arguments):
            made = await make(*arguments)
            h.server.world.webhooks.clear()
            return made

        h.gate.make_webhook = make_and_lose
        assert await webhooks.send(h.gate, h.channel, ".three", CLAUDE) is None
        assert (h.asked(*MAKE), h.texts()) == (3, [".one", ".two"])


async def test_without_the_permission_one_line_says_so_and_nothing_is_asked(caplog):
    async with services() as h:
        role = next(r for r in h.server.world.guild.roles.values() if r.bot_id == h.bot.user.id)
        bits = role.permissions & ~permissions.MANAGE_WEBHOOKS & ~permissions.ADMINISTRATOR
        await h.server.change_role(role.id, permissions=bits)
        await h.server.wait_for(lambda: not h.channel.permissions_for(h.channel.guild.me).manage_webhooks)
        webhooks = h.webhooks()
        with caplog.at_level(logging.INFO, "agentic.services.discord"):
            for _ in range(3):
                assert await webhooks.send(h.gate, h.channel, ".x", CLAUDE) is None
                assert not await webhooks.edit(h.gate, h.channel, 1, ".y")
        ours = [record for record in caplog.records if record.name.startswith("agentic.services.discord")]
        assert [record.getMessage().count("Manage Webhooks") for record in ours] == [1]
        assert h.asked(*MAKE) == h.asked(*LIST) == 0


async def test_a_webhook_of_somebody_else_is_not_ours_whatever_its_name():
    async with services() as h:
        await h.server.say_as_webhook("Claude", "debate", "I am Claude")
        for webhook in h.server.world.webhooks.values():
            webhook.name = NAME
        await h.webhooks().send(h.gate, h.channel, ".mine", CLAUDE)
        assert h.asked(*MAKE) == 1
        await h.outlet().view.ensure_history()
        entries = h.outlet().view.transcript.entries()
        assert [(e.text, e.speaker.kind) for e in entries] == [("I am Claude", "stranger"), (".mine", "agent")]


async def test_a_webhook_that_another_of_our_bots_made_comes_without_its_token_and_is_not_used():
    async with services() as h:
        world, channel = h.server.world, h.server.world.channel("debate")
        made_by_grok = make_webhook(h.server.world, channel, NAME, 4242, 4343)
        world.users[4242] = User(4242, "Grok", bot=True)
        h.directory.learn("grok", 4242)
        [listed] = await h.channel.webhooks()
        assert (listed.id, listed.token, listed.user.id) == (made_by_grok.id, None, 4242)
        assert await h.webhooks().send(h.gate, h.channel, ".mine", CLAUDE) is not None
        assert (h.asked(*MAKE), len(world.webhooks)) == (1, 2)


async def test_of_several_webhooks_of_ours_the_oldest_is_used_whichever_is_listed_first():
    async with services() as h:
        for _ in range(2):
            await h.gate.make_webhook(h.channel, NAME)
        oldest, newest = sorted(h.server.world.webhooks.values(), key=lambda webhook: webhook.id)
        for listed in ((oldest, newest), (newest, oldest)):
            h.server.world.webhooks = {webhook.id: webhook for webhook in listed}
            assert await h.webhooks().send(h.gate, h.channel, ".mine", CLAUDE) is not None
        assert [message.webhook_id for message in _all(h)] == [oldest.id] * 2


async def test_concurrent_posts_in_a_new_channel_share_one_webhook():
    async with services() as h:
        webhooks = h.webhooks()
        posts = await asyncio.gather(*(webhooks.send(h.gate, h.channel, f".{n}", CLAUDE) for n in range(3)))
        assert None not in posts
        assert (h.asked(*LIST), h.asked(*MAKE)) == (1, 1)


@pytest.mark.promise(61)
async def test_a_webhook_that_is_found_gone_at_an_edit_is_not_tried_again_and_one_that_is_there_is_kept():
    async with services() as h:
        webhooks = h.webhooks()
        post = await webhooks.send(h.gate, h.channel, ".x", CLAUDE)
        assert not await webhooks.edit(h.gate, h.channel, 4242, ".no such message")
        assert await webhooks.edit(h.gate, h.channel, post, ".y")
        assert h.asked(*LIST) == 1, "it is the message that is gone"
        h.server.world.webhooks.clear()
        assert not await webhooks.edit(h.gate, h.channel, post, ".z")
        refused = h.server.counts.get("404", 0)
        assert await webhooks.send(h.gate, h.channel, ".again", CLAUDE) is not None
        assert h.server.counts.get("404", 0) == refused, "nothing more is asked of the webhook that is gone"


async def test_a_name_is_shown_without_secrets_too():
    async with services() as h:
        await h.webhooks().send(h.gate, h.channel, ".hi", WebhookIdentity("claude", f"Claude {SECRET}"))
        (message,) = h.server.messages("debate")
        assert message["author"]["username"] == "Claude [redacted]"


async def test_no_log_shows_a_webhooks_token(caplog):
    async with services() as h:
        webhooks = h.webhooks()
        with caplog.at_level(logging.DEBUG, "agentic.services.discord"):
            post = await webhooks.send(h.gate, h.channel, ".x", CLAUDE)
            tokens = [webhook.token for webhook in h.server.world.webhooks.values()]
            h.server.world.webhooks.clear()
            await webhooks.edit(h.gate, h.channel, post, ".y")
            await webhooks.send(h.gate, h.channel, ".z", CLAUDE)
        tokens += [webhook.token for webhook in h.server.world.webhooks.values()]
        assert len(tokens) == 2
        assert not any(token in caplog.text for token in tokens)


async def test_refusals_of_webhooks_are_counted_with_the_others():
    async with services() as h:
        webhooks = h.webhooks()
        await webhooks.send(h.gate, h.channel, ".x", CLAUDE)
        for webhook in h.server.world.webhooks.values():
            webhook.token = "another"
        before = h.outbound.refused.recent()
        await webhooks.send(h.gate, h.channel, ".y", CLAUDE)
        assert h.outbound.refused.recent() == before + 1


@pytest.mark.parametrize("text", ["x" * 5000, "🙂" * 1500, "🙂" + "x" * 5000, "short"])
def test_a_text_by_webhook_is_one_message(text):
    assert length(fit(text)) <= MAX_MESSAGE
    assert fit(text)[:5] == text[:5]
    assert ("cut here" in fit(text)) is (text != "short")


# -- an outlet over the wire ------------------------------------------------------------------------------------------


def drawn(size=(3000, 20)):
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, "PNG")
    return out.getvalue()


@pytest.mark.promise(517)
async def test_a_spoiler_is_hidden_while_it_is_written():
    async with services() as h:
        outlet = h.outlet()
        async with outlet.sink.streaming("t1", ping=None) as post:
            post.update("A story that is long enough to be shown. ||The killer is the gardener ")
            await h.server.wait_for(lambda: outlet.view.transcript.newest)
        (message,) = h.server.messages("debate")
        assert all("spoiler" in styles for char, styles in render(message["content"]) if char in "Tk")


async def test_a_post_is_streamed_by_edits_and_ends_with_its_picture():
    async with services() as h:
        outlet = h.outlet()
        async with outlet.sink.streaming("t1", ping=None) as post:
            post.update("An answer that is long enough to be shown, " * 2)
            await h.server.wait_for(lambda: outlet.view.transcript.newest)
            assert h.texts()[0].endswith("▌")
            assert outlet.view.transcript.get(outlet.view.transcript.newest).hidden, "nobody reads the half of it"
            picture = Picture(drawn((10, 10)), "image/png")
            posted = await outlet.sink.post(Post(text="The whole answer, @everyone.", picture=picture), "t1")
        (message,) = _all(h)
        assert h.asked("POST", "/channels/{channel_id}/messages") == 1, "Discord knows a nonce for some minutes only"
        assert (message.content, len(message.attachments)) == ("The whole answer, @everyone.", 1)
        assert posted.message_id == message.id
        assert posted.picture_url.endswith("picture.png")
        assert not message.mention_everyone
        entry = outlet.view.transcript.get(message.id)
        assert (entry.text, entry.hidden) == ("The whole answer, @everyone.", False)


async def test_the_end_of_a_streaming_post_is_split_as_short_as_it_was_streamed():
    async with services() as h:
        outlet = h.outlet()
        async with outlet.sink.streaming("t1", ping=None) as post:
            post.update("An answer that is long enough to be shown, " * 2)
            await h.server.wait_for(lambda: outlet.view.transcript.newest)
            await outlet.sink.post(Post(text="x" * MAX_MESSAGE, split_at=MAX_MESSAGE), "t1")
        assert [length(text) for text in h.texts()] == [STREAMING_LIMIT, MAX_MESSAGE - STREAMING_LIMIT]


async def test_the_end_of_an_answer_to_a_person_passes_where_little_else_does():
    async with services() as h:
        you = next(m.user.id for m in h.server.world.guild.members.values() if not m.user.bot)
        outlet = h.outlet()
        async with outlet.sink.streaming("t1", ping=you) as post:
            post.update("An answer that is long enough to be shown, " * 2)
            await h.server.wait_for(lambda: outlet.view.transcript.newest)
            for _ in range(NARROW_AT):
                h.outbound.refused.count(403)
            await outlet.sink.post(Post(text="The whole answer.", ping=you), "t1")
        assert h.texts() == ["The whole answer."]


async def test_a_streaming_post_is_not_completed_by_another_turn():
    async with services() as h:
        outlet = h.outlet()
        async with outlet.sink.streaming("t1") as post:
            post.update("An answer that is long enough to be shown, " * 2)
            await h.server.wait_for(lambda: h.texts())
            await outlet.sink.post(Post(text="A line of another turn."), "t2")
            assert len(h.texts()) == 2
            await outlet.sink.post(Post(text="The whole answer."), "t1")
        assert h.texts() == ["The whole answer.", "A line of another turn."]


async def test_a_withdrawn_streaming_post_is_deleted():
    async with services() as h:
        outlet = h.outlet()
        async with outlet.sink.streaming("t1") as post:
            post.update("An answer that is long enough to be shown, " * 2)
            await h.server.wait_for(lambda: h.texts())
        await outlet.sink.withdraw("t1")
        await outlet.sink.withdraw("t1")
        assert h.texts() == []


async def test_a_restarted_process_brings_a_partial_post_to_its_end():
    async with services() as h:
        before = await h.server.say("you", "debate", "what do you think?")
        async with h.outlet().sink.streaming("t1") as post:
            post.update("An answer that is long enough to be shown, " * 2)
            await h.server.wait_for(lambda: len(h.texts()) == 2)
        restarted = h.outlet()
        posted = await restarted.sink.post(Post(text="Another answer.", after=int(before["id"])), "t1")
        assert h.texts() == ["what do you think?", "Another answer."]
        assert posted.message_id == list(_all(h))[-1].id


async def test_a_streaming_post_ends_the_typing():
    async with services() as h:
        outlet = h.outlet()
        with outlet.sink.typing():
            async with outlet.sink.streaming("t1") as post:
                post.update("An answer that is long enough to be shown, " * 2)
                await h.server.wait_for(lambda: h.texts())
            (sign,) = outlet.sink._typing
            assert sign._over.is_set()


async def test_a_pinned_command_has_its_authors_rights():
    async with services() as h:
        pin = await h.server.say("you", "debate", ".config\n---\nmode: chat")
        await h.server.pin("you", "debate", int(pin["id"]))
        members = h.bot._connection._guilds[h.channel.guild.id]._members
        for user_id in members.keys() - {h.bot.user.id}:  # as with the program's own cache flags
            del members[user_id]
        outlet = h.outlet()
        await outlet.view.ensure_history()
        ((entry,),) = outlet.view.pins
        owner = h.server.world.guild.owner_id == entry.speaker.id
        assert (entry.hidden, entry.pinned, entry.speaker.may_manage) == (True, True, owner)
        assert entry.speaker.roles
        later = await h.server.say("you", "debate", ".config\n---\nmode: prefill")
        await h.server.pin("you", "debate", int(later["id"]))
        await h.server.wait_for(lambda: not outlet.view.transcript.pins.known)
        await outlet.view.ensure_history()
        assert [e.text for e in outlet.view.pins[-1]] == [".config\n---\nmode: chat", ".config\n---\nmode: prefill"]
        await h.server.pin("you", "debate", int(pin["id"]), pinned=False)
        await h.server.wait_for(lambda: len(outlet.view.pins[-1]) == 1)


async def test_a_thread_has_its_parents_pins_before_its_own():
    async with services() as h:
        thread = await h.channel.create_thread(name="side", type=discord.ChannelType.public_thread)
        for place, text in (("debate", "above"), (thread.id, "below")):
            pin = await h.server.say("you", place, text)
            await h.server.pin("you", place, int(pin["id"]))
        outlet = h.outlet(thread)
        await outlet.view.ensure_history()
        assert [[entry.text for entry in pins] for pins in outlet.view.pins] == [["above"], ["below"]]


async def test_a_bot_that_may_not_read_the_past_says_nothing_of_the_pins(monkeypatch):
    async with services() as h:
        pin = await h.server.say("you", "debate", "rules")
        await h.server.pin("you", "debate", int(pin["id"]))
        outlet = h.outlet()
        await outlet.view.ensure_history()
        outlet.view.transcript.pins.mark_stale()
        monkeypatch.setattr(type(outlet.view.channel), "permissions_for", lambda *_: discord.Permissions.none())
        await outlet.view.ensure_history()
        assert [entry.text for entry in outlet.view.pins[-1]] == ["rules"]
        assert not outlet.view.transcript.pins.known


async def test_attached_files_are_shown_as_pictures_that_fit_and_as_text_once():
    async with services() as h:
        notes = b"# Notes\nh\xc3\xa9"
        files = [("big.png", drawn()), ("notes.md", notes), ("old.txt", b"caf\xe9"), ("x.txt", bytes(range(32)))]
        await h.server.say("you", "debate", "look", attachments=[(*file, None) for file in files])
        await h.server.say("you", "debate", "again", attachments=[("copy.md", notes, None)])
        outlet = h.outlet()
        await outlet.view.ensure_history()
        entries = outlet.view.transcript.entries()
        found = await outlet.view.attached(entries, AttachmentLimits(characters=6))
        ((picture,),) = found.pictures.values()
        assert Image.open(io.BytesIO(picture.data)).size[0] == 2048
        assert [(file.name, file.text, file.left_out) for file in found.texts.values()] == [
            ("notes.md", "# Note", 4),
            ("old.txt", "café", 0),
        ]


async def test_a_command_is_deleted_beside_the_work_and_stays_where_that_is_not_allowed(caplog):
    async with services() as h:
        command = int((await h.server.say("you", "debate", "m continue"))["id"])
        h.outlet().sink.command_replies.discard(command)
        may = h.channel.permissions_for(h.channel.guild.me).manage_messages
        if may:
            await h.server.wait_for(lambda: h.texts() == [])
        role = next(r for r in h.server.world.guild.roles.values() if r.bot_id == h.bot.user.id)
        bits = role.permissions & ~permissions.MANAGE_MESSAGES & ~permissions.ADMINISTRATOR
        await h.server.change_role(role.id, permissions=bits)
        await h.server.wait_for(lambda: not h.channel.permissions_for(h.channel.guild.me).manage_messages)
        deleted = h.asked("DELETE", "/channels/{channel_id}/messages/{message_id}")
        with caplog.at_level(logging.INFO, "agentic.services.discord"):
            h.outlet().sink.command_replies.discard(command)
        assert "Manage Messages" in caplog.text
        assert h.asked("DELETE", "/channels/{channel_id}/messages/{message_id}") == deleted


async def test_a_wrong_pin_is_answered_with_a_hidden_line_and_a_context_is_a_file_without_secrets():
    async with services() as h:
        pin = int((await h.server.say("you", "debate", ".config"))["id"])
        replies = h.outlet().sink.command_replies
        assert await replies.reply(pin, f"mode: must be chat or prefill, @everyone {SECRET}", f"pin {pin}")
        assert await replies.reply(pin, "the same again", f"pin {pin}"), "Discord knows it by its nonce"
        assert await replies.send_file("context.txt", f"system: {SECRET}", "The context.", "m 7")
        reply, file = list(_all(h))[1:]
        assert reply.content == ". mode: must be chat or prefill, @everyone [redacted]"
        assert (reply.reference["message_id"], reply.mentions, reply.mention_everyone) == (str(pin), [], False)
        assert (file.content, file.attachments[0].content) == (". The context.", b"system: [redacted]")
        await h.outlet().view.ensure_history()
        assert all(entry.hidden for entry in h.outlet().view.transcript.entries())
