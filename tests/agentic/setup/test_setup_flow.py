"""The whole set-up: typed answers, the Discord stand-in, the official SDKs at the model server, a real folder."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agent_config import AGENTS
from agentic.local.discord import channels as worlds
from agentic.local.discord.world import Overwrite
from agentic.services.signal.settings import SignalSettings
from tests.support.check_doubles import KEYS, TOKENS
from tests.support.discord.faults import RestFault
from tests.support.setup_scene import CHANNELS, HABITS, YES, only, setup_scene
from tests.support.signal_server import SignalServer

NOT_WRITTEN = "Nothing was written."


async def test_answers_become_a_file_that_a_start_reads_and_the_check_runs_at_once(tmp_path: Path) -> None:
    example = "# The keys\nBOT_TOKEN_CLAUDE=\n# BUDGET_DAILY_USD=5\n"
    (tmp_path / ".env.example").write_text(example)
    async with setup_scene(tmp_path) as scene:
        assert await scene.run(*only("claude", "grok"), *CHANNELS, *HABITS, *YES) == 0
        settings = scene.settings()
        assert settings.agents["claude"].token.get_secret_value() == TOKENS["claude"]
        assert settings.agents["grok"].api_key.get_secret_value() == KEYS["grok"]
        assert settings.agents["gemini"].token is None
        assert settings.guild_ids == (scene.world.guild.id,)
        debate, memes = (scene.world.channel(name).id for name in ("debate", "memes"))
        assert settings.channels == {debate: "debate", memes: "roast"}
        assert (settings.timezone.key, settings.budget_daily_usd) == ("Europe/Berlin", 5)
        text = scene.env.read_text()
        assert text.startswith(f"# The keys\nBOT_TOKEN_CLAUDE={TOKENS['claude']}\n# BUDGET_DAILY_USD=5\nBUDGET_DAILY")
        assert stat.S_IMODE(scene.env.stat().st_mode) == 0o600
        assert sorted(scene.files()) == [".env", ".env.example"]
        assert scene.checks == 1
        for secret in (*TOKENS.values(), *KEYS.values()):
            assert secret not in scene.printed
        assert len(scene.typist.hidden_questions) == 4
        assert {request.method for request in scene.discord.requests} == {"GET"}


@pytest.mark.promise(120)
async def test_a_second_run_offers_what_is_there_and_keeps_the_old_file_and_other_lines(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        old = (
            f"# mine\nLOG_LEVEL=debug # loud\nDISCORD_BOT_TOKEN={TOKENS['claude']}\n"
            f"anthropic_api_key='{KEYS['claude']}'\nAGENT_CHANNEL_IDS={scene.world.channel('memes').id}\nTIMEZONE=Europe/Paris\n"
        )
        scene.env.write_text(old)
        scene.env.chmod(0o644)
        code = await scene.run(
            ("Set up ChatGPT?", "n"),
            ("Claude has a token", ""),
            ("Set up Gemini?", "n"),
            ("Set up Grok?", ""),
            ("Grok's token", f"BOT_TOKEN_GROK='{TOKENS['grok']}'"),
            ("XAI_API_KEY", KEYS["grok"]),
            ("Which channels", "1"),
            ("Theme of #debate [debate]", "science"),
            ("Your time zone, for the hours when the bots talk [Europe/Paris]", ""),
            ("Daily budget", "7.5"),
            ("Write it?", "yes"),
        )
        assert code == 0
        (kept,) = (tmp_path / name for name in scene.files() if name.startswith(".env.old-"))
        assert kept.read_text() == old
        assert {stat.S_IMODE(path.stat().st_mode) for path in (kept, scene.env)} == {0o600}
        new = scene.env.read_text()
        assert new.startswith(old.replace(f"IDS={scene.world.channel('memes').id}", "IDS="))
        assert "BOT_TOKEN_CLAUDE" not in new
        settings = scene.settings()
        assert settings.channels == {scene.world.channel("debate").id: "science"}
        assert settings.budget_daily_usd == 7.5
        assert settings.agents["grok"].token.get_secret_value() == TOKENS["grok"]
        assert "Other users of this machine can read it now" in scene.printed


async def test_where_nothing_changes_nothing_is_written_and_the_check_runs(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        await scene.run(*only("claude"), *CHANNELS, *HABITS, *YES)
        before = scene.files()
        keep = [("Set up ChatGPT?", "n"), ("Claude has", ""), ("Set up Gemini?", "n"), ("Set up Grok?", "n")]
        same = [("Which channels should they speak in? Type numbers, such as 1,2 (Enter keeps", "")]
        assert await scene.run(*keep, *same, ("Your time zone", ""), ("Daily budget", "")) == 0
        assert scene.files() == before
        assert "Nothing has changed" in scene.printed
        assert scene.checks == 2


async def test_a_bot_that_is_turned_off_loses_its_token_and_nothing_else(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        scene.env.write_text("\n".join(f"{spec.token_setting}={TOKENS[name]}" for name, spec in AGENTS.items()))
        typed = [("ChatGPT has", "off"), ("Claude has", "keep"), ("ANTHROPIC_API_KEY", "")]
        typed += [("Gemini has", "o"), ("Grok has", ""), ("XAI_API_KEY", KEYS["grok"])]
        await scene.run(*typed, *CHANNELS, *HABITS, *YES)
        assert [name for name, agent in scene.settings().agents.items() if agent.token] == ["claude", "grok"]
        assert "no ANTHROPIC_API_KEY, so it stays offline" in scene.printed


WRONG_TOKENS = [
    ("1440000000000000001", "That's an ID"),
    ("ab" * 32, "That's the application's Public Key"),
    ("a-client_secret-of-32-characters", "That's the OAuth2 Client Secret"),
    ("sk-ant-api03-of-anthropic", "That's an API key from Anthropic"),
    ("token-of-nobody", "Discord rejects this token"),
    (TOKENS["chatgpt"], "That's ChatGPT's token"),
]


async def test_each_wrong_token_is_named_and_asked_again(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        for app in ("gemini", "grok"):
            del scene.world.guild.members[scene.world.app(app).user.id]
        typed = [*only("chatgpt")[:3], ("Set up Claude?", "")]
        typed += [("Claude's token", token) for token, _ in WRONG_TOKENS]
        typed += [("Claude's token", TOKENS["grok"]), ("The bot is called Grok. Use it as Claude anyway?", "")]
        typed += [("Claude's token", TOKENS["claude"]), ("ANTHROPIC_API_KEY", "not-the-key")]
        typed += [("ANTHROPIC_API_KEY", KEYS["claude"]), ("Set up Gemini?", "n"), ("Set up Grok?", "n")]
        assert await scene.run(*typed, *CHANNELS, *HABITS, *YES) == 0
        for _, problem in WRONG_TOKENS:
            assert problem in scene.printed
        assert "Anthropic rejects this key (HTTP 401)" in scene.printed
        assert scene.settings().agents["claude"].token.get_secret_value() == TOKENS["claude"]


@pytest.mark.parametrize("before", ["", "the-old-key-of-before"])
async def test_a_refused_key_is_left_out_and_what_was_there_stays(tmp_path: Path, before: str) -> None:
    async with setup_scene(tmp_path) as scene:
        scene.env.write_text(f"ANTHROPIC_API_KEY={before}\n")
        typed = only("claude")
        key = next(number for number, (words, _) in enumerate(typed) if words == "ANTHROPIC_API_KEY")
        typed[key : key + 1] = [("ANTHROPIC_API_KEY is already set (ending in fore)", "change")] if before else []
        typed[key + bool(before) : key + bool(before)] = [
            ("ANTHROPIC_API_KEY (hid", "wrong"),
            ("ANTHROPIC_API_KEY", ""),
        ]
        assert await scene.run(*typed, *CHANNELS, *HABITS, *YES) == 0
        assert f"ANTHROPIC_API_KEY={before}\n" in scene.env.read_text()
        assert ("Claude stays offline until ANTHROPIC_API_KEY is set" in scene.printed) == (not before)


async def test_a_switch_of_the_portal_is_waited_for(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        app = scene.world.app("claude")
        app.message_content = False

        def switch_on() -> str:
            app.message_content = True
            return ""

        typed = only("claude")
        token = next(number for number, (words, _) in enumerate(typed) if "'s token" in words)
        typed[token + 1 : token + 1] = [("Check again?", ""), ("Check again?", switch_on)]
        assert await scene.run(*typed, *CHANNELS, *HABITS, *YES) == 0
        page = f"https://discord.com/developers/applications/{app.id}/bot"
        assert scene.printed.count("Message Content Intent is off") == scene.printed.count(page) == 2


async def test_bots_are_invited_into_the_chosen_one_of_several_servers(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        world = scene.world
        grok, claude = world.app("grok"), world.app("claude")
        for app in (grok, claude):
            del world.guild.members[app.user.id]
        other = worlds.add_guild(world, "Elsewhere", world.user("you"))

        def invite_both() -> str:
            worlds.invite(world, other, claude)
            worlds.invite(world, world.guild, claude)
            worlds.invite(world, other, grok)
            return ""

        def invite_grok() -> str:
            scene.invite("grok")
            return ""

        links = [("Are they in your server now?", ""), ("Are they in your server now?", invite_both)]
        servers = [("Which servers", "3"), ("Which servers", "1"), ("Are they in your server now?", invite_grok)]
        assert await scene.run(*only("claude", "grok"), *links, *servers, *CHANNELS, *HABITS, *YES) == 0
        link = f"client_id={grok.id}&scope=bot+applications.commands&permissions=563276908186688"
        assert f"{link}\n" in scene.printed
        assert f"{link}&guild_id={world.guild.id}\n" in scene.printed
        assert "Not in a server yet: Claude, Grok" in scene.printed
        assert scene.settings().guild_ids == (world.guild.id,)


async def test_channels_are_listed_as_in_discord_with_what_bots_lack_there(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        world = scene.world
        for name, kind, position, category in (
            ("second", 4, 9, None),
            ("first", 4, 3, None),
            ("radio", 2, 0, None),
            ("quiz-night", 0, 8, "second"),
            ("news", 5, 7, "second"),
            ("lobby", 0, 5, None),
        ):
            made = worlds.add_channel(world, world.guild, name)
            made.type, made.position = kind, position
            made.parent_id = world.channel(category).id if category else None
        world.channel("debate").parent_id = world.channel("first").id
        world.channel("memes").position = 6
        claude = world.app("claude").user.id
        world.channel("lobby").overwrites[claude] = Overwrite(claude, 1, 0, 1 << 11)
        typed = [("Which channels", "2,5"), ("Which channels", "9"), ("Which channels", "4-5")]
        typed += [("Theme of #news [news]", ""), ("Theme of #quiz-night [trivia]", "x"), ("Theme of #quiz-night", "6")]
        await scene.run(*only("claude", "grok"), *typed[1:], *HABITS, *YES)
        shown = scene.printed[scene.printed.index("Channels\n") :].splitlines()[1:8]
        assert [line.strip() for line in shown] == [
            "1  #lobby  (Claude: missing Send Messages)",
            "2  #memes",
            "first",
            "3  #debate",
            "second",
            "4  #news",
            "5  #quiz-night",
        ]
        assert set(scene.settings().channels.values()) == {"news", "trivia"}


async def test_a_network_that_is_away_is_no_wrong_token_and_one_may_go_on_without_the_check(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        scene.discord.faults.add(RestFault(path="/users/@me", status=403, times=None))
        scene.environ["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:1"
        typed = only("claude")
        token = next(number for number, (words, _) in enumerate(typed) if "'s token" in words)
        typed[token + 2 : token + 2] = [("Try again?", ""), ("Try again?", "skip")]
        typed[token + 1 : token + 1] = [("Try again?", ""), ("Try again?", "skip")]
        assert await scene.run(*typed, *HABITS, *YES) == 0
        assert scene.printed.count("Discord answered with an error (HTTP 403). Your token may still be right.") == 2
        assert scene.printed.count("Anthropic can't be reached from this machine. Your key may still") == 2
        assert "your servers and channels can't be listed" in scene.printed
        assert scene.settings().agents["claude"].usable


async def test_the_environment_is_offered_and_named_where_it_wins(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        scene.environ |= {"ANTHROPIC_API_KEY": KEYS["claude"], "BOT_TOKEN_GROK": TOKENS["grok"], "XAI_API_KEY": "other"}
        typed = [("Set up ChatGPT?", "n"), ("Set up Claude?", ""), ("Claude's token", TOKENS["claude"])]
        typed += [("ANTHROPIC_API_KEY is already set in the environment", ""), ("Set up Gemini?", "n")]
        typed += [("Grok has a token in the environment", ""), ("XAI_API_KEY", KEYS["grok"])]
        assert await scene.run(*typed, *CHANNELS, *HABITS, *YES) == 0
        names = "ANTHROPIC_API_KEY, BOT_TOKEN_GROK, XAI_API_KEY"
        assert f"Set in the environment, which overrides .env when the bots start: {names}" in scene.printed
        assert "The environment overrides these answers. Unset there: XAI_API_KEY\n" in scene.printed
        text = scene.env.read_text()
        assert all(f"{line}\n" in text for line in (f"XAI_API_KEY={KEYS['grok']}", f"BOT_TOKEN_GROK={TOKENS['grok']}"))
        assert f"ANTHROPIC_API_KEY={KEYS['claude']}\n" in text


async def test_everything_can_be_changed_before_it_is_written_and_no_writes_nothing(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        again = [
            ("Write it?", "time"),
            ("Your time zone", "tokyo"),
            ("Daily budget", "none"),
            ("Write it?", "channels"),
        ]
        again += [("Which channels", "2"), ("Theme of #memes [roast]", ""), ("Write it?", "no")]
        assert await scene.run(*only("claude"), *CHANNELS, *HABITS, *again) == 1
        assert scene.files() == {}
        assert "#memes (roast)\n  Time zone  Asia/Tokyo\n  Budget     no limit" in scene.printed
        assert scene.printed.splitlines()[-1] == NOT_WRITTEN
        assert scene.checks == 0


async def test_without_any_bot_nothing_is_written(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        assert await scene.run(*only(), ("Go through the bots again?", ""), *only(), ("Go through", "n")) == 1
        assert scene.files() == {}


async def test_wrong_settings_are_asked_again_or_stop_the_set_up_before_the_first_question(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        scene.env.write_text("CHANNEL_THEME_MAP=1:debat\nTIMEZONE=Berlin\n")
        assert await scene.run() == 1
        assert "CHANNEL_THEME_MAP: unknown theme 'debat' for channel 1" in scene.printed
        assert "(you'll be asked again)" in scene.printed
        scene.env.write_text("MAX_QUEUE_DEPTH=many\nBOT_TOKEN_CLAUDE='open\n")
        assert await scene.run() == 2
        assert scene.typist.questions == []
        assert "MAX_QUEUE_DEPTH: expected" in scene.printed
        assert "line 2: expected KEY=value" in scene.printed


async def test_a_model_without_a_key_asks_for_none_and_one_that_lacks_its_region_stops(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene:
        scene.env.write_text("CLAUDE_MODEL=ollama/llama3.3\n")
        typed = [answer for answer in only("claude") if answer[0] != "ANTHROPIC_API_KEY"]
        assert await scene.run(*typed, *CHANNELS, *HABITS, *YES) == 0
        assert "ollama/llama3.3 needs no API key" in scene.printed
        assert scene.settings().agents["claude"].usable
        scene.env.write_text("CLAUDE_MODEL=bedrock/a-model\n")
        assert await scene.run(*typed[:3]) == 2
        assert "AWS_REGION: expected the region" in scene.printed
        assert scene.env.read_text() == "CLAUDE_MODEL=bedrock/a-model\n"


async def test_a_file_that_cannot_be_written_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with setup_scene(tmp_path) as scene:
        from agentic.setup import env_file as env_place

        real, failed = env_place.os.rename, []

        def full_disk(*names: object) -> None:
            if not failed:
                failed.append(names)
                raise OSError(28, "No space left on device")
            real(*names)

        monkeypatch.setattr(env_place.os, "rename", full_disk)
        assert await scene.run(*only("claude"), *CHANNELS, *HABITS, *YES, *YES) == 0
        assert "failed (No space left on device)" in scene.printed
        assert sorted(scene.files()) == [".env"]


async def test_an_agent_may_be_on_signal_too_or_alone(tmp_path: Path) -> None:
    async with setup_scene(tmp_path) as scene, SignalServer() as signal:
        typed = [
            ("also answer on Signal", "y"),
            ("Its phone number", "claude:0151 12345678"),
            ("Its phone number", "nobody:+4915112345678"),
            ("Its phone number", "claude:+49 151 12345678"),
            ("Address of your signal-cli-rest-api server [http://127.0.0.1:8080]", signal.url),
            ("Who it answers", ""),
            ("Who it answers", "+4917212345678, all of us"),
            ("Who it answers", "+4917212345678"),
        ]
        assert await scene.run(*only(), *typed, *HABITS, *YES) == 0
        settings = scene.settings()
        assert SignalSettings.of(settings).signal_numbers == {"claude": "+4915112345678"}
        own = SignalSettings.of(settings)
        assert (own.signal_allowed, own.signal_api_url) == (
            ("+4917212345678",),
            signal.url,
        )
        assert "SIGNAL_NUMBERS: expected agent:number pairs" in scene.printed
        assert "SIGNAL_NUMBERS: nobody isn't a bot or persona" in scene.printed
        assert f"{signal.url} answers" in scene.printed
        again = [("phone number? [Yes/no]", ""), ("Its phone number", ""), ("Address", "http://127.0.0.1:1")]
        again += [("Who it answers: phone numbers separated by commas, or all [+4917212345678]", "")]
        assert (
            await scene.run(*only("grok"), *again, *CHANNELS, ("Your time zone", ""), ("Daily budget", ""), *YES) == 0
        )
        assert "It doesn't answer yet" in scene.printed
        assert SignalSettings.of(scene.settings()).signal_numbers == {"claude": "+4915112345678"}
        off = [
            ("phone number? [Yes/no]", "n"),
            ("Which channels", ""),
            ("Your time zone", ""),
            ("Daily budget", ""),
            *YES,
        ]
        keep = [("Set up ChatGPT?", "n"), ("Set up Claude?", "n"), ("Set up Gemini?", "n"), ("Grok has", "")]
        assert await scene.run(*keep, *off) == 0
        assert scene.settings().account_agents == ()
