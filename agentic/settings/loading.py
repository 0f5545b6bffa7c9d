"""Read .env, the environment, and the owner's folders into Settings.

Names of settings are read in upper or lower case, and under other and old names. In these functions `both` has the
texts by name, where the environment overrides .env. A message repeats a value only if it is too short for a token or
key: an owner may paste a secret into the wrong line.
"""

from __future__ import annotations

import difflib
import io
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dotenv.parser import parse_stream
from pydantic import SecretStr, ValidationError, create_model

from agentic.llm.profiles import Aws, QueryConfig
from agentic.llm.provider_table import KNOWN, PROVIDERS
from agentic.settings.agents import BASE_URL_SETTINGS, AgentSettings, AgentSpec, FrontMatter, PersonaModels
from agentic.settings.fields import (
    HTTP,
    MILLISECONDS,
    TOOL_PATTERNS,
    ApiKey,
    Keys,
    OptionalHttpAddress,
    Secret,
    ToolPatterns,
    setting,
    split_list,
)
from agentic.settings.models import (
    KEY_SETTINGS,
    Choice,
    EndpointSettings,
    ModelSettings,
    Sources,
    chosen_models,
    provider_and_model,
    read_endpoints,
    shared_models,
)
from agentic.settings.settings import Settings

OTHER_NAMES = {
    "GEMINI_API_KEY": "GOOGLE_API_KEY",  # Google's SDK accepts both names
    # names from single-bot gateways
    "BOT_TOKEN_CLAUDE": "DISCORD_BOT_TOKEN",
    "MAX_CONCURRENT_TURNS": "MAX_CONCURRENT_QUERIES",
    "PERSONAS_DIR": "CONFIG_DIR",
    "TURN_TIMEOUT_SECONDS": "QUERY_TIMEOUT_MS",
    # names from companions for a single person
    "SIGNAL_NUMBERS": "SIGNAL_NUMBER",
    "OLLAMA_BASE_URL": "OLLAMA_API_URL",
}
"""Our key → another accepted name; our key wins when both are set."""

COMPANION = "penny"  # the agent for a Signal number without a name
_HOW_READ = {"QUERY_TIMEOUT_MS": ", in milliseconds", "SIGNAL_NUMBER": f", for AGENT_NAME or {COMPANION}"}

OLD_NAMES = {
    "AGENT_CHANNEL_IDS": (
        "still read as the only channels where the bots speak; CHANNEL_THEME_MAP alone is enough: an id without a"
        " theme means casual"
    ),
    "STOP_ROLE_IDS": "read as a part of MODERATOR_IDS, which takes ids of roles and of people",
    "STOP_USER_IDS": "read as a part of MODERATOR_IDS, which takes ids of roles and of people",
}
"""A setting that became a part of another one → the warning at the start."""
PERSONA_FILES = ("soul.md", "identity.md", "boot.md", "memory.md")  # names that few other folders contain
READING_TOOLS = ("Read", "Glob", "Grep")  # a coding agent's tools if ALLOWED_TOOLS names none
# Shorter than any token or key, without a password in an address, and not like a password: letters and digits mixed.
_SHORT_TEXT = re.compile(r"[\w.,:+/ -]{1,5}|[\d.,:+/ -]{1,15}|[A-Za-z_.,:+/ -]{1,15}", re.ASCII)


def in_capitals(
    pairs: Iterable[tuple[str, str]], is_ours: Callable[[str], bool], place: str, warnings: list[str]
) -> dict[str, str]:
    """Return the non-empty texts by name. If `is_ours(name in capitals)`, a text is also returned under that name. If a
    name is set twice, the spelling in capitals wins, or else the last one. Different texts add a warning."""
    filled = [(key, text.strip()) for key, text in pairs if text.strip()]
    found: dict[str, str] = {}
    spellings: dict[str, list[str]] = {}
    differ: set[str] = set()
    for key, text in sorted(filled, key=lambda pair: pair[0].isupper()):
        if is_ours(name := key.upper()):
            if name in spellings and found[name] != text:
                differ.add(name)
            spellings.setdefault(name, []).append(key)
            found[name] = text
        found[key] = text
    for name in sorted(differ):
        shown = dict.fromkeys(spellings[name])
        used = spellings[name][-1] if len(shown) > 1 else "the last one"
        warnings.append(f"{', '.join(shown)} in {place}: set twice to different values; {used} is used")
    return found


