"""Which models an agent gets from what is written in .env and config/, and how they are reached."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from pydantic import SecretStr

from agent_config import AGENTS, BASE_URL_SETTINGS, Settings, SettingsError, load_settings, missing_key_message
from agentic.agent.limits import ModelPrices
from agentic.llm.pricing import is_local
from agentic.llm.profiles import Aws, Profile
from agentic.llm.provider_table import ENDPOINTS, KNOWN, PROVIDERS
from agentic.llm.providers.agent_sdk import AgentSdkModel
from agentic.llm.providers.compatible import CompatibleModel
from agentic.llm.providers.ollama import OllamaModel
from agentic.llm.registry import LazyModel, build_model
from agentic.llm.retry import Fallbacks
from agentic.process.root import ROOT
from agentic.runtime.bot import cog_class, runnable
from agentic.runtime.services import make_guild_models, provider_model
from agentic.settings.models import ProfileSettings, Sources


def load(folder: Path | None = None, **environ: str) -> Settings:
    return load_settings({**environ, **({"CONFIG_FILES_DIR": str(folder)} if folder else {})}, env_file=None)


def problems_of(folder: Path | None = None, **environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(folder, **environ)
    return caught.value.problems


def test_the_settings_know_the_providers_that_the_models_know() -> None:
    for name, known in PROVIDERS.items():
        assert cog_class(known.cog).provider == name
        module, _, adapter = known.adapter.partition(":")
        assert getattr(import_module(module), adapter).provider == name
    for name, endpoint in ENDPOINTS.items():
        assert (endpoint.key is None) == is_local(endpoint.base_url), name
    assert {spec.provider for spec in AGENTS.values()} <= set(BASE_URL_SETTINGS) <= set(KNOWN)
    assert set(ProfileSettings.model_fields) <= set(Profile.__dataclass_fields__)


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("claude-x", ["anthropic/claude-x"]),
        ("anthropic/claude-x", ["anthropic/claude-x"]),
        ("openrouter/meta/llama-4", ["openrouter/meta/llama-4"]),
        (" ollama/llama3 , claude-x,, ollama/llama3", ["ollama/llama3", "anthropic/claude-x"]),
        ("meta/llama", ["anthropic/meta/llama"]),
        ("ollama/", ["anthropic/ollama/"]),
        ("ollama", ["ollama/gpt-oss:20b"]),
        (",", ["anthropic/claude-haiku-5-5"]),
    ],
)
def test_a_setting_names_one_model_or_a_list(text: str, expected: list[str]) -> None:
    assert [model.name for model in load(CLAUDE_MODEL=text).agents["claude"].models] == expected


def test_a_slash_that_parts_off_no_provider_is_told_unless_a_gateway_is_set() -> None:
    (warning,) = load(CLAUDE_MODEL="canary/llama").warnings
    assert warning.startswith("CLAUDE_MODEL: ")
    assert "canary" not in warning
    assert load(CLAUDE_MODEL="meta/llama", ANTHROPIC_BASE_URL="https://gateway.example").warnings == ()


def test_each_model_of_a_list_has_the_key_and_the_address_of_its_provider() -> None:
    settings = load(
        CLAUDE_MODEL="claude-x,openai/gpt-x,groq/llama",
        ANTHROPIC_API_KEY="key-a",
        OPENAI_API_KEY="key-o",
        OPENAI_BASE_URL="https://o.example/v1",
        ENDPOINT_GROQ_KEY="key-g",
    )
    models = settings.agents["claude"].models
    keys = ["key-a", "key-o", "key-g"]
    assert [model.api_key for model in models] == [SecretStr(key) for key in keys]
    assert [model.base_url for model in models] == [None, "https://o.example/v1", None]
    assert set(keys) <= settings.secrets()
    assert not any(key in repr(settings) for key in keys)


def test_a_model_without_its_key_is_left_out_and_named_by_its_setting() -> None:
    settings = load(BOT_TOKEN_CLAUDE="t", CHANNEL_THEME_MAP="1", CLAUDE_MODEL="claude-x,ollama/llama3")
    agent = settings.agents["claude"]
    assert [model.name for model in agent.usable] == ["ollama/llama3"]
    assert settings.warnings == ("CLAUDE_MODEL: anthropic/claude-x is skipped, because ANTHROPIC_API_KEY isn't set",)
    assert runnable(settings) == ("claude",)


def test_an_agent_that_can_ask_no_model_stays_offline_and_says_what_is_missing() -> None:
    settings = load(BOT_TOKEN_CLAUDE="t", CLAUDE_MODEL="claude-x,deepseek/chat")
    assert runnable(settings) == ()
    told = missing_key_message(settings.agents["claude"])
    assert "ANTHROPIC_API_KEY, ENDPOINT_DEEPSEEK_KEY" in told


def test_a_picture_model_belongs_to_a_model_of_the_list() -> None:
    assert load().agents["chatgpt"].image_model == AGENTS["chatgpt"].image_model
    assert load(CHATGPT_MODEL="ollama/llama3").agents["chatgpt"].image_model is None
    agent = load(CLAUDE_MODEL="claude-x,xai/grok-x", CLAUDE_IMAGE_MODEL="xai/grok-brush").agents["claude"]
    assert (agent.image_provider, agent.image_model) == ("xai", "grok-brush")


@pytest.mark.parametrize("file", ["shared.yaml", "bots/claude.yaml"])
def test_a_file_may_name_ollama_alone(tmp_path: Path, file: str) -> None:
    folder = write(tmp_path, file, "model: ollama\n")
    assert load(folder).agents["claude"].models[0].name == "ollama/gpt-oss:20b"


@pytest.mark.parametrize(("text", "name"), [("ollama/embeddinggemma", "ollama/embeddinggemma"), ("none", None)])
def test_an_embedding_model_is_an_endpoints_or_openais(text: str, name: str | None) -> None:
    settings = load(EMBEDDING_MODEL=text)
    assert (settings.embedding.name if settings.embedding else None) == name
    assert load(EMBEDDING_MODEL="openai/x", OPENAI_API_KEY="key-o").embedding.api_key == SecretStr("key-o")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("anthropic/x", "expected provider/model, with the provider openai or an endpoint, or none"),
        ("ollama", "expected provider/model, with the provider openai or an endpoint, or none"),
        ("openai/text-embedding-3-small", "expected OPENAI_API_KEY, too, which openai/text-embedding-3-small needs"),
    ],
)
def test_an_embedding_model_that_cannot_be_asked_is_a_problem(text: str, expected: str) -> None:
    assert problems_of(EMBEDDING_MODEL=text) == [f"EMBEDDING_MODEL: {expected}"]


# --- AWS ------------------------------------------------------------------------------------------------------------


def test_bedrock_wants_a_region_and_takes_any_way_to_say_who_calls() -> None:
    bedrock = {"BOT_TOKEN_CLAUDE": "t", "CLAUDE_MODEL": "bedrock/us.anthropic.claude-x"}
    (problem,) = problems_of(**bedrock)
    assert problem.startswith("AWS_REGION: ")
    keys = {"AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": "secret-key", "AWS_SESSION_TOKEN": "session"}
    settings = load(**bedrock, **keys, AWS_REGION="eu-west-1")
    (model,) = settings.agents["claude"].usable
    expected = Aws(region="eu-west-1", access_key="access", secret_key="secret-key", session_token="session")
    assert model.access["aws"] == expected
    assert {"access", "secret-key", "session"} <= settings.secrets()
    with_key = load(**bedrock, AWS_REGION="eu-west-1", AWS_BEARER_TOKEN_BEDROCK="bearer").agents["claude"]
    assert with_key.models[0].access["api_key"] == "bearer"
    assert "AWS_REGION: expected" in problems_of(AWS_REGION="canary")[0]


# --- config/endpoints.yaml ------------------------------------------------------------------------------------------


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return folder


OWN = """
endpoints:
  my-lab:
    base_url: https://u:canary-password@lab.example/v1
    prefill: completions
    fields: {top_k: 3}
    profile: {max_stops: 64, tools: false}
    price_in: 1
    price_out: 2
  ollama: {base_url: "http://192.168.1.20:11434/v1"}
