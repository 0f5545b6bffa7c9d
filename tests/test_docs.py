"""What the documents say, held against the code: tables, examples, links, the picture."""

from __future__ import annotations

import ast
import inspect
import json
import random
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from agent_cogs.slash_definitions import SLASH, SUB_COMMAND, command_list
from agent_config import AGENTS, OTHER_NAMES, AgentSpec, load_settings, setting_names
from agent_coordinator.idle import tasks as results
from agentic.agent.limits import ModelPrices
from agentic.check.costs import INPUT_TOKENS, OUTPUT_TOKENS, room_cost
from agentic.check.discord import NEEDED, ROOMS, WELCOME
from agentic.context.options import MAX_STEP, Options, wanted
from agentic.inbox.stop_orders import SEEN, STOP_SIGN
from agentic.inbox.triggers import CHAIN_END
from agentic.llm.model import Access
from agentic.llm.pricing import price
from agentic.llm.types import Prompt, Usage
from agentic.local.discord.channels import small_world
from agentic.local.discord.server import routed_to
from agentic.local.voices.voice import ScriptedVoice
from agentic.process.root import ROOT
from agentic.runtime.bot import cog_class
from agentic.runtime.cli import _parser
from agentic.runtime.runtime import running
from agentic.runtime.services import ModelMakers, ProcessConfig
from agentic.services.signal import stores as signal_stores
from agentic.settings.fields import DEFAULT_TOOLS
from agentic.settings.loading import OLD_NAMES
from agentic.settings.services import settings_class
from agentic.state.idle import RunningTask
from agentic.state.silence import MAX_PAUSE_SECONDS
from agentic.themes import THEMES
from agentic.turn.form import FIELDS
from agentic.turn.result import REACTIONS
from agentic.wire import keys, messages
from agentic.wire import messages as reading
from agentic.wire.entries import SummaryNote
from agentic.wire.messages import Command, Instruction, MentionNotice, Result, WireMessage
from agentic.wire.reasons import ENDINGS, PAUSES, REASONS
from tests.support.discord.stand_in import DiscordStandIn
from tests.support.redis_server import redis_binary
from tests.support.tools.tool_doubles import CONTEXT, FakeModel, call, run_tools

README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE, PROTOCOL, SETTINGS, SETUP, THEMES_PAGE = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("dev/architecture", "dev/protocol", "settings", "setup", "conversations")
)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "config" / "README.md"])