def with_other_names(both: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """Return the texts with our key for each text that has only another name. A wrong text adds a problem."""
    found = dict(both)
    for key, other_name in OTHER_NAMES.items():
        if key in both or other_name not in both:
            continue
        text = _as_ours(other_name, both)
        if text is None:
            problems.append(f"{other_name}: expected {MILLISECONDS}{_got(both[other_name])}")
        else:
            found[key] = text
    return found


def _as_ours(other_name: str, both: Mapping[str, str]) -> str | None:
    """Convert the text of another name to our key's format. Returns None if it can't be read."""
    text = both[other_name]
    if other_name.endswith("_MS"):
        try:
            seconds = float(text) / 1000
        except ValueError:
            return None
        return str(seconds) if 1 <= seconds <= 600 else None
    if other_name == "SIGNAL_NUMBER" and ":" not in text:  # only our key names the agent
        return f"{both.get('AGENT_NAME', COMPANION).lower()}:{text}"
    return text


def name_warnings(both: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each other or old name that is set, except GOOGLE_API_KEY, which other programs use, too."""
    for key, other_name in OTHER_NAMES.items():
        text = both.get(other_name)
        if text is None or key == "GEMINI_API_KEY":
            continue
        if key not in both:
            yield f"{other_name}: read as {key}{_HOW_READ.get(other_name, '')}"
        elif not _same(_as_ours(other_name, both) or text, both[key]):
            yield f"{other_name}: ignored, because {key} is set"
    yield from (f"{name}: {said}" for name, said in OLD_NAMES.items() if name in both)


def _same(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def typos(in_file: Collection[str], ours: Collection[str], agents: Collection[AgentSpec]) -> Iterator[str]:
    """Yield a warning for each likely mistake among the names in .env (the environment has other programs', too)."""
    guesses: dict[str, str] = {}  # names that people try for a bot's token or key → our names
    for spec in agents:
        name = spec.name.upper()
        guesses |= dict.fromkeys((f"{name}_TOKEN", f"{name}_BOT_TOKEN", f"DISCORD_TOKEN_{name}"), spec.token_setting)
        tried = (f"{name}_API_KEY", f"{name}_KEY", spec.key_setting.replace("_API", ""))
        guesses |= dict.fromkeys(tried, spec.key_setting)
    known = {*ours, *OTHER_NAMES.values(), *OLD_NAMES}
    for key in sorted(key for key in in_file if key not in known and key.upper() not in known):
        name = key.upper()
        close = [guesses[name]] if name in guesses else difflib.get_close_matches(name, ours, n=1, cutoff=0.85)
        if close:
            yield f"{key} in .env: ignored, not a setting; did you mean {close[0]}?"
        elif name.startswith("BOT_TOKEN_"):
            yield f"{key} in .env: ignored, no such bot; the bots are {', '.join(spec.name for spec in agents)}"
        elif name in ("BOT_TOKEN", "DISCORD_TOKEN"):
            tokens = ", ".join(spec.token_setting for spec in agents)
            yield f"{key} in .env: ignored, not a setting; each bot has its own token: {tokens}"


def env_file_lines(path: Path | None, problems: list[str]) -> list[tuple[str, str]]:
    """Return the file's names with non-empty values, in order. `${NAME}`, which would read the environment, stays."""
    try:
        text = path.read_text(encoding="utf-8-sig") if path and path.exists() else ""
    except IsADirectoryError:
        problems.append(f"{path}: expected a file, and this is a folder; remove it, and run make setup")
        return []
    except OSError as error:
        problems.append(f"{path}: the user that runs this program can't read it ({error.strerror})")
        return []
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problems.append(f"{path}, line {line}: expected UTF-8 text; save the file with that encoding in your editor")
        return []
    bindings = list(parse_stream(io.StringIO(text)))
    for wrong in (line.original for line in bindings if line.error):
        hint = "; the quotation mark isn't closed" if re.search("=\\s*['\"]", wrong.string) else ""
        problems.append(f"{path}, line {wrong.line}: expected KEY=value, such as TIMEZONE=Europe/Berlin{hint}")
    lines = [(line.key, (line.value or "").strip()) for line in bindings if line.key and not line.error]
    return [(key, value) for key, value in lines if value]


def is_text(value: str) -> bool:
    """Whether it has no NUL and no bytes that aren't UTF-8 (surrogates in os.environ)."""
    return "\0" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


def not_for_personas(folder: Path, key: str, agents: Collection[str]) -> Iterator[str]:
    """Yield a problem if the folder of `key` contains other files: a start would mix its own files into them."""
    try:
        found = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        has_personas = any((folder / name / sign).is_file() for name in found for sign in PERSONA_FILES)
    except NotADirectoryError:
        yield f"{key}: expected a folder, {folder} is a file"
        return
    except OSError:
        return  # missing or unreadable: reported by the code that creates or reads it
    if has_personas or not set(found) - {*agents, "lost+found"}:
        return
    if direct := next((name for name in PERSONA_FILES if name in found), None):
        yield (
            f"{key}: expected a folder with a subfolder for each bot: move {folder / direct} and the files next to it"
            f" into one, such as {folder / 'claude'}"
        )
        return
    instead = "set PERSONAS_DIR, which overrides it (CONFIG_FILES_DIR is for options and endpoints)"
    advice = f"; {instead}" if key == "CONFIG_DIR" else ""
    yield f"{key}: expected a folder of personas, or an empty one: {folder} contains other files{advice}"


_Model = TypeVar("_Model", bound=Keys)


def validated(model: type[_Model], texts: Mapping[str, str], problems: list[str]) -> tuple[_Model, set[str]]:
    """Return the model, and the keys with wrong values. These keep their defaults, and each adds a problem."""
    infos = {str(info.validation_alias): info for info in model.model_fields.values()}
    expected = {key: info.description for key, info in infos.items()}
    values = {key: texts[key] for key in expected if key in texts}
    try:
        return model(**values), set()
    except ValidationError as error:
        # include_input=False: an input may be a secret
        found = {str(one["loc"][0]): one for one in reversed(error.errors(include_url=False, include_input=False))}
    for key in (key for key in values if key in found):
        own_words = str(found[key].get("ctx", {}).get("error", "")) if found[key]["type"] == "value_error" else ""
        words = own_words or f"expected {expected[key]}"
        is_secret = "SecretStr" in str(infos[key].annotation)
        problems.append(f"{key}: {words}{'' if is_secret or not words.startswith('expected') else _got(values[key])}")
    return model(**{key: value for key, value in values.items() if key not in found}), set(found)


def _got(value: str) -> str:
    """Return the end of a problem's line, with the wrong value if it can't be a secret."""
    return f'; got "{value}"' if _SHORT_TEXT.fullmatch(value) and "//" not in value else ""


def machine_timezone(environ: Mapping[str, str], localtime: Path = Path("/etc/localtime")) -> ZoneInfo:
    """Return the zone of TZ, else of /etc/localtime, else UTC."""
    names = [environ.get("TZ", "").removeprefix(":"), os.path.realpath(localtime)]
    for name in names:
        try:
            return ZoneInfo(name.rpartition("zoneinfo/")[2].removeprefix("posix/"))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            continue
    try:
        with localtime.open("rb") as file:
            return ZoneInfo.from_file(file, key="localtime")
    except (OSError, ValueError):
        return ZoneInfo("UTC")


def named_in(path: Path, both: Mapping[str, str]) -> dict[str, SecretStr]:
    """Return the settings that config/mcp.yaml refers to as ${NAME}."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}  # read_servers() reports it
    names = re.findall(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", text)
    return {name: SecretStr(both[name]) for name in names if name in both and is_text(both[name])}


@cache  # pydantic takes longer to make a model than to fill it
def agent_keys(agents: tuple[AgentSpec, ...], endpoint_keys: tuple[str, ...]) -> type[Keys]:
    """Return a model with the keys of the table's rows; its fields are the keys in lower case."""
    fields: dict[str, Any] = {}

    def add(key: str, kind: Any, expected: str) -> None:
        fields[key.lower()] = (kind, setting(key, None, expected))

    for key in (*KEY_SETTINGS.values(), *endpoint_keys, *(spec.key_setting for spec in agents)):
        add(key, ApiKey, "")
    for key in (*BASE_URL_SETTINGS.values(), *(spec.base_url_setting for spec in agents)):
        add(key, OptionalHttpAddress, HTTP)
    for spec in agents:
        add(spec.token_setting, Secret | None, "a Discord bot token")
        add(spec.model_setting, str | None, "names of models separated by commas")
        add(spec.image_model_setting, str | None, "the name of a picture model, or none")
        add(spec.personality_setting, str | None, "a text")
        add(spec.tools_setting, ToolPatterns | None, TOOL_PATTERNS)
    return create_model("AgentKeys", __base__=Keys, **fields)


def with_agents(
    settings: Settings,
    keys: Keys,
    agents: Mapping[str, AgentSpec],
    folder: Path | None,
    problems: list[str],
    fronts: Mapping[str, FrontMatter],
    model: str | None = None,
    environment: Collection[str] = (),
) -> Settings:
    """Return the settings with their agents and endpoints.

    `folder` has the owner's files, if there are any. A persona's front matter (`fronts`) overrides .env; the owner's
    option files override both, and `model` overrides all. `environment` has the names of the environment's variables.
    """
    endpoints, wrong = read_endpoints(folder / "endpoints.yaml") if folder else ({}, [])
    chosen, wrong_models = chosen_models(folder, agents, endpoints) if folder else ({}, [])
    problems += [*wrong, *wrong_models]
    sources = _sources(settings, keys, endpoints)
    # all names of environment variables that may hold a setting
    fields = (*type(settings).model_fields.values(), *type(keys).model_fields.values())
    hidden = {str(info.validation_alias) for info in fields if info.validation_alias}
    hidden |= {*settings.named, *OTHER_NAMES.values()}
    hidden |= {name for name in environment if name.upper() in hidden}

    def build(spec: AgentSpec, front: FrontMatter, names: tuple[str, ...]) -> AgentSettings:
        agent = _agent(spec, settings.model_retries, keys, sources, names, front)
        return replace(agent, coding=_coding(agent, settings, hidden))

    found: dict[str, AgentSettings] = {}
    for name, spec in agents.items():
        front, choice = fronts.get(name, FrontMatter()), Choice((model,)) if model else chosen.get(name, Choice())
        agent = build(spec, front, choice.everywhere or front.models)
        servers = {server: build(spec, front, names) for server, names in choice.servers.items()}
        others = {server: there for server, there in servers.items() if there.models != agent.models}
        found[name] = replace(agent, servers=others)
    return settings.with_(
        agents=found,
        endpoints=endpoints,
        persona_models=PersonaModels(
            sources=sources,
            specs=tuple(agents.values()),
            chosen=(model,) if model else (),
            shared=shared_models(folder, endpoints) if folder else (),
            retries=settings.model_retries,
        ),
        cheap_models=_cheap_models(settings.cheap_model, sources, problems),
        embedding=_embedding_model(settings.embedding_model, sources, problems),
    )


def _sources(settings: Settings, keys: Keys, endpoints: Mapping[str, EndpointSettings]) -> Sources:
    given = dict(keys)
    secrets = {
        "access_key": settings.aws_access_key_id,
        "secret_key": settings.aws_secret_access_key,
        "session_token": settings.aws_session_token,
    }
    revealed = {name: secret.get_secret_value() for name, secret in secrets.items() if secret is not None}
    aws = Aws(region=settings.aws_region or "", profile=settings.aws_profile, **revealed)
    return Sources(
        keys=settings.keys,
        addresses={
            name: f"{address.rstrip('/')}/v1" if name == "ollama" and not urlsplit(address).path.strip("/") else address
            for name, key in BASE_URL_SETTINGS.items()
            if (address := given[key.lower()])
        },
        endpoints=endpoints,
        aws=aws if settings.aws_region else None,
    )


def _agent(
    spec: AgentSpec, retries: int, keys: Keys, sources: Sources, chosen: tuple[str, ...], front: FrontMatter
) -> AgentSettings:
    def read(key: str) -> Any:
        return getattr(keys, key.lower())

    def model(name: str) -> ModelSettings:
        provider, bare = sources.split_model_name(name, spec.provider)
        if provider != spec.provider:
            return sources.model(provider, bare)
        own = sources.model(
            provider, bare, key_setting=spec.key_setting, base_url_setting=spec.base_url_setting, needs_key=True
        )
        return replace(own, base_url=own.base_url or read(spec.base_url_setting))

    models = tuple(map(model, chosen or split_list(read(spec.model_setting) or "") or (spec.model,)))
    image = front.image_model or read(spec.image_model_setting) or spec.image_model or "none"
    image_provider, image_model = sources.image_model(image, spec.provider, models)
    color = spec.color if front.color is None else front.color
    return AgentSettings(
        spec=replace(spec, display_name=front.display_name or spec.display_name, color=color),
        token=read(spec.token_setting),
        models=models,
        image_model=image_model,
        image_provider=image_provider,
        retries=retries,
        personality=read(spec.personality_setting),
        allowed_tools=read(spec.tools_setting),
        front=front,
    )


def _coding(agent: AgentSettings, settings: Settings, hidden: Collection[str]) -> QueryConfig | None:
    """Return the coding configuration of an agent with an Anthropic model, if AGENT_RUNTIME is set. Only the names of
    Claude Code's tools in ALLOWED_TOOLS, which start with a capital letter, apply here."""
    if settings.agent_runtime is None or agent.provider != "anthropic":
        return None
    allowed = settings.allowed_tools if agent.allowed_tools is None else agent.allowed_tools
    own = {agent.models[0].key_setting, agent.models[0].base_url_setting}
    return QueryConfig(
        model=agent.model,
        api_key=agent.api_key.get_secret_value() if agent.api_key else "",
        base_url=agent.base_url,
        workspace=(settings.persona_folder(agent.name) / "workspace").absolute(),
        home=(settings.data_dir / "agent-sdk" / agent.name).absolute(),
        allowed_tools=tuple(name for name in allowed if name[:1].isupper()) or READING_TOOLS,
        permission_mode=settings.permission_mode,
        max_turns=settings.agent_sdk_max_steps,
        max_usd=settings.agent_sdk_max_usd,
        hidden=tuple(sorted({*hidden} - own)),
    )


def _cheap_models(chosen: str | None, sources: Sources, problems: list[str]) -> tuple[ModelSettings, ...]:
    """Return the model of CHEAP_MODEL, or if it isn't set, the default model of each provider with a key."""
    if chosen is None:
        defaults = (sources.model(name, known.model) for name, known in PROVIDERS.items() if known.model)
        return tuple(model for model in defaults if model.api_key is not None)
    if chosen.lower() == "none":
        return ()
    provider, name = provider_and_model(chosen)
    if not name or not sources.knows(provider):
        problems.append("CHEAP_MODEL: expected provider/model with a known provider, such as ollama/llama3.3, or none")
        return ()
    model = _with_key("CHEAP_MODEL", sources.model(provider, name), problems)
    return () if model is None else (model,)


def _embedding_model(chosen: str | None, sources: Sources, problems: list[str]) -> ModelSettings | None:
    """Return the model of EMBEDDING_MODEL: an OpenAI model or an endpoint's."""
    provider, _, name = (chosen or "none").partition("/")
    if provider.lower() == "none" and not name:
        return None
    known = KNOWN.get(provider)
    if not name or not sources.knows(provider) or (known is not None and not known.embeds):
        problems.append("EMBEDDING_MODEL: expected provider/model, with the provider openai or an endpoint, or none")
        return None
    return _with_key("EMBEDDING_MODEL", sources.model(provider, name), problems)


def _with_key(setting_name: str, model: ModelSettings, problems: list[str]) -> ModelSettings | None:
    if model.lacks is None:
        return model
    problems.append(f"{setting_name}: expected {model.lacks}, too, which {model.name} needs")
    return None
