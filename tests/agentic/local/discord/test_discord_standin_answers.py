"""Menus and forms of the stand-in: a bot shows them, a person chooses or fills in, the bot answers that."""

import io
from contextlib import asynccontextmanager

import discord
import pytest

from agentic.local.discord.dialogs import TOKEN_SECONDS
from tests.support.discord.discord_standin_bots import a_world, logged_in
from tests.support.discord.stand_in import DiscordStandIn


@asynccontextmanager
async def a_command(answer):
    """The server with a bot whose command /go is answered by this function."""
    async with DiscordStandIn(a_world()) as server, logged_in(server, debug_guilds=[server.world.guild.id]) as bot:

        async def go(context: discord.ApplicationContext):
            await answer(context.interaction)

        bot.slash_command()(go)
        await bot.sync_commands()
        yield server


def a_menu(callback):
    options = [discord.SelectOption(label=name.title(), value=name) for name in ("historian", "engineer", "sceptic")]
    menu = discord.ui.Select(custom_id="who", min_values=2, max_values=3, options=options)
    menu.callback = callback
    return discord.ui.View(menu)


def a_form(callback):
    form = discord.ui.Modal(title="A room", custom_id="room")
    form.add_item(discord.ui.InputText(label="Topic", custom_id="topic", max_length=20))
    form.add_item(discord.ui.InputText(label="Rules", custom_id="rules", required=False, value="be brief"))
    form.callback = callback
    return form


async def test_the_answer_to_a_choice_replaces_the_menu():
    async def chosen(interaction):
        await interaction.response.edit_message(content=" and ".join(interaction.data["values"]), view=None)

    async def show(interaction):
        await interaction.response.send_message("Who?", view=a_menu(chosen), ephemeral=True)

    async with a_command(show) as server:
        shown = await server.interact("you", "debate", "claude", "go")
        await server.wait_for(lambda: shown.done)
        chose = await server.choose(shown, "historian", "sceptic")
        await server.wait_for(lambda: chose.done)
        assert (chose.answers[0]["content"], chose.answers[0]["components"]) == ("historian and sceptic", [])
        assert shown.answers == chose.answers
        assert server.messages("debate") == []


async def test_an_answer_to_a_choice_may_take_its_time():
    async def chosen(interaction):
        await interaction.response.defer(invisible=True)
        await interaction.edit_original_response(content="ready", view=None)

    async def show(interaction):
        await interaction.response.send_message("Who?", view=a_menu(chosen))

    async with a_command(show) as server:
        shown = await server.interact("you", "debate", "claude", "go")
        await server.wait_for(lambda: shown.done)
        chose = await server.choose(shown, "historian", "sceptic")
        await server.wait_for(lambda: chose.done)
        assert [m["content"] for m in server.messages("debate")] == ["ready"]


async def test_a_file_in_an_answer_to_one_person_can_be_read_until_its_interaction_ends():
    async def show(interaction):
        page = discord.File(io.BytesIO(b"<html>"), "room.html")
        await interaction.response.send_message("The room:", file=page, ephemeral=True)

    async with a_command(show) as server:
        shown = await server.interact("you", "debate", "claude", "go")
        await server.wait_for(lambda: shown.done)
        (file,) = shown.answers[0]["attachments"]
        assert server.world.attachments[int(file["id"])].content == b"<html>"
        shown.created -= TOKEN_SECONDS + 1
        await server.interact("you", "debate", "claude", "go")
        assert int(file["id"]) not in server.world.attachments


async def test_a_menu_takes_only_what_a_person_could_choose():
    async def show(interaction):
        await interaction.response.send_message("Who?", view=a_menu(None), ephemeral=True)

    async with a_command(show) as server:
        shown = await server.interact("you", "debate", "claude", "go")
        with pytest.raises(KeyError, match="no menu"):
            await server.choose(shown, "historian")
        await server.wait_for(lambda: shown.done)
        for values, words in (
            (["poet", "sceptic"], "poet isn't among"),
            (["sceptic"], "choose 2 to 3"),
            (["sceptic", "sceptic"], "choose 2"),
        ):
            with pytest.raises(ValueError, match=words):
                await server.choose(shown, *values)


async def test_a_form_comes_back_with_all_its_fields_also_after_a_choice():
    async def filled(interaction):
        inputs = [row["components"][0] for row in interaction.data["components"]]
        text = ", ".join(f"{one['custom_id']}={one['value']}" for one in inputs)
        await interaction.response.send_message(text, ephemeral=True)

    async def chosen(interaction):
        await interaction.response.send_modal(a_form(filled))

    async def show(interaction):
        await interaction.response.send_message("Who?", view=a_menu(chosen), ephemeral=True)

    async with a_command(show) as server:
        shown = await server.interact("you", "debate", "claude", "go")
        await server.wait_for(lambda: shown.done)
        form = await server.choose(shown, "historian", "sceptic")
        await server.wait_for(lambda: form.done)
        assert form.form["title"] == "A room"
        sent = await server.fill_in(form, "P and NP", "")
        await server.wait_for(lambda: sent.done)
        assert sent.answers[0]["content"] == "topic=P and NP, rules="


async def test_a_form_takes_only_what_a_person_could_submit():
    async def show(interaction):
        await interaction.response.send_modal(a_form(None))

    async with a_command(show) as server:
        shown = await server.interact("you", "debate", "claude", "go")
        with pytest.raises(KeyError, match="no form"):
            await server.fill_in(shown, "P and NP", "")
        await server.wait_for(lambda: shown.done)
        for values, words in (
            (["", "be brief"], "Topic is required"),
            (["x" * 21, ""], "Topic has at most 20"),
            (["P and NP"], "has 2 fields"),
        ):
            with pytest.raises(ValueError, match=words):
                await server.fill_in(shown, *values)
