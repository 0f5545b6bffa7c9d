"""`--check` against the Discord stand-in, the model server and a real Redis, over real sockets."""

from __future__ import annotations

import asyncio
import errno
import io
import socket
import sys
import tempfile
import time
from pathlib import Path

import discord
import pytest
from rich.console import Console

from agent_config import AGENTS
from agentic.check.run import _guarded
from agentic.findings import Findings
from agentic.local.discord import channels as worlds
from agentic.local.discord.world import Channel, Overwrite
from agentic.process.root import ROOT
from tests.support.check_doubles import EMOJIS, KEYS, TOKENS, stage
from tests.support.discord.faults import RestFault
from tests.support.models.chat_api import ChatServer
from tests.support.redis_server import redis_binary

EMBED_LINKS = discord.Permissions(embed_links=True).value
VIEW_CHANNEL = discord.Permissions(view_channel=True).value
SEND_MESSAGES = discord.Permissions(send_messages=True).value
SEND_POLLS = discord.Permissions(send_polls=True).value
MANAGE_WEBHOOKS = discord.Permissions(manage_webhooks=True).value
INVITED = 563276908186688  # all permissions that the invite link asks for


async def test_a_healthy_set_up_is_all_well_and_nothing_is_posted(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        assert await set_up.check() == 0
        assert set_up.lines("✗", "!", "–") == []
        for name, spec in AGENTS.items():
            told = set_up.section(spec.display_name)
            assert "Message Content is on" in told
            assert "#debate, #memes" in told
            assert f"{spec.key_setting} works" in told
            link = f"client_id={set_up.world.app(name).id}&scope=bot+applications.commands&permissions={INVITED}"
            assert f"{link}&guild_id={set_up.world.guild.id}\n" in set_up.printed
        shared = set_up.section("Shared")
        assert "version" in shared
        assert "turns, costs, and posts for 90 days, prompts for 7 days" in " ".join(shared.split())
        assert "off (set CONSOLE=true" in shared
        assert set_up.printed.splitlines()[-1].startswith("Ready to start")
        assert {request.method for request in set_up.discord.requests} == {"GET"}
        assert set_up.discord.counts["GET /gateway/bot"] == 0
        assert set_up.discord.unknown_requests == []
        assert all(not channel.messages for channel in set_up.world.channels())


async def test_a_wrong_token_is_named_and_the_other_bots_are_checked(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.environ["BOT_TOKEN_CLAUDE"] = "canary-token-of-nobody"
        assert await set_up.check() == 1
        assert len(set_up.lines("✗")) == 1, set_up.printed
        (wrong,) = set_up.lines("✗")
        assert wrong.startswith("✗ token: Discord rejects it")
        assert "BOT_TOKEN_CLAUDE" in wrong
        assert wrong in set_up.section("Claude")
        assert "#debate, #memes" in set_up.section("Grok")


async def test_an_intent_that_is_off_is_named_for_its_bot_alone(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.world.app("gemini").message_content = False
        assert await set_up.check() == 1
        (wrong,) = set_up.lines("✗")
        assert "Message Content is off" in wrong
        assert wrong in set_up.section("Gemini")


@pytest.mark.promise(64)
async def test_a_permission_that_is_missing_in_one_channel_is_named_there(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        _deny(set_up.world.channel("debate"), set_up.world.app("grok").user.id, EMBED_LINKS)
        assert await set_up.check() == 1
        (wrong,) = set_up.lines("✗")
        assert wrong.startswith("✗ #debate: missing permissions: Embed Links.")
        assert "channels: #memes" in set_up.section("Grok")


async def test_a_channel_that_a_bot_may_not_view_is_named_with_all_that_is_missing(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        _deny(set_up.world.channel("memes"), set_up.world.app("claude").user.id, VIEW_CHANNEL | EMBED_LINKS)
        assert await set_up.check() == 1
        assert [line.partition(".")[0] for line in set_up.lines("✗")] == [
            "✗ #memes: missing permissions: View Channels, Embed Links"
        ]


async def test_a_permission_that_a_bot_can_do_without_is_a_warning(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        _deny(set_up.world.channel("memes"), set_up.world.app("claude").user.id, EMOJIS)
        assert await set_up.check() == 0
        assert "missing permissions: Use External Emojis" in set_up.lines("!")[0]


@pytest.mark.parametrize(
    ("option", "lacking"),
    [("tool_output_visible: true", "Manage Webhooks"), ("mode: prefill", "Manage Messages")],
)
async def test_what_an_option_needs_is_asked_for_and_missed_where_it_is_set(
    tmp_path: Path, option: str, lacking: str
) -> None:
    async with stage(tmp_path) as set_up:
        both = discord.Permissions(manage_webhooks=True, manage_messages=True).value
        needs = discord.Permissions(**{lacking.lower().replace(" ", "_"): True}).value
        for name in ("claude", "grok"):
            _deny(set_up.world.channel("memes"), set_up.world.app(name).user.id, both)
        await set_up.check()
        assert set_up.lines("!") == []
        folder = tmp_path / "config" / "bots"
        folder.mkdir(parents=True)
        (folder / f"claude.{set_up.world.guild.id}.yaml").write_text(f"{option}\n")
        set_up.environ["CONFIG_FILES_DIR"] = str(folder.parent)
        assert await set_up.check() == 0
        (warned,) = set_up.lines("!")
        assert warned.startswith(f"! #memes: missing permissions: {lacking} (for {option.split(':')[0]}")
        assert warned in set_up.section("Claude")
        assert f"permissions={INVITED | needs}&" in set_up.printed
        others = len(AGENTS) - (INVITED | needs != INVITED)
        assert set_up.printed.count(f"permissions={INVITED}&") == others


async def test_without_create_polls_the_check_says_what_is_missing_and_passes(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        _deny(set_up.world.channel("debate"), set_up.world.app("claude").user.id, SEND_POLLS)
        assert await set_up.check() == 0
        assert set_up.lines("!") == []
        (hint,) = set_up.lines("–")
        assert "#debate: missing permissions: Create Polls (if no bot has it, people aren't asked" in hint
        assert hint in set_up.section("Claude")


async def test_where_rooms_lack_permissions_one_line_for_each_bot_says_so(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        for name in ("debate", "memes"):
            _deny(set_up.world.channel(name), set_up.world.app("claude").user.id, MANAGE_WEBHOOKS)
        assert await set_up.check() == 0
        assert set_up.lines("!") == []
        (hint,) = set_up.lines("–")
        assert "missing permissions: Manage Webhooks" in hint
        assert hint in set_up.section("Claude")


@pytest.mark.parametrize(("seconds", "told"), [(3600, "60 minutes ahead"), (-600, "10 minutes behind"), (20, None)])
async def test_a_clock_that_differs_from_discords_is_told(tmp_path: Path, seconds: float, told: str | None) -> None:
    async with stage(tmp_path) as set_up:
        assert await set_up.check(clock=lambda: time.time() + seconds) == 0
        warnings = set_up.lines("!")
        assert len(warnings) == (told is not None)
        assert told is None or warnings[0].startswith(f"! clock: this machine's clock is {told}")


@pytest.mark.parametrize(("mode", "is_told"), [(0o644, True), (0o640, False), (0o600, False)])
async def test_an_env_file_that_everybody_can_read_is_told(tmp_path: Path, mode: int, is_told: bool) -> None:
    (tmp_path / ".env").touch()
    (tmp_path / ".env").chmod(mode)
    async with stage(tmp_path) as set_up:
        assert await set_up.check(env_file=tmp_path / ".env") == 0
        assert bool(set_up.lines("!")) == is_told


@pytest.mark.promise(622)
async def test_tokens_in_each_others_lines_are_noticed_by_the_bots_names(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.environ |= {"BOT_TOKEN_CLAUDE": TOKENS["grok"], "BOT_TOKEN_GROK": TOKENS["claude"]}
        set_up.world.app("gemini").user.username = "Google Bot"
        assert await set_up.check() == 0
        assert "! identity: logs in as Grok: perhaps Grok's token" in set_up.section("Claude")
        assert "! identity: logs in as Claude: perhaps Claude's token" in set_up.section("Grok")
        assert len(set_up.lines("!")) == 2  # an owner may give a bot any other name


async def test_the_id_of_something_else_is_named_for_what_it_is(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        world, debate = set_up.world, set_up.world.channel("debate").id
        role, bot = world.role("bots").id, world.app("grok").user.id
        set_up.environ |= {
            "GUILD_IDS": f"{world.guild.id},{debate}",
            "CHANNEL_THEME_MAP": f"{debate},{role},{bot}",
            "OWNER_CHANNEL_ID": str(world.guild.id),
        }
        assert await set_up.check() == 1
        grok = set_up.section("Grok")
        assert f"✗ server {debate}: is the ID of #debate, not of a server" in grok
        assert f"✗ channel {role}: is the ID of the role @bots, not of a channel" in grok
        assert f"✗ channel {bot}: is the ID of this bot, not of a channel" in grok
        assert f"channel {world.guild.id} is the ID of the server {world.guild.name}, not of a channel" in grok


async def test_channels_that_are_not_there_or_not_where_they_should_be_are_named(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        world = set_up.world
        elsewhere = worlds.add_guild(world, "Elsewhere", world.user("you"))
        worlds.invite(world, elsewhere, world.app("grok"))
        strange, voice = (
            worlds.add_channel(world, elsewhere, "strange"),
            worlds.add_channel(world, world.guild, "radio"),
        )
        voice.type = discord.ChannelType.voice.value
        set_up.environ["CHANNEL_THEME_MAP"] = f"{world.channel('debate').id},1234,{strange.id},{voice.id}"
        assert await set_up.check() == 1
        grok, claude = set_up.section("Grok"), set_up.section("Claude")
        assert "✗ channel 1234: doesn't exist" in grok
        assert "✗ #strange: isn't in a server of GUILD_IDS" in grok
        assert "✗ #radio: isn't a text channel (voice)" in grok
        assert "✓ channels: #debate\n" in grok
        assert f"✗ channel {strange.id}: the bot can't see it" in claude


async def test_a_bot_that_is_not_in_the_server_is_pointed_to_its_invite_link(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        del set_up.world.guild.members[set_up.world.app("chatgpt").user.id]
        assert await set_up.check() == 1
        told = set_up.section("ChatGPT")
        assert f"✗ server {set_up.world.guild.id}: the bot isn't in it" in told
        assert "✗" not in set_up.section("Claude")


@pytest.mark.parametrize("name", AGENTS)
async def test_a_refused_key_and_an_unknown_model_are_named(tmp_path: Path, name: str) -> None:
    async with stage(tmp_path) as set_up:
        spec = AGENTS[name]
        set_up.environ[spec.key_setting] = "canary-key-of-nobody"
        assert await set_up.check() == 1
        assert [line.partition(".")[0] for line in set_up.lines("✗")] == ["✗ key: the API key was rejected (401)"]
        set_up.environ[spec.key_setting] = KEYS[name]
        set_up.environ[spec.model_setting] = "model-of-nobody"
        assert await set_up.check() == 1
        (wrong,) = set_up.lines("✗")
        assert wrong.startswith("✗ model: the provider has no model model-of-nobody")
        assert spec.model_setting in wrong
        assert f"{spec.key_setting} works" in set_up.section(spec.display_name)


async def test_each_model_of_a_list_is_asked_about_and_a_faulty_one_is_a_warning(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up, ChatServer(lambda _: "", models=("llama3",)) as server:
        (tmp_path / "endpoints.yaml").write_text(f"endpoints: {{ollama: {{base_url: '{server.base_url}'}}}}")
        names = "model-of-nobody,ollama/llama3,ollama/lama3,deepseek/chat,lmstudio/x"
        set_up.environ |= {"CONFIG_FILES_DIR": str(tmp_path), "GROK_MODEL": names}
        assert await set_up.check() == 0
        grok = set_up.section("Grok")
        assert "! model: the provider has no model model-of-nobody" in grok
        assert "✓ key: ollama answers without a key" in grok
        assert "✓ model: ollama/llama3" in grok
        assert "! model: the provider has no model ollama/lama3" in grok
        assert "run: ollama pull lama3, or correct GROK_MODEL" in " ".join(grok.split())
        shared = " ".join(set_up.section("Shared").split())
        assert f"✓ Ollama: {server.base_url[7:-3]} has llama3" in shared
        assert "! Ollama: ollama/lama3 isn't downloaded. What to do: run: ollama pull lama3" in shared
        assert "! key: ENDPOINT_DEEPSEEK_KEY isn't set" in grok
        assert "! key: lmstudio: no connection" in grok


async def test_an_ollama_that_is_not_there_is_named_with_the_models_that_need_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        (tmp_path / "endpoints.yaml").write_text("endpoints: {ollama: {base_url: 'http://u:canary@127.0.0.1:9/v1'}}")
        set_up.environ |= {"CONFIG_FILES_DIR": str(tmp_path), "GROK_MODEL": "grok-4.7,ollama"}
        assert await set_up.check() == 0
        shared = " ".join(set_up.section("Shared").split())
        assert "! Ollama: 127.0.0.1:9 didn't list its models: nothing answers at 127.0.0.1:9" in shared
        assert "it is needed for ollama/gpt-oss:20b" in shared
        assert "canary" not in set_up.printed


async def test_a_list_without_any_model_that_can_be_used_is_wrong(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.environ["GROK_MODEL"] = "model-of-nobody,deepseek/chat"
        assert await set_up.check() == 1
        (wrong,) = set_up.lines("✗")
        assert wrong.startswith("✗ models: none of them can be used")


async def test_the_models_of_single_servers_are_asked_about_and_named_by_their_server(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        (tmp_path / "bots").mkdir()
        files = {
            "claude.7": "openai/model-of-nobody",
            "claude.8": "[xai/grok-4.7, deepseek/x]",
            "grok.7": "deepseek/chat",
            "grok.8": "xai/model-of-nobody",
        }
        for name, models in files.items():
            (tmp_path / "bots" / f"{name}.yaml").write_text(f"model: {models}\n")
        set_up.environ |= {"CONFIG_FILES_DIR": str(tmp_path), "GROK_MODEL": "model-of-nobody,grok-4.7"}
        assert await set_up.check() == 1
        claude, grok = set_up.section("Claude"), set_up.section("Grok")
        assert (
            "✗ model in server 7: the provider has no model openai/model-of-nobody. What to do: correct `model`"
            in claude
        )
        assert "✓ model in server 8: xai/grok-4.7" in claude
        assert "! key in server 8: ENDPOINT_DEEPSEEK_KEY isn't set" in claude
        assert "✗ key in server 7: ENDPOINT_DEEPSEEK_KEY isn't set" in grok
        assert "! model: the provider has no model model-of-nobody" in grok
        assert "✗ models in server 8: none of them can be used" in grok  # it is told above why
        assert grok.count("model-of-nobody") == 1


async def test_the_forecast_knows_which_model_speaks_in_which_server(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        (tmp_path / "guilds").mkdir()
        set_up.environ |= {"CONFIG_FILES_DIR": str(tmp_path), "BUDGET_DAILY_USD": "0.0001"}
        (tmp_path / "guilds" / "7.yaml").write_text("model: ollama/x\n")
        await set_up.check()
        assert "! costs: about $0.0" not in set_up.section("Shared")
        (tmp_path / "guilds" / f"{set_up.world.guild.id}.yaml").write_text("model: ollama/x\n")
        await set_up.check()
        assert "✓ costs: about $0.00 a day" in set_up.section("Shared")


MCP_SERVER = ROOT / "tests/support/tools/mcp_server.py"
MCP = f"""
servers:
  lab: {{command: "{sys.executable}", args: ["{MCP_SERVER}"], tools: [add, say]}}
  unused: {{command: "{sys.executable}", args: ["{MCP_SERVER}"], agents: [nobody]}}
  broken: {{command: "{sys.executable}", args: ["-c", "1/0"]}}
  absent: {{command: no-such-program}}
  wrong: {{command: x, headers: {{a: b}}}}
"""


async def test_mcp_servers_are_started_and_their_tools_named(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        (tmp_path / "mcp.yaml").write_text(MCP)
        set_up.environ["CONFIG_FILES_DIR"] = str(tmp_path)
        assert await set_up.check() == 1
        shared = set_up.section("Shared")
        assert "✓ tools: web_search, web_fetch, memory, files_read, files_glob, files_grep\n" in shared
        assert "✓ MCP server lab: add, say" in shared
        assert "! MCP server unused: starts, but no bot may use its tools" in shared
        assert "✗ MCP server broken: doesn't start: " in shared
        assert "✗ MCP server absent: doesn't start: program no-such-program not found. What to do: " in shared
        assert "servers.wrong" in shared


async def test_a_wrong_option_of_the_owners_files_is_told_with_its_line(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        (tmp_path / "shared.yaml").write_text("max_messages: 40\nmax_mesages: 12\n")
        set_up.environ["CONFIG_FILES_DIR"] = str(tmp_path)
        assert await set_up.check() == 0
        (warning,) = set_up.lines("!")
        assert "shared.yaml: line 2: max_mesages: unknown option; did you mean max_messages?" in warning


async def test_a_provider_that_cannot_be_reached_is_no_fault_of_the_picture_model(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.environ["XAI_BASE_URL"] = "http://127.0.0.1:1/v1"
        assert await set_up.check() == 1
        assert "✗ key: no connection" in set_up.section("Grok")
        assert "picture model" not in set_up.section("Grok")


async def test_a_key_of_one_letter_does_not_blacken_the_report(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.environ["XAI_API_KEY"] = "k"
        assert await set_up.check() == 1
        assert "correct XAI_API_KEY" in set_up.section("Grok")
        assert "✓ token: logs in as Grok" in set_up.printed


async def test_an_unknown_picture_model_is_a_warning(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.environ["GEMINI_IMAGE_MODEL"] = "painter-of-nobody"
        assert await set_up.check() == 0
        (warning,) = set_up.lines("!")
        assert warning.startswith("! picture model: the provider has no model painter-of-nobody")


async def test_a_bot_without_a_key_is_wrong_and_one_without_a_token_is_not_set_up(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        del set_up.environ["OPENAI_API_KEY"], set_up.environ["BOT_TOKEN_GROK"]
        set_up.environ["BOT_IDS"] = ""
        assert await set_up.check() == 1
        assert [line.partition(".")[0] for line in set_up.lines("✗")] == ["✗ key: OPENAI_API_KEY isn't set"]
        assert "– token: not set" in set_up.section("Grok")


async def test_a_set_up_without_any_token_is_wrong(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        for spec in AGENTS.values():
            del set_up.environ[spec.token_setting]
        assert await set_up.check() == 1
        assert "✗ tokens: no bot has a token" in set_up.section("Shared")
        assert set_up.discord.requests == []


@pytest.mark.promise(67)
async def test_two_tokens_of_one_bot_are_found_out(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.world.app("claude").user = set_up.world.app("grok").user
        assert await set_up.check() == 1
        assert "✗ identity: has the same token as Grok" in set_up.section("Claude")
        assert "✗ identity: has the same token as Claude" in set_up.section("Grok")


async def test_ids_and_a_role_that_do_not_fit_are_warnings(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.environ["BOT_IDS"] = set_up.environ["BOT_IDS"].replace(str(set_up.world.app("grok").user.id), "4321")
        set_up.world.role("bots").mentionable = False
        assert await set_up.check() == 0
        assert "! BOT_IDS: doesn't list this bot" in set_up.section("Grok")
        assert "! BOT_IDS: these ids don't belong to any of your bots: 4321" in set_up.section("Shared")
        assert "! BOTS_ROLE_ID: not everyone can mention @bots" in set_up.section("Shared")
        set_up.environ["BOTS_ROLE_ID"] = "1234"
        assert await set_up.check() == 0
        assert "! BOTS_ROLE_ID: none of the bots' servers has this role" in set_up.section("Shared")


async def test_a_channel_for_what_bots_tell_must_be_there_and_open_to_them(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        office = worlds.add_channel(set_up.world, set_up.world.guild, "office")
        _deny(office, set_up.world.app("grok").user.id, SEND_MESSAGES)
        _deny(office, set_up.world.app("gemini").user.id, VIEW_CHANNEL)
        set_up.environ |= {"OWNER_CHANNEL_ID": str(office.id), "OUTPUT_CHANNEL_ID": "1234"}
        assert await set_up.check() == 0
        assert "✓ OWNER_CHANNEL_ID: #office" in set_up.section("Claude")
        assert "! OWNER_CHANNEL_ID: #office: missing permissions: Send Messages" in set_up.section("Grok")
        assert "! OWNER_CHANNEL_ID: #office: missing permissions: View Channels" in set_up.section("Gemini")
        assert "! OUTPUT_CHANNEL_ID: channel 1234 doesn't exist" in set_up.section("Claude")
        assert "#office" not in set_up.section("Claude").replace("OWNER_CHANNEL_ID: #office", "")


async def test_a_redis_that_cannot_be_reached_is_wrong_and_no_password_is_shown(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.environ["REDIS_URL"] = "redis://user:canary%21password@127.0.0.1:1/0"
        assert await set_up.check() == 1
        (wrong,) = set_up.lines("✗")
        assert wrong.startswith("✗ Redis: is unavailable")
        assert "canary" not in set_up.printed


async def test_without_an_address_the_check_says_which_redis_a_start_would_use(tmp_path: Path) -> None:
    redis_binary()
    async with stage(tmp_path) as set_up:
        del set_up.environ["REDIS_URL"]
        assert await set_up.check() == 0
        assert f"embedded Redis under {tmp_path / 'data'}" in set_up.section("Shared")
        assert "REDIS_URL is not set" in set_up.section("Shared")


@pytest.mark.promise(65)
async def test_what_is_named_and_is_not_there_is_told_and_no_tool_is_ticked_that_there_is_none_of(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with stage(tmp_path) as set_up:
            port = str(listener.getsockname()[1])
            set_up.environ |= {"ALLOWED_TOOLS": "web_serach,memory", "HEALTH_PORT": port}
            set_up.environ |= {"CONFIG_FILES_DIR": str(tmp_path / "misspelt")}
            assert await set_up.check() == 0
            warned = "\n".join(set_up.lines("!"))
            assert "ALLOWED_TOOLS: web_serach isn't a tool" in warned
            assert "CONFIG_FILES_DIR: " in warned
            assert f"HEALTH_PORT: {port} on 127.0.0.1 is in use" in warned


async def test_a_data_folder_that_cannot_be_made_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with stage(tmp_path) as set_up:
        set_up.environ["DATA_DIR"] = str(tmp_path / "file" / "data")
        assert await set_up.check() == 1
        assert "✗ data folder" in set_up.lines("✗")[0]


async def test_mistakes_in_a_personas_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "grok").mkdir()
    (tmp_path / "grok" / "identity.md").write_text("---\ntalkative: 1\n---\n")
    (tmp_path / "grok" / "soul.md").write_bytes(b"f\xfcr")
    async with stage(tmp_path) as set_up:
        set_up.environ["PERSONAS_DIR"] = str(tmp_path)
        assert await set_up.check() == 0
        grok = set_up.section("Grok")
        assert "! persona: identity.md:2: 'talkative' is unknown" in grok
        assert "! persona: soul.md: it isn't UTF-8 text (byte 2); skipped. What to do: correct that file" in grok


async def test_a_personas_folder_is_named_where_it_is_missing_or_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grok").mkdir()
    whole = tempfile.TemporaryFile

    def closed(dir: Path, buffering: int) -> object:
        if dir == tmp_path / "grok":
            raise PermissionError(errno.EACCES, "Permission denied")
        return whole(dir=dir, buffering=buffering)

    monkeypatch.setattr(tempfile, "TemporaryFile", closed)
    async with stage(tmp_path) as set_up:
        set_up.environ["PERSONAS_DIR"] = str(tmp_path)
        assert await set_up.check() == 0
        assert f"! persona: the bot can't save its memory in {tmp_path / 'grok'} (Permission denied)" in set_up.section(
            "Grok"
        )
        assert f"– persona: {tmp_path / 'claude'} doesn't exist yet" in set_up.section("Claude")


async def test_a_bot_whose_connection_breaks_stops_no_other(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.discord.faults.add(RestFault(bot="gemini", path="/channels/", cut=True, times=None))
        assert await set_up.check() == 1
        (wrong,) = set_up.lines("✗")
        assert wrong.startswith("✗ Discord: can't be reached")
        assert "Message Content is on" in set_up.section("Gemini")
        assert "GEMINI_API_KEY works" in set_up.section("Gemini")


async def test_a_check_that_hangs_or_breaks_becomes_a_finding() -> None:
    async def breaks() -> None:
        raise LookupError("what it says")

    found = Findings()
    await _guarded(asyncio.Event().wait(), found, "Discord", 0.0)
    await _guarded(breaks(), found, "Redis", 1.0)
    assert [one.text for one in found] == ["no answer within 0 seconds", "the check failed: what it says"]


@pytest.mark.promise(14)
async def test_no_secret_is_shown_whatever_is_wrong(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.environ["XAI_API_KEY"] = set_up.environ["GEMINI_API_KEY"] = "canary-key-refused"
        set_up.environ["BOT_TOKEN_CLAUDE"] = "canary-token-refused"
        set_up.environ["REDIS_URL"] = "redis://:canary-password@127.0.0.1:1"
        set_up.world.guild.name = f"Guild {TOKENS['grok']}"
        set_up.world.channel("debate").name = f"\x1b[31m{KEYS['claude']}"
        for console in (Console(file=io.StringIO(), width=200), _terminal()):
            assert await set_up.check(console) == 1
            assert "canary" not in set_up.printed
            assert "\x1b[31m*" not in set_up.printed


async def test_a_terminal_gets_a_table_with_links_in_one_piece(tmp_path: Path) -> None:
    async with stage(tmp_path) as set_up:
        set_up.world.app("gemini").message_content = False
        assert await set_up.check(_terminal(width=60)) == 1
        assert "✗" in set_up.printed
        assert "What to do" in set_up.printed
        link = f"?client_id={set_up.world.app('grok').id}&scope=bot+applications.commands&permissions="
        assert link in set_up.printed


class _AsciiFile(io.StringIO):
    """As strict as a stream of a terminal without UTF-8."""

    encoding = "ascii"

    def write(self, text: str) -> int:
        return super().write(text.encode("ascii").decode())


@pytest.mark.parametrize("is_terminal", [False, True])
async def test_where_the_marks_cannot_be_shown_there_are_others(tmp_path: Path, is_terminal: bool) -> None:
    async with stage(tmp_path) as set_up:
        set_up.world.guild.name = "Tafelrunde ✓"
        assert await set_up.check(Console(file=_AsciiFile(), width=200, force_terminal=is_terminal)) == 0
        assert "Tafelrunde ?" in set_up.printed
        assert set_up.printed.splitlines()[-1].startswith("Ready to start")


def _terminal(width: int = 120) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True)


def _deny(channel: Channel, user_id: int, bits: int) -> None:
    channel.overwrites[user_id] = Overwrite(user_id, 1, deny=bits)
