"""Bots of unmodified py-cord live on the stand-in: they log in, hear, post, read, react."""

import io
import logging
import struct

import aiohttp
import discord
import pytest

from agentic.local.discord.messages import Draft, reference
from agentic.local.discord.server import routed_to
from tests.support.discord.discord_standin_bots import a_world, debate, logged_in, one_bot, several_bots, with_content
from tests.support.discord.stand_in import DiscordStandIn

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 3, 2) + b"\x08\x02\0\0\0"


async def test_a_bot_logs_in_and_knows_its_guild_without_an_error_or_an_unknown_request(caplog):
    with caplog.at_level(logging.WARNING, "discord"):
        async with one_bot() as (server, bot, channel):
            assert [g.name for g in bot.guilds] == ["Roundtable"]
            assert [c.name for c in bot.guilds[0].text_channels] == ["debate"]
            allowed = channel.permissions_for(bot.guilds[0].me)
            assert allowed.send_messages
            assert allowed.pin_messages
            assert not allowed.administrator
            assert server.online == {"claude"}
            assert server.unknown_requests == []
    assert [r.message for r in caplog.records if "PyNaCl" not in r.message] == []


async def test_a_persons_message_arrives_with_its_content_author_and_mentions():
    async with one_bot() as (server, bot, channel):
        role = server.world.role("bots")
        await server.say("you", "debate", f"hello <@{bot.user.id}> and <@&{role.id}>")
        message = (await server.wait_for(lambda: bot.heard["message"]))[0]
        assert message.content.startswith("hello")
        assert message.channel == channel
        assert (message.author.display_name, message.author.bot) == ("you", False)
        assert isinstance(message.author, discord.Member)
        assert message.mentions == [bot.guilds[0].me]
        assert [r.name for r in message.role_mentions] == ["bots"]


async def test_a_post_with_a_file_is_heard_with_an_address_that_serves_the_same_bytes():
    async with one_bot() as (server, bot, channel):
        sent = await channel.send("look", file=discord.File(io.BytesIO(PNG), "cat.png"))
        heard = (await server.wait_for(lambda: bot.heard["message"]))[0]
        assert heard.id == sent.id
        (picture,) = heard.attachments
        assert (picture.filename, picture.content_type, picture.width, picture.height) == ("cat.png", "image/png", 3, 2)
        assert await picture.read() == PNG
        assert server.messages("debate")[0]["content"] == "look"


async def test_history_comes_in_discords_order_before_after_and_around():
    async with one_bot() as (server, _, channel):
        ids = [int((await server.say("you", "debate", str(n)))["id"]) for n in range(7)]

        async def read(**where):
            return [m.content async for m in channel.history(**where)]

        assert await read(limit=3) == ["6", "5", "4"]
        assert await read(limit=2, before=discord.Object(ids[4])) == ["3", "2"]
        assert (await channel.fetch_message(ids[5])).content == "5"


async def test_reactions_go_both_ways_with_who_gave_them():
    async with one_bot() as (server, bot, channel):
        message = await channel.fetch_message(int((await server.say("you", "debate", "nice?"))["id"]))
        await message.add_reaction("🔥")
        await server.react("you", "debate", message.id, "🔥")
        await server.react("you", "debate", message.id, "👍")
        await server.wait_for(lambda: len(bot.heard["raw_reaction_add"]) == 3)
        assert [(str(e.emoji), e.user_id == bot.user.id) for e in bot.heard["raw_reaction_add"]] == [
            ("🔥", True),
            ("🔥", False),
            ("👍", False),
        ]
        fire = (await channel.fetch_message(message.id)).reactions[0]
        assert (fire.count, fire.me) == (2, True)
        assert {u.display_name async for u in fire.users()} == {"you", "Claude"}
        await server.react("claude", "debate", message.id, "🔥", given=False)
        await server.clear_reactions("debate", message.id, "👍")
        await server.clear_reactions("debate", message.id)
        await server.wait_for(lambda: bot.heard["raw_reaction_clear"])
        assert len(bot.heard["raw_reaction_remove"]) == len(bot.heard["raw_reaction_clear_emoji"]) == 1


async def test_a_reaction_that_is_no_emoji_is_refused_as_unknown():
    async with one_bot() as (server, _, channel):
        message = await channel.fetch_message(int((await server.say("you", "debate", "x"))["id"]))
        for wrong in ("thumbsup", "<:party:123456789012345678>", "x🔥"):
            with pytest.raises(discord.HTTPException) as refused:
                await message.add_reaction(wrong)
            assert refused.value.code == 10014
        for right in ("👍🏽", "❤️", "1️⃣", "🏳️‍🌈", "🇩🇪", "©️"):
            await message.add_reaction(right)


