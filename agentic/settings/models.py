"""The settings of models: provider, model, key, address.

`provider/model` names a model; a list is tried in order. A provider has a row in agentic/llm/provider_table.py, or it
is the owner's endpoint: an address that speaks OpenAI's Chat Completions, described in config/endpoints.yaml. That file
can also change a known endpoint (such as Ollama on another machine). It has no keys: an endpoint's key is the setting
ENDPOINT_<NAME>_KEY.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, ValidationError

from agentic.llm.pricing import Rates, is_local
from agentic.llm.profiles import Aws, Endpoint, Profile
from agentic.llm.provider_table import ENDPOINTS, KNOWN, PROVIDERS, profile_at, profile_of
from agentic.settings.fields import HTTP, HttpAddress

KEY_SETTINGS: Mapping[str, str] = MappingProxyType({name: known.key.setting for name, known in PROVIDERS.items()})
"""Provider → the setting of its key. Bedrock works without it: AWS has other credentials."""
ENDPOINT_KEY = re.compile(r"ENDPOINT_[A-Z0-9_]{1,40}_KEY")

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}\Z")]
_Price = Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)]


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, regex_engine="python-re")


class ProfileSettings(_Written):
    """The owner's corrections to an endpoint's profile. agentic.llm.profiles.Profile explains each field."""

    prefill: bool | None = None
    tools: bool | None = None
    schema_with_tools: bool | None = None
    alternate: bool | None = None
    system_as_message: bool | None = None
    temperature: bool | None = None
    max_stops: int | None = Field(default=None, ge=0, le=10_000)
    cache_marks: int | None = Field(default=None, ge=0, le=4)
    max_pictures: int | None = Field(default=None, ge=0, le=1_000)
    picture_pixels: int | None = Field(default=None, ge=64, le=8_192)


class EndpointSettings(_Written):
    """An entry of config/endpoints.yaml. None keeps the known value. Prices are in US dollars per million tokens.
    agentic.llm.profiles explains `api`, `prefill`, `fields`, `stream_usage`, and `slots`."""

    name: _Name
    base_url: HttpAddress | None = Field(default=None, repr=False)
    api: Literal["openai", "ollama"] | None = None
    prefill: Literal["last", "prefix", "partial", "continue", "completions", ""] | None = None
    fields: Mapping[str, Any] = Field(default={}, repr=False)
    profile: ProfileSettings = ProfileSettings()
    stream_usage: bool | None = None
    slots: int | None = Field(default=None, ge=1, le=1_000)
    price_in: _Price | None = None
    price_out: _Price | None = None

    @property
    def rates(self) -> Rates | None:
        if self.price_in is None and self.price_out is None:
            return None
        return Rates(self.price_in or 0.0, self.price_out or 0.0)

    def over(self, known: Endpoint | None) -> Endpoint:
        known = known or Endpoint(name=self.name, base_url="")
        changes = {"base_url", "api", "prefill", "stream_usage", "slots"}
        return replace(
            known,
            **self.model_dump(include=changes, exclude_none=True),
            fields={**known.fields, **self.fields},
            profile={**known.profile, **self.profile.model_dump(exclude_none=True)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A configured model. If `base_url` is None, the provider's own address is used."""

    provider: str
    model: str
    api_key: SecretStr | None = None
    key_setting: str = ""
    needs_key: bool = True
    base_url: str | None = field(default=None, repr=False)  # an address may contain a password
    base_url_setting: str = ""
    endpoint: Endpoint | None = None  # with the owner's changes; None if the provider has its own API
    rates: Rates | None = None  # the owner's prices
    aws: Aws | None = None

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def lacks(self) -> str | None:
        """The missing setting that the model needs, or None."""
        if self.provider == "bedrock":
            return None if self.aws else "AWS_REGION"
        return self.key_setting if self.needs_key and self.api_key is None else None

    @property
    def is_free(self) -> bool:
        """Whether calls cost nothing: the server is the owner's, and no price is set."""
        return self.rates is None and is_local(self.base_url or (self.endpoint.base_url if self.endpoint else None))

    @property
    def is_at_home(self) -> bool:
        """Whether it's served by a model server on the owner's machines, such as Ollama: not a gateway to a provider,
        which the provider's own API would reach by `base_url`."""
        return self.endpoint is not None and is_local(self.base_url or self.endpoint.base_url)

    @property
    def profile(self) -> Profile:
        return profile_at(self.endpoint, self.model) if self.endpoint else profile_of(self.provider, self.model)

    @property
    def access(self) -> dict[str, Any]:
        """The arguments for agentic.llm.registry.build_model."""
        return {
            "provider": self.provider,
            "api_key": self.api_key.get_secret_value() if self.api_key else "",
            "model": self.model,
            "base_url": self.base_url,
            "rates": self.rates,
            "endpoint": self.endpoint,
            "aws": self.aws,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Keys by setting, addresses by provider, and the owner's endpoints."""

    keys: Mapping[str, SecretStr] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain passwords
    endpoints: Mapping[str, EndpointSettings] = field(default_factory=dict)
    aws: Aws | None = None

    def knows(self, provider: str) -> bool:
        return provider in known_providers(self.endpoints)

    def split_model_name(self, name: str, own: str) -> tuple[str, str]:
        """Return the provider and model of a name. Without a known provider, the agent's `own` provider is used. A
        provider alone means its default model, if `agentic.llm.provider_table` has one."""
        provider, model = provider_and_model(name)
        return (provider, model) if model and self.knows(provider) else (own, name)

    def image_model(self, name: str, own: str, models: Sequence[ModelSettings]) -> tuple[str, str | None]:
        """Return the provider and model of an agent's pictures. The model is None if the name is `none` or none of the
        agent's `models` has that provider."""
        provider, model = self.split_model_name(name, own)
        draws = model.lower() != "none" and any(one.provider == provider for one in models)
        return provider, model if draws else None

    def model(
        self,
        provider: str,
        model: str,
        *,
        key_setting: str = "",
        base_url_setting: str = "",
        needs_key: bool | None = None,
    ) -> ModelSettings:
        """The last three come from the table of agents, for the agent's own provider."""
        own, known = self.endpoints.get(provider), ENDPOINTS.get(provider)
        if needs_key is None:
            needs_key = (known is None or known.key is not None) and not (own and own.base_url)
        key_setting = key_setting or KEY_SETTINGS.get(provider) or endpoint_key(provider)
        return ModelSettings(
            provider=provider,
            model=model,
            api_key=self.keys.get(key_setting),
            key_setting=key_setting,
            needs_key=needs_key,
            base_url=(own.base_url if own else None) or self.addresses.get(provider),
            base_url_setting=base_url_setting or "config/endpoints.yaml",
            endpoint=own.over(known) if own else known,
            rates=own.rates if own else None,
            aws=self.aws if provider == "bedrock" else None,
        )


def known_providers(own: Iterable[str]) -> set[str]:
    """Return the names of all providers, including the owner's endpoints (`own`)."""
    return {*KNOWN, *own}


def default_of(provider: str) -> str:
    """Return the model of an endpoint that is named without a model, or ""."""
    known = ENDPOINTS.get(provider)
    return known.model if known else ""


def provider_and_model(name: str) -> tuple[str, str]:
    """Split `provider/model`. A provider alone gets its default model, or "" if it has none."""
    provider, slash, model = name.partition("/")
    return provider, model if slash else default_of(provider)


def endpoint_key(name: str) -> str:
    return f"ENDPOINT_{name.upper().replace('-', '_')}_KEY"


def read_endpoints(path: Path) -> tuple[dict[str, EndpointSettings], list[str]]:
    """Return the endpoints of the file, if it exists, and a line for each problem in it."""
    if not path.is_file():
        return {}, []
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        return {}, [f"{path}: can't be read ({error.strerror or error})"]
    except UnicodeDecodeError:
        return {}, [f"{path}: not UTF-8 text"]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        return {}, [f"{path}{f':{mark.line + 1}' if mark else ''}: not YAML"]
    entries = content.get("endpoints") if isinstance(content, dict) else None
    if content is None or content == {"endpoints": None}:
        return {}, []
    if not isinstance(entries, dict) or len(content) > 1:
        return {}, [f"{path}: expected a single key `endpoints`, with the endpoints by name"]
    found: dict[str, EndpointSettings] = {}
    problems: list[str] = []
    for name, entry in entries.items():
        problems += (f"{path}: endpoints.{line}" for line in _read_endpoint(str(name), entry, found))
    return found, problems


def _read_endpoint(name: str, entry: object, found: dict[str, EndpointSettings]) -> Iterable[str]:
    """Add the entry to `found`, or return its problems."""
    if not isinstance(entry, dict) or "name" in entry:
        return [f"{name}: expected a mapping without a key `name`"]
    if name in KEY_SETTINGS:
        return [f"{name}: expected another name; this is the name of a built-in provider"]
    try:
        endpoint = EndpointSettings.model_validate({**entry, "name": name})
    except ValidationError as error:
        problems = []
        for problem in error.errors(include_input=False, include_url=False):
            words = str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "should be")
            if problem["type"] == "extra_forbidden":
                words = "unknown key; docs/models.md lists the known keys"
            problems.append(f"{'.'.join(map(str, (name, *problem['loc'])))}: {words or f'expected {HTTP}'}")
        return problems
    if endpoint.base_url is None and name not in ENDPOINTS:
        return [f"{name}.base_url: expected {HTTP}"]
    found[name] = endpoint
    return ()


