"""Starts that work, starts that cannot, and how the program ends."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from agentic.local.discord import world as permissions
from agentic.local.discord.channels import add_channel
from agentic.local.discord.world import Overwrite
from agentic.process.root import ROOT
from agentic.runtime.runtime import running, serve
from tests.support.flow import flow
from tests.support.models.chat_api import ChatServer
from tests.support.program import Program, wait_for
from tests.support.redis_server import RedisServer, until

# Nobody watches: voices think and wait no longer than they must.
AT_ONCE = (
    "from agentic.local import mode; from agentic.local.settings import Pace; "
    "mode.ONCE = mode.WATCHING = Pace((0, 0), (0, 0.01), max_rounds=2); "
)


def run(folder, *arguments, before="", typed="", **environment):
    """The program in a folder of its own, to its end, with nothing in its environment but what is given."""
    with started(folder, *arguments, before=AT_ONCE + before, typed=typed, **environment) as process:
        process.wait(within=60)
    return process


def started(folder, *arguments, **environment):
    given = {key: environment.pop(key) for key in ("before", "typed") if key in environment}
    return Program(folder, *arguments, **given, environment={"HOME": str(folder), **environment})


def as_typed(folder, script, *arguments, **environment):
    """The same by a Python of its own."""
    return subprocess.run(  # noqa: S603
        [sys.executable, str(ROOT / script), *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        input="",
        timeout=60,
        check=False,
    )


def test_without_any_token_it_says_in_four_lines_what_is_missing_and_how_to_try(tmp_path):
    ended = as_typed(tmp_path, "run_all.py")
    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 4
    assert "BOT_TOKEN_CLAUDE" in ended.stderr
    assert "docs/signal.md" in ended.stderr
    assert "--local" in ended.stderr


def test_wrong_settings_are_all_told_at_once_and_no_secret_with_them(tmp_path):
    ended = run(tmp_path, GUILD_IDS="x", CHANNEL_THEME_MAP="1:nonsense", BOT_TOKEN_CLAUDE="s3cret with spaces")
    assert ended.returncode == 2
    assert all(key in ended.stderr for key in ("GUILD_IDS", "CHANNEL_THEME_MAP", "BOT_TOKEN_CLAUDE", "debate"))
    assert "s3cret" not in ended.stderr


@pytest.mark.promise(67)
def test_bots_with_one_token_between_them_are_named_and_the_others_run_on(tmp_path):
    ended = run(tmp_path, BOT_TOKEN_CLAUDE="s3cret", BOT_TOKEN_GROK="s3cret", CHANNEL_THEME_MAP="1")
    assert "BOT_TOKEN_CLAUDE, BOT_TOKEN_GROK: the same token" in ended.stderr
    assert "s3cret" not in ended.stderr
    assert ended.returncode == 2


def test_a_token_without_a_key_is_named_and_without_any_bot_the_program_ends(tmp_path):
    ended = run(tmp_path, BOT_TOKEN_CLAUDE="a-token", CHANNEL_THEME_MAP="1")
    assert ended.returncode == 2
    assert "ANTHROPIC_API_KEY" in ended.stderr


@pytest.mark.parametrize(
    ("environment", "code", "told"),
    [
        ({"REDIS_URL": "redis://:s3cret@127.0.0.1:1"}, 1, "without Redis at redis://127.0.0.1:1: connection refused."),
        ({"REDIS_URL": "redis://:s3cret@127.0.0.1:1?s3cret=1"}, 2, "REDIS_URL: "),
        ({"DATA_DIR": "file"}, 2, "DATA_DIR: "),
        ({"TIMEZONE": "\udcff"}, 2, "TIMEZONE: "),
    ],
)
def test_what_a_start_fails_at_is_told_without_a_traceback(tmp_path, environment, code, told):
    (tmp_path / "file").write_text("no folder")
    live = {"BOT_TOKEN_CLAUDE": "s3cret", "ANTHROPIC_API_KEY": "s3cret", "CHANNEL_THEME_MAP": "1"}
    ended = run(tmp_path, **live, **environment)
    assert ended.returncode == code, ended.stderr
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "another process" not in ended.stderr
    assert "s3cret" not in ended.stderr


def test_a_mistake_in_a_personas_settings_is_a_warning_like_those_of_env(tmp_path):
    (tmp_path / "personas" / "claude").mkdir(parents=True)
    (tmp_path / "personas" / "claude" / "identity.md").write_text("---\ntalkative: 1\n---\n")
    ended = run(tmp_path, TIMEZONE="UTC")  # without a token
    assert ended.returncode == 2
    assert ended.stderr.startswith("Warning: claude: identity.md:2: 'talkative' is unknown")


@pytest.mark.promise(621)
def test_a_start_on_a_full_disk_says_so_and_may_be_tried_again(tmp_path):
    full = "import tempfile\ntempfile.TemporaryFile = lambda **_: open('/dev/full', 'wb', 0)\n"
    live = {"BOT_TOKEN_CLAUDE": "s3cret", "ANTHROPIC_API_KEY": "s3cret", "CHANNEL_THEME_MAP": "1"}
    ended = run(tmp_path, before=full, **live)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (
        1,  # not 2: a restart helps once there is space
        "Stopped: no space left for data. Free some space and start again.",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--once"], ["--scripted"], ["--local", "--only", "grok"], ["--only", "bing"]),
        *(["--room", "tea"], ["--local", "--room", " "], ["--local", "--room", "x" * 201]),
        *(["--model", "ollama/x"], ["--local", "--scripted", "--model", "ollama/x"]),
    ],
)
def test_options_that_do_not_go_together_are_refused(tmp_path, arguments):
    ended = run(tmp_path, *arguments)
    assert ended.returncode == 2
    assert "usage:" in ended.stderr


def test_a_persona_on_signal_can_be_chosen_and_an_unknown_name_lists_those_that_can(tmp_path):
    (tmp_path / "personas" / "penny").mkdir(parents=True)
    (tmp_path / "personas" / "penny" / "identity.md").write_text("---\nprovider: openai\n---\n")
    signal = {"SIGNAL_NUMBERS": "penny:+4915100000001", "SIGNAL_ALLOWED": "all", "OPENAI_API_KEY": "k"}
    signal |= {"REDIS_URL": "redis://127.0.0.1:9", "TIMEZONE": "UTC", "PERSONAS_DIR": str(tmp_path / "personas")}
    signal |= {"SIGNAL_API_URL": "http://127.0.0.1:9", "OPENAI_BASE_URL": "http://127.0.0.1:9"}
    chosen = run(tmp_path, "--only", "penny", "--check", **signal)
    assert "signal-cli-rest-api doesn't answer at" in chosen.stdout
    assert "unknown bot" not in chosen.stderr
    unknown = run(tmp_path, "--only", "pennny", **signal)
    assert unknown.returncode == 2
    assert "unknown bot pennny; choose from " in unknown.stderr
    assert "penny" in unknown.stderr.partition("choose from")[2]


def test_a_model_that_cannot_be_used_ends_the_start_in_one_line_and_nothing_is_created(tmp_path):
    ended = run(tmp_path, "--local", "--model", "llama3.3", TIMEZONE="UTC")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(r"--model llama3\.3: expected provider/model, .*\n", ended.stderr)
    assert list(tmp_path.iterdir()) == []


def test_run_bot_without_a_name_says_how_to_give_one(tmp_path):
    ended = as_typed(tmp_path, "run_bot.py")
    assert ended.returncode == 2
    assert "AGENT_NAME=claude python run_bot.py" in ended.stderr


def test_local_once_holds_one_conversation_and_its_summary_is_true(tmp_path):
    environment = {"COLUMNS": "200", "REDIS_URL": "redis://127.0.0.1:1", "TIMEZONE": "UTC"}
    with started(tmp_path, "--local", "--once", **environment) as ended:
        ended.wait(within=60)
    assert ended.returncode == 0, ended.stderr
    shown = re.findall(r"^\d\d:\d\d +\d+ #debate (?:ChatGPT|Claude|Gemini|Grok) ", ended.stdout, re.MULTILINE)
    total = next(line for line in ended.stdout.splitlines() if line.startswith("all "))
    assert int(total.split()[1]) == len(shown) >= 6
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert ended.stderr == ""


def test_local_once_with_a_topic_holds_a_short_room_of_personas_to_its_card(tmp_path):
    arguments = ("--local", "--scripted", "--once", "--room", "Is P equal to NP?")
    ended = run(tmp_path, *arguments, COLUMNS="200", TIMEZONE="UTC", PERSONAS_DIR=str(ROOT / "personas"))
    assert ended.returncode == 0, ended.stderr
    shown = re.findall(
        r"^\d\d:\d\d +\d+ #room-1 (Historian|Optimist|Engineer|Sceptic) +(.*)", ended.stdout, re.MULTILINE
    )
    assert {name for name, _ in shown} == {"Historian", "Optimist", "Engineer", "Sceptic"}
    assert len({words for _, words in shown}) == len(shown) >= 7
    assert "you are in #room-1: “Is P equal to NP?”" in ended.stdout
    assert ended.stdout.count("This room is closed") == 1
    total = next(line for line in ended.stdout.splitlines() if line.startswith("all "))
    assert int(total.split()[1]) == len(shown)
    assert ended.stderr == ""


async def test_local_mode_lets_personas_speak_by_the_chosen_model(tmp_path):
    said = iter(["tea", "soup", "salt", "cup", "milk", "leaf", "pot", "water", "spoon", "steam", "sugar", "broth"])
    arguments = ("--local", "--once", "--room", "Is tea soup?", "--model", "llamacpp/local")

    def answer(_request):
        word = next(said, "end")
        return f'{{"skip": false, "text": "The {word} decides what a {word} is."}}'

    async with ChatServer(answer) as server:
        (tmp_path / "config").mkdir()
        address = f"endpoints: {{llamacpp: {{base_url: '{server.base_url}'}}}}\n"
        (tmp_path / "config" / "endpoints.yaml").write_text(address)
        given = {"CONFIG_FILES_DIR": str(tmp_path / "config"), "PERSONAS_DIR": str(ROOT / "personas")}
        ended = await asyncio.to_thread(run, tmp_path, *arguments, COLUMNS="200", TIMEZONE="UTC", **given)
    assert ended.returncode == 0, ended.stderr
    shown = re.findall(r"#room-1 (?:Historian|Optimist|Engineer|Sceptic) +The (\w+) decides", ended.stdout)
    assert len(set(shown)) >= 7
    assert "prepared lines" not in ended.stdout


async def test_local_mode_says_which_personas_have_no_model(tmp_path):
    for name, front in (("ada", "provider: mistral\nmodel: large"), ("bob", "model: llamacpp/local")):
        (tmp_path / "personas" / name).mkdir(parents=True)
        (tmp_path / "personas" / name / "identity.md").write_text(f"---\n{front}\n---\nYou are {name}.")
    async with ChatServer(lambda _: '{"text": "Tea is soup."}') as server:
        (tmp_path / "config").mkdir()
        address = f"endpoints: {{llamacpp: {{base_url: '{server.base_url}'}}}}\n"
        (tmp_path / "config" / "endpoints.yaml").write_text(address)
        given = {"CONFIG_FILES_DIR": str(tmp_path / "config"), "PERSONAS_DIR": str(tmp_path / "personas")}
        given |= {"CLAUDE_MODEL": "llamacpp/local", "COLUMNS": "200", "TIMEZONE": "UTC"}
        ended = await asyncio.to_thread(run, tmp_path, "--local", "--once", **given)
    assert "Ada speaks prepared lines: ENDPOINT_MISTRAL_KEY isn't set" in ended.stdout


def test_local_mode_shows_in_any_terminal_what_can_be_shown(tmp_path):
    ended = as_typed(tmp_path, "run_all.py", "--local", "--once", PYTHONIOENCODING="ascii", TIMEZONE="UTC")
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"\d rounds?, ended: ", ended.stdout)
    assert ended.stderr == ""


def test_local_mode_hints_at_what_a_line_lacks_and_only_there(tmp_path):
    typed = "#memes\nm continue\n. an aside\nhello\n/quit\n"
    ended = run(tmp_path, "--local", "--scripted", TIMEZONE="UTC", typed=typed)
    assert ended.returncode == 0, ended.stderr
    hints = [line for line in ended.stdout.splitlines() if "@claude" in line and "·" in line]
    assert len(hints) == 2
    assert "name one: @claude m continue" in hints[0]
    assert "mention a bot (@claude)" in hints[1]


@pytest.mark.parametrize("name", ["personas", "agentic-discord.log"])
def test_local_mode_names_what_it_cannot_write(tmp_path, name):
    place = tmp_path / "data" / "local" / name
    if name == "personas":
        place.parent.mkdir(parents=True)
        place.write_text("a file in the place of a folder")
    else:
        place.mkdir(parents=True)
    ended = run(tmp_path, "--local", "--once")
    assert ended.returncode == 2
    assert f"data/local/{name}" in ended.stderr
    assert "DATA_DIR: expected to be able to write" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_local_mode_tells_the_warnings_of_its_start_and_a_model_server_below_the_header(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "shared.yaml").write_text("max_mesages: 12\n")
    async with ChatServer(lambda _: "", models=("llama3.3:latest",)) as server:
        (tmp_path / "config" / "endpoints.yaml").write_text(f"endpoints: {{ollama: {{base_url: {server.base_url}}}}}")
        with started(tmp_path, "--local", "--once", before=AT_ONCE, COLUMNS="200", TIMEZONE="UTC") as process:
            assert await process.ended() == 0, process.stderr
        assert server.requests == []
    header, _, below = process.stdout.partition("╰")
    assert "max_mesages" not in header
    assert below.count("max_mesages: unknown option; did you mean max_messages?") == 1
    assert below.count("Ollama runs on this machine (llama3.3). To let all four bots speak by it, at no cost:") == 1


def test_in_local_mode_a_bot_is_mentioned_by_the_name_that_is_shown(tmp_path):
    (tmp_path / "personas" / "claude").mkdir(parents=True)
    (tmp_path / "personas" / "claude" / "identity.md").write_text("---\ndisplay_name: Klaus\n---\nYou are Klaus.\n")
    typed = "@klaus hello\n#memes @claude hello\n#debate\n/stop\n"  # else it waits for the first conversation's end
    ended = run(tmp_path, "--local", "--scripted", COLUMNS="200", TIMEZONE="UTC", typed=typed)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("@Klaus hello") == 2


@pytest.mark.promise(121)
def test_local_mode_is_the_same_place_at_every_start_and_resumes_nothing(tmp_path):
    with started(tmp_path, "--local", "--scripted", PYTHONUNBUFFERED="1") as running:
        wait_for(lambda: running.says("#debate"))  # and is killed in the middle of its conversation
    ended = run(tmp_path, "--local", "--scripted", COLUMNS="200", TIMEZONE="UTC", typed="/stop\n")
    assert ended.returncode == 0, ended.stderr
    log = (tmp_path / "data" / "local" / "agentic-discord.log").read_text()
    assert "goes on" not in log
    assert "observer" not in log
    ended = run(tmp_path, "--local", "--scripted", COLUMNS="200", TIMEZONE="UTC", typed="/quit\n")
    assert "#debate is stopped" in ended.stdout
    ended = run(tmp_path, "--local", "--once", COLUMNS="200", TIMEZONE="UTC")
    assert ended.returncode == 1
    assert ended.stderr == (
        "No conversation: #debate is stopped, perhaps since an earlier start; /resume there lets them speak again.\n"
    )


@pytest.mark.promise(121)
def test_a_second_start_in_the_same_folder_says_so_before_it_opens_anything(tmp_path):
    with started(tmp_path, "--local", "--scripted", PYTHONUNBUFFERED="1") as running:
        wait_for(lambda: running.says("agentic-discord on this machine"))
        second = run(tmp_path, "--local", "--once", before="import agentic.local.mode; agentic.local.mode = None; ")
        assert second.returncode == 1
        assert second.stderr == (
            f"Already running in this folder (process {running.pid}): type /quit there first, or set DATA_DIR to"
            " another folder.\n"
        )
        assert second.stdout == ""
        running.tell(signal.SIGINT)
        assert running.wait() == 0


def test_local_mode_without_a_standard_input_shows_its_conversation(tmp_path):
    for number, closed in enumerate(("stdin", "stdout")):  # as Python begins where the shell has closed one
        before = f"import os; os.close({number})"
        ended = run(tmp_path, "--local", "--scripted", before=before, COORDINATOR_MAX_ROUNDS="1")
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr == ""
        assert ("#debate" in ended.stdout) == (closed == "stdin")


def test_local_once_that_is_interrupted_shows_no_summary_instead_of_a_wrong_one(tmp_path):
    with started(tmp_path, "--local", "--once", PYTHONUNBUFFERED="1") as running:
        wait_for(lambda: running.says("#debate"))
        running.tell(signal.SIGINT)
        assert running.wait() == 0
    assert "messages" not in running.stdout
    assert running.stderr == "Stopped during the conversation; no summary.\n"


@pytest.mark.promise(66)
async def test_a_bot_with_a_wrong_token_is_named_and_the_others_run_on(tmp_path, caplog):
    async with flow(tmp_path) as f:
        agents = dict(f.settings.agents)
        agents["grok"] = _with_token(agents["grok"], "wr0ng")
        async with f.running(settings=f.settings.with_(agents=agents)):
            assert "grok is offline: Discord rejects its token: check BOT_TOKEN_GROK" in caplog.text
            assert "wr0ng" not in caplog.text
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello")
            await f.discord.wait_for(lambda: f.said("debate", "claude"))


@pytest.mark.promise(63)
async def test_a_bot_without_the_message_content_intent_is_named(tmp_path, caplog):
    async with flow(tmp_path) as f:
        f.world.app("grok").message_content = False
        async with f.running() as runtime:
            assert runtime.bots["grok"].failure
            assert "Message Content Intent" in caplog.text


@pytest.mark.promise(634)
async def test_if_discord_rejects_every_bot_the_program_ends_with_2_so_that_systemd_leaves_it(tmp_path, caplog):
    async with flow(tmp_path) as f:
        agents = {name: _with_token(agent, "wr0ng") for name, agent in f.settings.agents.items()}
        code = await asyncio.wait_for(serve(f.setup(settings=f.settings.with_(agents=agents))), 30)
        assert code == 2
        assert "no bot could log in" in caplog.text
        assert "RestartPreventExitStatus=2\n" in (ROOT / "deploy" / "agentic-discord.service").read_text()


@pytest.mark.promise(100)
async def test_sigterm_ends_the_program_in_order(tmp_path, caplog):
    async with flow(tmp_path) as f:
        serving = asyncio.create_task(serve(f.setup()))
        await f.discord.wait_for(lambda: len(f.discord.online) == 4)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(serving, 30) == 0
        assert not f.discord.online
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_redis_that_is_slow_at_the_start_delays_it_and_no_more(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f, Redis.from_url(redis.url) as client:
            await client.client_pause(2000)  # milliseconds; a command is given 300
            async with running(f.setup(agents=("claude",))) as runtime:
                assert await runtime.wait_online() == {"claude"}


async def test_who_waits_for_the_bots_when_the_end_has_begun_waits_no_more(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        tasks, runtime._tasks = runtime._tasks, {}  # as the end takes them
        assert await asyncio.wait_for(runtime.wait_online(), 30) == {"claude"}
        runtime._tasks = tasks


@pytest.mark.promise(64)
async def test_a_channel_that_is_not_there_or_not_permitted_is_named_once_for_its_bot_and_the_others_run_on(
    tmp_path, caplog
):
    async with flow(tmp_path) as f:
        casual, debate = f.channel("casual"), f.channel("debate")
        grok = f.user_id("grok")
        f.world.channel("debate").overwrites[grok] = Overwrite(grok, 1, deny=permissions.SEND_MESSAGES)
        hidden = add_channel(f.world, f.world.guild, "hidden")
        hidden.overwrites[grok] = Overwrite(grok, 1, deny=permissions.VIEW_CHANNEL)
        settings = f.settings.with_(channel_ids=(casual, debate, hidden.id, 4242))
        async with f.running(settings=settings, agents=("claude", "grok")):
            await until(lambda: caplog.text.count("can't see channel 4242") == 2)
            assert caplog.text.count(f"grok may not write in #debate ({debate}): it lacks Send Messages") == 1
            assert caplog.text.count(f"grok may not write in #hidden ({hidden.id}): it lacks View Channels") == 1
            assert "claude may not write" not in caplog.text
            await f.discord.say("Alice", "debate", f"<@{grok}> <@{f.user_id('claude')}> hello")
            await f.discord.wait_for(lambda: f.said("debate", "claude"))
            assert f.said("debate", "grok") == []
            await f.discord.drop_gateway("grok", 1001)
            await f.discord.say("Alice", "casual", f"<@{grok}> hello")
            await f.discord.wait_for(lambda: f.said("casual", "grok"))
            assert caplog.text.count("grok can't see channel 4242") == 1


async def test_a_bot_that_is_in_none_of_the_servers_is_named(tmp_path, caplog):
    async with flow(tmp_path, GUILD_IDS="4242") as f, f.running(agents=("claude",)):
        await until(lambda: "claude is in no server of GUILD_IDS and gets no messages" in caplog.text)


async def test_bot_ids_that_do_not_fit_are_a_warning(tmp_path, caplog):
    async with flow(tmp_path) as f, f.running(settings=f.settings.with_(bot_ids=(f.user_id("claude"), 1))):
        assert f"BOT_IDS doesn't list grok; add its user id {f.user_id('grok')}" in caplog.text
        assert "BOT_IDS doesn't list claude" not in caplog.text


def _with_token(agent, token):
    return replace(agent, token=SecretStr(token))


@pytest.mark.promise(68)
async def test_a_bot_is_online_only_while_it_is_connected_to_discord(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",), coordinator=False) as runtime:
        bot = runtime.bots["claude"]
        await f.discord.wait_for(lambda: bot.online)
        await f.discord.__aexit__()
        await f.discord.wait_for(lambda: not bot.online)
        async with f.discord:
            await f.discord.wait_for(lambda: bot.online, timeout=30)