async def test_edits_and_deletes_arrive_as_raw_events():
    async with one_bot() as (server, bot, channel):
        first, second, third = [await server.say("you", "debate", text) for text in "abc"]
        await server.edit("debate", first, "A")
        await server.delete("debate", first)
        await server.delete("debate", second, third)
        await server.wait_for(lambda: bot.heard["raw_bulk_message_delete"])
        assert bot.heard["raw_message_edit"][0].data["content"] == "A"
        assert bot.heard["raw_message_edit"][0].data["edited_timestamp"]
        assert bot.heard["raw_message_delete"][0].message_id == int(first["id"])
        assert bot.heard["raw_bulk_message_delete"][0].message_ids == {int(second["id"]), int(third["id"])}
        own = await channel.send("own")
        await own.edit(content="changed")
        assert server.messages("debate")[-1]["content"] == "changed"
        await own.delete()
        assert server.messages("debate") == []


async def test_a_bot_may_delete_but_not_edit_what_others_wrote():
    async with one_bot() as (server, _, channel):
        message = await channel.fetch_message(int((await server.say("you", "debate", "mine"))["id"]))
        with pytest.raises(discord.Forbidden) as refused:
            await message.edit(content="yours")
        assert refused.value.code == 50005
        await message.delete()
        assert server.messages("debate") == []


async def test_four_bots_in_one_loop_each_hear_everything_once():
    async with several_bots("chatgpt", "claude", "gemini", "grok") as (server, bots):
        assert server.online == set(bots)
        await server.say("you", "debate", "who is there?")
        for key, bot in bots.items():
            await debate(server, bot).send(f"{key} here")
        await server.wait_for(lambda: all(len(bot.texts) == 5 for bot in bots.values()))
        said = [m["content"] for m in server.messages("debate")]
        assert all(bot.texts == said for bot in bots.values())


async def test_an_intent_that_is_switched_off_in_the_portal_ends_the_login():
    world = a_world()
    world.app("claude").message_content = False
    async with DiscordStandIn(world) as server:
        with pytest.raises(discord.PrivilegedIntentsRequired):
            async with logged_in(server, intents=with_content()):
                pass
        async with logged_in(server, intents=discord.Intents.default()) as bot:
            assert not (await bot.application_info()).flags.gateway_message_content_limited


async def test_a_wrong_token_is_refused_at_login():
    world = a_world()
    async with DiscordStandIn(world) as server:
        world.app("claude").token = "right"
        bot = discord.Bot()
        with routed_to(server), pytest.raises(discord.LoginFailure):
            await bot.start("wrong")
        await bot.close()


async def test_a_reply_pings_its_author_unless_told_not_to():
    async with one_bot() as (server, bot, channel):
        mine = await channel.send("what do you think?")
        await server.say("you", "debate", "well", reply_to=mine.id)
        answered = reference(place := server.world.channel("debate"), place.messages[mine.id])
        mentions = {"parse": ["users", "roles", "everyone"], "replied_user": False}
        await server.send("you", "debate", Draft("hm", reference=answered, allowed_mentions=mentions))
        await server.wait_for(lambda: len(bot.heard["message"]) == 3)
        pinged, silent = bot.heard["message"][1:]
        assert pinged.reference.message_id == silent.reference.message_id == mine.id
        assert pinged.reference.resolved.content == "what do you think?"
        assert (pinged.mentions, silent.mentions) == ([bot.guilds[0].me], [])


async def test_allowed_mentions_decide_whom_a_text_pings():
    async with one_bot() as (server, _, channel):
        you, role = server.world.user("you"), server.world.role("bots")
        text = f"@everyone <@{you.id}> <@&{role.id}>"
        await channel.send(text, allowed_mentions=discord.AllowedMentions.none())
        await channel.send(text, allowed_mentions=discord.AllowedMentions(users=[you], everyone=False, roles=False))
        await channel.send(text)
        none, one, default = server.messages("debate")
        assert (none["mentions"], none["mention_roles"], none["mention_everyone"]) == ([], [], False)
        assert ([u["id"] for u in one["mentions"]], one["mention_roles"]) == ([str(you.id)], [])
        assert default["mention_roles"] == [str(role.id)]
        assert not default["mention_everyone"]  # the bot has no permission for it
        posts = [r.payload for r in server.requests if r.method == "POST" and r.route.endswith("/messages")]
        assert posts[0]["allowed_mentions"] == {"parse": []}


async def test_the_same_nonce_posts_once():
    async with one_bot() as (server, _, channel):
        first = await channel.send("once", nonce="turn-1-0", enforce_nonce=True)
        again = await channel.send("once", nonce="turn-1-0", enforce_nonce=True)
        other = await channel.send("once", nonce="turn-1-1", enforce_nonce=True)
        assert first.id == again.id != other.id
        assert len(server.messages("debate")) == 2