@dataclass(frozen=True, slots=True)
class Choice:
    """An agent's option `model` in the owner's files: for all guilds, and by guild id if it differs there."""

    everywhere: tuple[str, ...] = ()
    servers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def chosen_models(folder: Path, agents: Iterable[str], own: Iterable[str]) -> tuple[dict[str, Choice], list[str]]:
    """Return each agent's option `model`, and a line for each file with an unusable one.

    `own` are the names of the owner's endpoints. The option is read once, at the start: a model's client lives as long
    as its agent. Later levels override earlier levels: shared, guild, bot, bot in a guild.
    """
    known = known_providers(own)
    problems: list[str] = []

    def by_server(prefix: str) -> dict[int, tuple[str, ...]]:
        ids = {path: path.name.removesuffix(".yaml").rpartition(".")[2] for path in folder.glob(f"{prefix}*.yaml")}
        files = {int(server): path for path, server in ids.items() if re.fullmatch(r"[1-9][0-9]{0,19}", server)}
        found = {server: _model_option(path, known, problems) for server, path in sorted(files.items())}
        return {server: names for server, names in found.items() if names}

    shared, servers = _model_option(folder / "shared.yaml", known, problems), by_server("guilds/")
    found: dict[str, Choice] = {}
    for agent in agents:
        bot = _model_option(folder / "bots" / f"{agent}.yaml", known, problems)
        found[agent] = Choice(bot or shared, ({} if bot else servers) | by_server(f"bots/{agent}."))
    return found, problems


def shared_models(folder: Path, own: Iterable[str]) -> tuple[str, ...]:
    """Return the option `model` of config/shared.yaml. `chosen_models` reports its problems."""
    return _model_option(folder / "shared.yaml", known_providers(own), [])


def _model_option(path: Path, known: set[str], problems: list[str]) -> tuple[str, ...]:
    """Return the file's models. Unreadable files are reported when all options are read."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return ()
    value = content.get("model") if isinstance(content, dict) else None
    names = (value,) if isinstance(value, str) else tuple(map(str, value)) if isinstance(value, list) else ()
    for name in names:
        provider, model = provider_and_model(name)
        if provider not in known or not model:
            problems.append(f"{path}: model: expected provider/model, with a provider of {', '.join(sorted(known))}")
            return ()
    return names