"""


def test_an_endpoint_of_the_owners_is_a_provider(tmp_path: Path) -> None:
    folder = write(tmp_path, "endpoints.yaml", OWN)
    settings = load(folder, CLAUDE_MODEL="my-lab/deep/thought,ollama/x", ENDPOINT_MY_LAB_KEY="key-of-lab")
    own, home = settings.agents["claude"].usable
    model = build_model(**own.access)
    assert isinstance(model, CompatibleModel)
    assert (model.name, model.endpoint.prefill, model.endpoint.fields) == (
        "my-lab/deep/thought",
        "completions",
        {"top_k": 3},
    )
    assert (model.profile.max_stops, model.profile.tools, model.profile.alternate) == (64, False, True)
    assert own.access["api_key"] == "key-of-lab"
    assert {"key-of-lab", "canary-password"} <= settings.secrets()
    assert "canary" not in repr(settings)
    assert (own.is_free, home.is_free, home.base_url) == (False, True, "http://192.168.1.20:11434/v1")
    assert ModelPrices.of(settings.agents["claude"], free=False).call(
        1_000_000, output_tokens=1_000_000
    ) == pytest.approx(3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("endpoints: [", "endpoints.yaml:1: not YAML"),
        ("servers: {}", "a single key `endpoints`"),
        ("endpoints: {lab: }", "endpoints.lab: expected a mapping"),
        ("endpoints: {lab: {prefill: last}}", "endpoints.lab.base_url: expected an address"),
        ("endpoints: {lab: {base_url: canary}}", "endpoints.lab.base_url: expected an address"),
        ("endpoints: {lab: {base_url: 'http://a', key: canary}}", "endpoints.lab.key: "),
        ("endpoints: {lab: {base_url: 'http://a', profile: {max_stops: canary}}}", "endpoints.lab.profile.max_stops: "),
        ("endpoints: {lab: {base_url: 'http://a', price_in: -1}}", "endpoints.lab.price_in: "),
        ("endpoints: {openai: {base_url: 'http://a'}}", "endpoints.openai: expected another name"),
        ("endpoints: {La B: {base_url: 'http://a'}}", "endpoints.La B.name: "),
    ],
)
def test_what_is_wrong_in_the_file_is_named_without_its_value(tmp_path: Path, text: str, expected: str) -> None:
    (problem,) = problems_of(write(tmp_path, "endpoints.yaml", text))
    assert expected in problem
    assert "canary" not in problem


@pytest.mark.parametrize("text", ["", "endpoints:\n", "# nothing\n"])
def test_an_empty_file_brings_nothing(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path, "endpoints.yaml", text)).endpoints == {}


def test_the_example_of_the_file_is_right(tmp_path: Path) -> None:
    example = ROOT / "config" / "endpoints.example.yaml"
    found = load(write(tmp_path, "endpoints.yaml", example.read_text(encoding="utf-8"))).endpoints
    assert set(found) == {"ollama", "lab"}


# --- options --------------------------------------------------------------------------------------------------------


def test_a_file_of_options_names_the_models_and_wins_over_the_setting(tmp_path: Path) -> None:
    write(tmp_path, "shared.yaml", "model: openai/gpt-shared\nmax_messages: 3\n")
    folder = write(tmp_path, "bots/claude.yaml", "model: [anthropic/claude-own, ollama/x]\n")
    agents = load(folder, CLAUDE_MODEL="claude-x", GROK_MODEL="grok-x").agents
    assert [model.name for model in agents["claude"].models] == ["anthropic/claude-own", "ollama/x"]
    assert [model.name for model in agents["grok"].models] == ["openai/gpt-shared"]
    (problem,) = problems_of(write(tmp_path, "bots/claude.yaml", "model: gpt-canary\n"))
    assert "claude.yaml: model: expected provider/model" in problem
    assert "canary" not in problem


SERVER = 123456789012345678


def names_in(settings: Settings, agent: str) -> dict[int, list[str]]:
    return {server: [model.name for model in there.models] for server, there in settings.agents[agent].servers.items()}


def test_a_file_of_one_server_names_the_models_that_bots_have_there(tmp_path: Path) -> None:
    write(tmp_path, "shared.yaml", "model: openai/gpt-shared\n")
    write(tmp_path, f"guilds/{SERVER}.yaml", "model: [openai/gpt-here, ollama/x]\n")
    write(tmp_path, "guilds/8.yaml", "model: openai/gpt-shared\n")
    write(tmp_path, "guilds/9.yaml", "max_messages: 3\n")
    write(tmp_path, "guilds/010.yaml", "model: ollama/of-nobody\n")
    write(tmp_path, "bots/claude.yaml", "model: anthropic/claude-own\n")
    write(tmp_path, f"bots/claude.{SERVER}.yaml", "model: openai/gpt-claude\n")
    folder = write(tmp_path, "bots/gemini.8.yaml", "model: google/gemini-8\n")
    settings = load(folder, OPENAI_API_KEY="key-o", GROK_MODEL="grok-x")
    assert names_in(settings, "grok") == {SERVER: ["openai/gpt-here", "ollama/x"]}
    assert names_in(settings, "gemini") == {SERVER: ["openai/gpt-here", "ollama/x"], 8: ["google/gemini-8"]}
    assert names_in(settings, "claude") == {SERVER: ["openai/gpt-claude"]}  # its own file stands above a server's
    assert [model.name for model in settings.agents["claude"].models] == ["anthropic/claude-own"]
    assert settings.agents["claude"].servers[SERVER].api_key == SecretStr("key-o")
    assert settings.warnings == ()


def test_what_cannot_be_used_in_a_file_of_one_server_is_named_once(tmp_path: Path) -> None:
    (problem,) = problems_of(write(tmp_path, f"guilds/{SERVER}.yaml", "model: gpt-canary\n"))
    assert f"{SERVER}.yaml: model: expected provider/model" in problem
    assert "canary" not in problem


def test_a_server_whose_models_have_no_key_has_the_bots_own_and_the_start_says_so(tmp_path: Path) -> None:
    folder = write(tmp_path, f"bots/claude.{SERVER}.yaml", "model: [openai/gpt-x, groq/x]\n")
    write(tmp_path, "bots/claude.8.yaml", "model: [openai/gpt-x, ollama/x]\n")
    live = {"BOT_TOKEN_CLAUDE": "t", "ANTHROPIC_API_KEY": "k", "CHANNEL_THEME_MAP": "1"}
    settings = load(folder, **live)
    assert list(settings.agents["claude"].elsewhere) == [8]
    assert settings.warnings == (
        "claude in server 8: openai/gpt-x is skipped, because OPENAI_API_KEY isn't set",
        f"claude in server {SERVER}: openai/gpt-x is skipped, because OPENAI_API_KEY isn't set",
        f"claude in server {SERVER}: groq/x is skipped, because ENDPOINT_GROQ_KEY isn't set",
        f"claude in server {SERVER}: none of its models can be used, so it uses its models for other servers",
    )


def test_a_password_in_the_address_of_a_model_of_one_server_is_a_secret(tmp_path: Path) -> None:
    folder = write(tmp_path, f"guilds/{SERVER}.yaml", "model: openai/gpt-x\n")
    settings = load(folder, CHATGPT_MODEL="ollama/x", OPENAI_BASE_URL="http://me:canary-password@gateway.example/v1")
    assert "canary-password" in settings.secrets()
    assert "canary" not in repr(settings)


# --- from settings to models ----------------------------------------------------------------------------------------


def test_a_list_becomes_models_that_stand_in_for_each_other() -> None:
    settings = load(
        CHATGPT_MODEL="ollama/llama3,gpt-x,deepseek/chat", OPENAI_API_KEY="k", CHATGPT_IMAGE_MODEL="gpt-brush"
    )
    model = provider_model(settings.agents["chatgpt"])
    assert isinstance(model, Fallbacks)
    assert [one.name for one in model.models] == ["ollama/llama3", "openai/gpt-x"]  # there is no key for the third
    assert [(one.free, one.can_draw) for one in model.models] == [(True, False), (False, True)]
    assert model.name == "ollama/llama3"
    assert not model.free
    prices = ModelPrices.of(settings.agents["chatgpt"], free=model.free)
    assert (prices.provider, prices.model, prices.image_provider) == ("openai", "gpt-x", "openai")
    assert isinstance(provider_model(load(XAI_API_KEY="k").agents["grok"]), LazyModel)


def test_servers_with_the_same_list_share_a_model_and_each_list_has_its_prices(tmp_path: Path) -> None:
    for server in (7, 8):
        write(tmp_path, f"guilds/{server}.yaml", "model: [groq/of-nobody, ollama/x, openai/gpt-x]\n")
    folder = write(tmp_path, "guilds/9.yaml", "model: ollama/x\n")
    agent = load(folder, OPENAI_API_KEY="k", XAI_API_KEY="k").agents["grok"]
    models = make_guild_models(agent, provider_model)
    assert models[7] is models[8]
    assert isinstance(models[7], Fallbacks)
    assert [one.name for one in models[7].models] == ["ollama/x", "openai/gpt-x"]
    all_prices = {server: ModelPrices.of(agent.servers[server], free=model.free) for server, model in models.items()}
    assert [(prices.provider, prices.free) for prices in all_prices.values()] == [
        ("openai", False),
        ("openai", False),
        ("ollama", True),
    ]


def test_a_coding_agent_has_a_session_of_the_model_of_the_server(tmp_path: Path) -> None:
    write(tmp_path, "bots/claude.8.yaml", "model: openai/gpt-x\n")
    folder = write(tmp_path, "bots/claude.7.yaml", "model: anthropic/claude-x\n")
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    models = make_guild_models(load(folder, AGENT_RUNTIME="claude-agent-sdk", **keys).agents["claude"], provider_model)
    assert isinstance(models[7], AgentSdkModel)
    assert models[7].config.model == "claude-x"
    assert isinstance(models[8], LazyModel)


@pytest.mark.parametrize(("retries", "attempts"), [("", 3), ("0", 1), ("7", 8)])
async def test_a_call_is_tried_again_as_often_as_is_set(retries: str, attempts: int) -> None:
    agent = load(MODEL_RETRIES=retries, CLAUDE_MODEL="ollama/x").agents["claude"]
    lazy = provider_model(agent)
    assert isinstance(lazy, LazyModel)
    model = await lazy.get_ready()
    assert isinstance(model, OllamaModel)
    assert model._retrier.attempts == attempts
    await lazy.aclose()


@pytest.mark.parametrize(
    ("model", "provider"),
    [("claude-x", "anthropic"), ("openai/x", "openai"), ("bedrock/x", "bedrock"), ("ollama/x", "compatible")],
)
def test_the_class_of_an_agent_follows_from_its_first_model(model: str, provider: str) -> None:
    agent = load(CLAUDE_MODEL=f"{model},xai/grok-x", AWS_REGION="us-east-1").agents["claude"]
    assert cog_class(agent.cog).provider == provider


def test_a_name_without_a_known_provider_belongs_to_the_agents_own() -> None:
    sources = Sources(keys={}, addresses={}, endpoints={})
    assert sources.split_model_name("a/b", "xai") == ("xai", "a/b")
    assert sources.split_model_name("groq/b/c", "xai") == ("groq", "b/c")