@pytest.mark.parametrize(("text", "code"), [("x" * 2001, 50035), (" ", 50006)])
async def test_a_text_that_discord_would_refuse_is_refused(text, code):
    async with one_bot() as (server, _, channel):
        with pytest.raises(discord.HTTPException) as refused:
            await channel.send(text)
        assert (refused.value.status, refused.value.code) == (400, code)
        assert server.messages("debate") == []


async def test_typing_is_seen_on_both_sides():
    async with one_bot() as (server, bot, channel):
        await channel.trigger_typing()
        await server.start_typing("you", "debate")
        assert [(t.bot, t.channel_id) for t in server.typing_events] == [("claude", channel.id), (None, channel.id)]
        await server.wait_for(lambda: len(bot.heard["raw_typing"]) == 2)


async def test_pins_are_listed_and_announced_with_their_system_message():
    async with one_bot() as (server, bot, channel):
        config = await server.say("you", "debate", ".config")
        await server.pin("you", "debate", config)
        own = await channel.send("mine")
        await server.pin("claude", "debate", own.id)
        assert [p.message.content async for p in channel.pins()] == ["mine", ".config"]
        await server.wait_for(lambda: len(bot.heard["guild_channel_pins_update"]) == 2)
        await server.pin("claude", "debate", own.id, pinned=False)
        assert [p.message.content async for p in channel.pins()] == [".config"]
        system = [m for m in bot.heard["message"] if m.is_system()]
        assert {m.type for m in system} == {discord.MessageType.pins_add}


async def test_threads_are_announced_and_spoken_in():
    async with one_bot() as (server, bot, channel):
        start = await server.say("you", "debate", "big question")
        made = await server.create_thread("you", "debate", "details", start)
        await server.say("you", "details", "inside")
        thread = (await server.wait_for(lambda: bot.heard["thread_create"]))[0]
        assert (thread.id, thread.parent) == (int(made["id"]), channel) == (int(start["id"]), channel)
        await thread.send("also inside")
        await server.wait_for(lambda: "also inside" in bot.texts)
        assert [m["content"] for m in server.messages("details")] == ["", "inside", "also inside"]
        await server.change_channel("details", archived=True, locked=True)
        server.world.guild.roles[server.world.guild.members[bot.user.id].roles[0]].permissions &= ~(1 << 34)
        with pytest.raises(discord.HTTPException) as refused:
            await thread.send("too late")
        assert refused.value.code == 160005
        await server.delete_channel("details")
        await server.wait_for(lambda: bot.heard["raw_thread_delete"])


async def test_channels_and_roles_change_under_a_bots_eyes():
    async with one_bot() as (server, bot, _):
        await server.create_channel("news", "what happened")
        await server.change_channel("news", topic="what happens")
        await server.change_role("bots", name="agents")
        await server.wait_for(lambda: bot.heard["guild_role_update"])
        news = bot.get_channel(server.world.channel("news").id)
        assert news.topic == "what happens"
        assert "agents" in [r.name for r in bot.guilds[0].roles]
        await server.delete_channel("news")
        await server.wait_for(lambda: bot.heard["guild_channel_delete"])
        assert bot.get_channel(news.id) is None


async def test_webhooks_speak_under_any_name_and_can_be_edited_and_deleted():
    async with one_bot() as (server, bot, channel):
        webhook = await channel.create_webhook(name="personas")
        assert [w.id for w in await channel.webhooks()] == [webhook.id]
        thread = await channel.create_thread(name="side", type=discord.ChannelType.public_thread)
        sent = await webhook.send("I am Ada", username="Ada", wait=True)
        await webhook.send("in here", username="Ada", thread=thread)
        await sent.edit(content="I was Ada")
        await server.wait_for(lambda: "in here" in bot.texts)
        heard = next(m for m in bot.heard["message"] if m.content == "I am Ada")
        assert (heard.author.name, heard.webhook_id, heard.author.bot) == ("Ada", webhook.id, True)
        assert [m["content"] for m in server.messages("debate") if m["type"] == 0] == ["I was Ada"]
        await sent.delete()
        del server.world.webhooks[webhook.id]
        with pytest.raises(discord.NotFound) as gone:
            await webhook.send("anyone?")
        assert gone.value.code == 10015