def table(text: str, heading: str) -> dict[str, list[str]]:
    """The rows of the tables whose first column has this heading: first cell, without backticks → the other cells."""
    rows: dict[str, list[str]] = {}
    for found in re.findall(rf"^\| {heading} \|.*\n.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        for line in found.splitlines():
            first, *others = (cell.strip() for cell in line.strip("|").split("|"))
            name = first.strip("`")
            assert name not in rows, f"{name} twice"
            rows[name] = others
    assert rows, heading
    return rows


def code(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


# --- for owners -----------------------------------------------------------------------------------------------------


def test_the_page_of_settings_has_every_setting_and_no_other() -> None:
    assert sorted(table(SETTINGS, "Setting")) == sorted(setting_names())


def defaults() -> Iterator[tuple[str, object]]:
    for info in settings_class().model_fields.values():
        if info.validation_alias and isinstance(info.default, bool | int | float | str | Path):
            yield str(info.validation_alias), info.default
    for spec in AGENTS.values():
        yield spec.model_setting, spec.model
        yield spec.image_model_setting, spec.image_model or ""


def test_the_defaults_on_the_page_of_settings_are_those_of_the_code() -> None:
    rows = table(SETTINGS, "Setting")
    for key, default in defaults():
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        shown = shown.lower() if isinstance(default, bool) else shown
        assert rows[key][-1].strip("`") == shown, key


def test_the_page_of_settings_and_the_example_begin_with_the_same_ones_and_name_the_old_ones() -> None:
    example = re.findall(r"^(?:# )?([A-Z_]+)=", (ROOT / ".env.example").read_text(encoding="utf-8"), re.MULTILINE)
    first = list(table(SETTINGS.partition("\n## Limits")[0], "Setting"))
    assert sorted(first) == sorted(example[: len(first)])
    assert sorted(table(SETTINGS, "Name")) == sorted({*OLD_NAMES, *OTHER_NAMES.values()})


def test_the_page_of_costs_has_the_default_models_and_about_their_prices() -> None:
    """Within a factor of two: a new version of the price list changes some."""
    rows = table((ROOT / "docs" / "costs.md").read_text(encoding="utf-8"), "bot")
    assert list(rows) == [spec.display_name for spec in AGENTS.values()]
    for spec, (model, *dollars) in zip(AGENTS.values(), rows.values(), strict=True):
        assert model == spec.model
        turn = Usage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
        costs = [price(spec.provider, model, turn), price(spec.provider, model, replace(turn, searches=1))]
        if spec.image_model:
            costs.append(price(spec.provider, spec.image_model, Usage(pictures=1)))
        for shown, cost in zip(dollars, costs, strict=bool(spec.image_model)):
            assert 0.5 < float(shown.strip("$")) / cost.cost_usd < 2, (spec.name, shown)


def test_the_page_of_costs_has_about_the_price_of_a_room() -> None:
    rows = table((ROOT / "docs" / "costs.md").read_text(encoding="utf-8"), "a room of")
    members = [*re.findall(r"[A-Z]+_API_KEY", " ".join(rows)), "the four bots"]
    assert len(members) == len(AGENTS) + 1
    for row, (dollars,) in rows.items():
        named = [spec for spec in AGENTS.values() if spec.key_setting in row] or AGENTS.values()
        all_prices = [ModelPrices(spec.provider, spec.model, None) for spec in named]
        assert 0.5 < float(dollars.strip("$")) / room_cost(all_prices) < 2, row


def test_the_page_of_tools_has_the_default_of_the_code() -> None:
    assert f"`{','.join(DEFAULT_TOOLS)}`" in (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["settings", "privacy", "maintain"])
def test_pages_about_the_window_say_how_far_it_grows(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    (about,) = [part for part in re.split(r"\n(?=[-|])", text) if "`CONTEXT_WINDOW_SIZE`" in part]
    assert f"{MAX_STEP} more" in about


def test_the_page_of_commands_says_how_long_a_pause_lasts() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert f"{MAX_PAUSE_SECONDS / 86400:g} days" in text.partition("## Pause all bots")[2].partition("##")[0]


def test_the_page_of_privacy_names_each_key_with_people_and_chats_of_signal() -> None:
    text = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    assert f"`{signal_stores.SIGNAL_PEOPLE}`" in text
    assert f"`{signal_stores.SIGNAL_CHATS}`" in text


def test_examples_of_rooms_name_personas_that_come_with_the_program() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    found = re.findall(r"personas: ((?:\w+, )+\w+)", text)
    names = [name.strip().lower() for example in found for name in example.split(",")]
    assert names
    assert set(names) <= {folder.name for folder in (ROOT / "personas").iterdir()}


def test_contributors_read_what_ci_runs() -> None:
    run = re.findall(r"^ *(make [\w-]+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    (about,) = re.findall(r"^`\.ci/run` is (.*?) from a clean", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert re.findall(r"make [\w-]+", about) == run


def test_the_page_of_options_and_the_program_say_the_same_of_each() -> None:
    rows = table((ROOT / "docs" / "channel-options.md").read_text(encoding="utf-8"), "Option")
    assert sorted(rows) == sorted(Options.model_fields)
    for name, (values, *_) in rows.items():
        for number in re.findall(r"[\d,]*\d", wanted(name)):
            assert number in re.findall(r"[\d,]*\d", values) or name == "name", name


def test_the_page_of_themes_says_what_the_code_does() -> None:
    rows = table(THEMES_PAGE, "Theme")
    assert list(rows) == list(THEMES)
    for name, (summary, share, search, pictures) in rows.items():
        theme = THEMES[name]
        assert summary == theme.summary, name
        assert share == f"{theme.window_share:.0%}", name
        assert search == ("yes" if theme.search else ""), name
        assert pictures == ("always" if theme.always_draw else "now and then" if theme.maybe_draw else ""), name


def test_the_page_of_rooms_says_of_each_reason_whether_the_room_pauses_or_closes() -> None:
    rows = {
        name: status
        for names, (status, _) in table((ROOT / "docs" / "rooms.md").read_text(encoding="utf-8"), "Why").items()
        for name in re.findall(r"\w+", names)
    }
    of_conversations = {"round_limit", "too_few_spoke", "chance", "nobody_opened", "channel_taken", "joined"}
    assert rows == {why: "paused" if why in PAUSES else "closed" for why in ENDINGS if why not in of_conversations}


def test_the_pages_for_owners_name_every_permission_and_option() -> None:
    pages = [path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md")]
    words = " ".join(" ".join(pages).split())
    for name in (*NEEDED, *WELCOME, *ROOMS):
        assert name in words
    for action in _parser()._actions:
        if "--help" not in action.option_strings:
            assert action.option_strings[-1] in words


def test_the_page_about_setup_has_an_env_that_is_enough_to_go_live(tmp_path: Path) -> None:
    (lines,) = re.findall(r"((?:^ +[A-Z_]+=.*\n)+)", SETUP, re.MULTILINE)
    names = [line.strip().partition("=")[0] for line in lines.splitlines()]
    assert len(names) == 12
    (tmp_path / ".env").write_text(textwrap.dedent(lines), encoding="utf-8")
    live = load_settings({spec.token_setting: f"token-{key}" for key, spec in AGENTS.items()}, tmp_path / ".env")
    assert live.channels
    assert live.guild_ids
    more = {name for row in table(SETUP, "Setting") for name in re.findall(r"[A-Z_]+", row)}
    assert more | set(names) <= set(setting_names())


def test_the_readme_leads_to_every_page() -> None:
    for page in ROOT.glob("docs/*.md"):
        assert f"](docs/{page.name})" in README, page.name


def signatures(command: dict[str, Any], name: str = "") -> Iterator[str]:
    """`/bots mute bot [minutes]`: a slash command, or each of its parts, with its arguments as the page writes them."""
    name = f"{name} {command['name']}".strip()
    options = command.get("options", [])
    parts = [option for option in options if option["type"] == SUB_COMMAND]
    for part in parts:
        yield from signatures(part, name)
    if not parts:
        arguments = [option["name"] if option.get("required") else f"[{option['name']}]" for option in options]
        yield " ".join((f"/{name}", *arguments))


def test_the_page_of_commands_has_each_command_with_its_arguments() -> None:
    rows = table((ROOT / "docs" / "commands.md").read_text(encoding="utf-8"), "Command")
    documented = re.findall(r"/[^`,]+", " ".join(f"`{row}`" for row in rows))
    commands = [one for one in command_list({"claude": "Claude"}) if one["type"] == SLASH]
    defined = [signature for command in commands for signature in signatures(command)]
    assert sorted(documented) == sorted(defined)


def test_the_page_of_commands_explains_every_sign_of_a_bot() -> None:
    signs = {*REACTIONS.values(), STOP_SIGN, SEEN, CHAIN_END}
    assert table((ROOT / "docs" / "commands.md").read_text(encoding="utf-8"), "Emoji").keys() == signs


def test_commands_in_the_documents_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for path in DOCUMENTS:
        named = re.findall(r"(?:`|^    |=true )make ([\w-]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(named) <= targets, path.name


def test_relative_links_lead_somewhere() -> None:
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = target.partition("#")
            if file.startswith(("http://", "https://")):
                continue
            place = (path.parent / file) if file else path
            assert place.exists(), f"{path.name}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", place.read_text(encoding="utf-8"), re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in slugs, f"{path.name}: {target}"


@pytest.mark.promise(15)
@pytest.mark.parametrize("picture", ["channel", "conversation"])
def test_a_picture_is_a_conversation_with_all_bots_and_loads_nothing(picture: str) -> None:
    text = (ROOT / "docs" / f"{picture}.svg").read_text(encoding="utf-8")
    shown = "".join(ElementTree.fromstring(text).itertext())  # noqa: S314 - our own file
    for spec in AGENTS.values():
        assert spec.display_name in shown
    assert not re.findall(r"""(?:href|src)\s*=|url\((?!["']?#)|@import|@font-face""", text)


# --- architecture: the layout ---------------------------------------------------------------------------------------


# --- extending: a fifth agent ------------------------------------------------------------------------------------


def examples(kind: str) -> list[str]:
    """The Python code in a section of the page about extending, such as "tool"."""
    page = (ROOT / "docs" / "dev" / "extending.md").read_text(encoding="utf-8")
    return code(page.partition(f"\n## A new {kind}\n")[2].partition("\n## ")[0], "python")


@pytest.fixture
def fifth(monkeypatch: pytest.MonkeyPatch) -> AgentSpec:
    """The page's two pieces of code, run."""
    subclass, row = examples("agent")
    found: dict[str, Any] = {"AgentSpec": AgentSpec}
    exec(row, found)  # noqa: S102 - our own document
    spec = found["_OPUS"]
    assert isinstance(spec, AgentSpec)
    module = ModuleType(spec.cog.partition(":")[0])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(subclass, module.__dict__)  # noqa: S102
    return spec


async def test_the_fifth_agent_of_the_page_logs_in_and_answers(fifth: AgentSpec, tmp_path: Path) -> None:
    redis_binary()
    agents = {**AGENTS, fifth.name: fifth}
    assert cog_class(fifth.cog).provider == fifth.provider
    world = small_world({fifth.name: (fifth.display_name, "token")}, ("casual",), ("Ann",))
    channel = world.channel("casual").id
    environ = {fifth.token_setting: "token", "CHANNEL_THEME_MAP": str(channel), "DATA_DIR": str(tmp_path)}
    settings = load_settings(environ, None, agents)
    assert settings.agents[fifth.name].model == "claude-opus-5-5"
    async with DiscordStandIn(world) as discord:
        with routed_to(discord):
            setup = ProcessConfig(
                settings=settings,
                agents=(fifth.name,),
                coordinator=False,
                models=ModelMakers(make=lambda agent: ScriptedVoice(agent.name, rng=setup.rng)),
                use_default_redis=False,
                personas=False,  # nothing is written into this folder
            )
            async with running(setup) as runtime:
                assert await runtime.wait_online() == {fifth.name}
                await discord.say("Ann", "casual", f"<@{world.app(fifth.name).user.id}> hello")
                await discord.wait_for(lambda: len(discord.messages("casual")) == 2)
                assert discord.messages("casual")[-1]["author"]["username"] == "Opus"


# --- extending: the other examples ---------------------------------------------------------------------------------


def example(kind: str) -> dict[str, Any]:
    """Run the code of a section and return its names."""
    (text,) = examples(kind)
    module = ModuleType(f"example_of_{kind.replace(' ', '_')}")
    exec(text, module.__dict__)  # noqa: S102 - our own document
    return module.__dict__


async def test_the_tool_of_the_page_is_called_by_a_model() -> None:
    dice = example("tool")["Dice"](random.Random(1))
    model = FakeModel([call("roll_dice", dice=3)], [call("roll_dice", dice=99)], "You have a two.")
    outcome = await run_tools(model, Prompt(text="roll"), {dice.spec.name: dice}, context=CONTEXT, clock=lambda: 0.0)
    assert outcome.reply.text == "You have a two."
    rolled, refused = (step.results[0] for step in model.prompts[-1].rounds)
    assert (rolled.text, rolled.is_error) == ("2, 5, 1", False)
    assert refused.is_error


async def test_the_model_of_the_page_answers_and_is_priced() -> None:
    model = example("model")["EchoModel"](Access(model="parrot", api_key="k"))
    heard: list[str] = []
    reply = await model.complete(Prompt(text="hello", on_text=heard.append))
    assert (reply.text, reply.model, heard[-1]) == ("hello", "echo/parrot", "hello")
    assert reply.usage.cost_usd > 0, "a model that no table has is no gift"
    await model.check()
    await model.aclose()


def test_the_note_of_the_background_task_of_the_page_is_made_where_it_wrote_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "_NOTES", {**results._NOTES, "digest": example("background task")["_digest"]})
    asking = RunningTask(instruction_id="i", agent="penny", task="digest", channel_id=5, message_id=7, deadline=9.0)
    wrote = Result(instruction_id="i", agent_name="penny", skipped=False, text=" They talked of bees. ")
    note = results.note_of(asking, wrote, 10.0)
    assert isinstance(note, SummaryNote)
    assert (note.text, note.message_id, note.agent) == ("They talked of bees.", 7, "penny")
    assert results.has_failed(asking, wrote.model_copy(update={"text": ""}), 10.0)


def test_the_schedule_of_the_page_runs_once_a_day_while_nobody_writes() -> None:
    schedule = example("schedule")["DailySchedule"]()
    assert schedule.should_run(1000.0, idle=True)
    schedule.mark_begun(1000.0)
    schedule.mark_complete(1010.0)
    schedule.reset(2000.0)
    assert not schedule.should_run(1010.0 + 86_399, idle=True)
    assert schedule.should_run(1010.0 + 86_400, idle=True)
    assert not schedule.should_run(1010.0 + 86_400, idle=False)


# --- the wire -------------------------------------------------------------------------------------------------------


def wire_models() -> list[type[WireMessage]]:
    found = [model for _, model in inspect.getmembers(messages, inspect.isclass) if issubclass(model, WireMessage)]
    return [model for model in found if model not in (WireMessage, messages.VersionedMessage)]


@pytest.mark.parametrize("model", wire_models(), ids=lambda model: model.__name__)
def test_every_field_of_the_wire_is_in_its_table(model: type[WireMessage]) -> None:
    rows = table(PROTOCOL, model.__name__)
    assert list(rows) == list(model.model_fields)
    for name, info in model.model_fields.items():
        assert ("required" in rows[name][0]) == info.is_required(), name


@pytest.mark.parametrize(
    ("example", "read", "model"),
    [
        ("instruction", reading.read_instruction, Instruction),
        ("result", reading.read_result, Result),
        ("notice", reading.read_result, MentionNotice),
    ],
)
def test_the_examples_of_the_wire_can_be_read_whole(example: str, read: Any, model: type[WireMessage]) -> None:
    (text,) = code(PROTOCOL, f"json {example}")
    assert isinstance(read(text), model)
    assert json.loads(text).keys() <= model.model_fields.keys()


def test_the_example_of_a_command_can_be_read() -> None:
    (text,) = re.findall(r"publish coordinator:commands '(.*)'", PROTOCOL)
    assert reading.read(Command, text) == Command(command="start", theme="debate", topic="tabs or spaces")


def test_every_reason_is_explained() -> None:
    rows = table(PROTOCOL, "Reason")
    assert list(rows) == list(REASONS)


def key_names() -> Iterator[str]:
    """Every name in keys.py, with {} for the values in it, and those of a service."""
    yield from (signal_stores.SIGNAL_PEOPLE, signal_stores.SIGNAL_CHATS, signal_stores.SIGNAL_VANISHING)
    for name, value in vars(keys).items():
        if inspect.isbuiltin(value):  # the method `format` of a pattern
            yield value.__self__
        elif name.isupper():
            yield value


def test_every_redis_key_is_in_the_table() -> None:
    assert sorted(re.sub(r"\{\w+\}", "{}", name) for name in table(PROTOCOL, "Name")) == sorted(key_names())


def test_the_fields_of_a_decision_are_documented() -> None:
    (text,) = code(ARCHITECTURE, "json decision")
    assert list(json.loads(text)) == [field.name for field in FIELDS if field.where not in ("rooms", "naming")]


def texts_of_the_code() -> str:
    """All its texts, one a line, with … for what is filled in."""
    found = []
    for path in (*ROOT.glob("agent*.py"), *ROOT.glob("agent*/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def test_each_message_on_the_page_of_troubles_is_one_of_the_program() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quotes = re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\| (.*?) \| ", page, re.MULTILINE)))
    assert len(quotes) > 20
    filled = "|".join((*setting_names(), *(spec.display_name for spec in AGENTS.values()), r"\d+\.\d+", "…", ": ", "="))
    texts = texts_of_the_code()
    for quote in quotes:
        assert [part for part in re.split(filled, quote) if part.strip() not in texts] == [], quote


def test_files_named_in_the_documents_exist() -> None:
    """`name.py` alone stands for one file somewhere; `folder/name.py` for that one."""
    known = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    made_here = {"agent_cogs/opus_agent.py"}
    for path in DOCUMENTS:
        for name in set(re.findall(r"`([\w/]+\.py)\b", path.read_text(encoding="utf-8"))) - made_here:
            assert any(file == name or file.endswith(f"/{name}") for file in known), f"{path.name}: {name}"