async def test_foreign_webhooks_and_bots_can_borrow_a_name_but_not_an_id():
    async with one_bot() as (server, bot, _):
        await server.say_as_webhook("Claude", "debate", "trust me")
        await server.say_as_foreign_bot("Claude", "debate", "me too")
        await server.wait_for(lambda: len(bot.texts) == 2)
        first, second = bot.heard["message"]
        assert first.author.name == second.author.name == "Claude"
        assert first.webhook_id is not None
        assert second.webhook_id is None
        assert second.author.bot
        assert bot.user.id not in (first.author.id, second.author.id)


async def test_commands_are_synced_and_answered():
    async with DiscordStandIn(a_world()) as server:
        guild = server.world.guild.id
        async with logged_in(server, debug_guilds=[guild]) as bot:

            async def hello(context: discord.ApplicationContext, name: str):
                await context.respond(f"hello {name}", ephemeral=True)

            async def slow(context: discord.ApplicationContext):
                await context.defer()
                await context.followup.send("at last")

            bot.slash_command()(hello)
            bot.slash_command()(slow)
            await bot.sync_commands()
            option = {"name": "name", "type": 3, "value": "world"}
            hidden = await server.interact("you", "debate", "claude", "hello", [option])
            shown = await server.interact("you", "debate", "claude", "slow")
            await server.wait_for(lambda: hidden.answers and shown.answers)
            assert hidden.answers[0]["content"] == "hello world"
            assert [m["content"] for m in server.messages("debate")] == ["at last"]
            assert server.unknown_requests == []


async def test_a_command_tells_whom_it_names_what_the_person_may_and_which_message_it_is_about():
    async with DiscordStandIn(a_world()) as server:
        guild = server.world.guild.id
        guest = await server.add_person("guest")
        async with logged_in(server, debug_guilds=[guild]) as bot:
            heard = []

            async def poke(context: discord.ApplicationContext, whom: discord.Member, hard: bool = False):
                heard.append((whom.display_name, hard, context.interaction.permissions.manage_guild))
                await context.respond("ok", ephemeral=True)

            async def look(context: discord.ApplicationContext, message: discord.Message):
                heard.append((message.content, message.author.display_name))
                await context.respond("ok", ephemeral=True)

            bot.create_group("people").command(name="poke")(poke)
            bot.message_command(name="Look?")(look)
            await bot.sync_commands()
            said = await server.say("you", "debate", "look at me")
            uses = [
                await server.interact(
                    "you", "debate", "claude", "people poke", {"whom": int(guest["id"]), "hard": True}
                ),
                await server.interact("guest", "debate", "claude", "people poke", {"whom": int(guest["id"])}),
                await server.interact_on("you", "debate", "claude", "Look?", said),
            ]
            await server.wait_for(lambda: all(used.answers for used in uses))
            assert sorted(heard, key=repr) == [("guest", False, False), ("guest", True, True), ("look at me", "you")]
            with pytest.raises(ValueError, match="needs whom"):
                await server.interact("you", "debate", "claude", "people poke", {})
            with pytest.raises(KeyError, match="no sub-command"):
                await server.interact("you", "debate", "claude", "people push", {})


async def test_a_guild_without_the_scope_refuses_commands():
    async with DiscordStandIn(a_world()) as server:
        server.world.app("claude").without_commands.add(server.world.guild.id)
        async with logged_in(server, debug_guilds=[server.world.guild.id]) as bot:
            with pytest.raises(discord.Forbidden):
                await bot.http.get_guild_commands(bot.application_id, server.world.guild.id)
            assert await bot.http.get_global_commands(bot.application_id) == []


async def test_a_channel_keeps_only_its_newest_messages_and_their_files():
    async with DiscordStandIn(a_world(), history_limit=3) as server:
        for n in range(5):
            last = await server.say("you", "debate", str(n), attachments=[("n.txt", b"n", "text/plain")])
        assert [m["content"] for m in server.messages("debate")] == ["2", "3", "4"]
        assert len(server.world.attachments) == 3
        async with aiohttp.ClientSession() as http, http.get(last["attachments"][0]["url"]) as answer:
            assert (answer.status, await answer.read()) == (200, b"n")


async def test_a_subscriber_hears_every_event():
    async with DiscordStandIn(a_world()) as server:
        heard = []
        stop = server.subscribe(lambda name, data: heard.append((name, data.get("content"))))
        await server.say("you", "debate", "hi")
        await server.wait_for(lambda: heard == [("MESSAGE_CREATE", "hi")])
        stop()


async def test_waiting_in_vain_tells_what_was_going_on():
    async with one_bot() as (server, _, channel):
        await channel.send("only this")
        with pytest.raises(TimeoutError, match=r"claude POST .*only this"):
            await server.wait_for(lambda: False, timeout=0.03)
        with pytest.raises(ZeroDivisionError):
            await server.wait_for(lambda: 1 / 0)
