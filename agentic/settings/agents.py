"""The table of agents, and the settings of agents and personas.

Import the table from agent_config. A persona without a bot has the models of its front matter, with keys and addresses
from the settings (PersonaModels).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from zlib import crc32

from pydantic import SecretStr

from agentic.background_tasks import TaskName
from agentic.llm.pricing import list_price
from agentic.llm.profiles import QueryConfig
from agentic.llm.provider_table import COMPATIBLE_COG, KNOWN, PROVIDERS
from agentic.llm.types import Thinking
from agentic.settings.models import ModelSettings, Sources, default_of

Unprompted = Literal["opt_in", "everyone"]

BASE_URL_SETTINGS: Mapping[str, str] = MappingProxyType(
    {name: known.base_url_setting for name, known in KNOWN.items() if known.base_url_setting}
)
"""Provider → the setting of its base URL, named as in the provider's own SDK if possible."""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """A row of the table: an agent's defaults. `color` is 0xRRGGBB, `cog` is "module:Class"."""

    name: str
    display_name: str
    provider: str
    key_setting: str
    personality: str
    model: str
    image_model: str | None
    color: int
    cog: str

    @property
    def token_setting(self) -> str:
        return f"BOT_TOKEN_{self.name.upper()}"

    @property
    def model_setting(self) -> str:
        return f"{self.name.upper()}_MODEL"

    @property
    def image_model_setting(self) -> str:
        return f"{self.name.upper()}_IMAGE_MODEL"

    @property
    def personality_setting(self) -> str:
        return f"AGENT_PERSONALITY_{self.name.upper()}"

    @property
    def tools_setting(self) -> str:
        return f"ALLOWED_TOOLS_{self.name.upper()}"

    @property
    def base_url_setting(self) -> str:
        return BASE_URL_SETTINGS.get(self.provider, f"{self.provider.upper()}_BASE_URL")

    @property
    def settings(self) -> tuple[str, ...]:
        """The keys of this row. The provider's keys are shared with its other agents."""
        return (
            self.token_setting,
            self.key_setting,
            self.model_setting,
            self.image_model_setting,
            self.base_url_setting,
            self.personality_setting,
            self.tools_setting,
        )


_PERSONALITIES = {
    "chatgpt": (
        "You are the friend who turns a mess into a plan. You like a question best when it ends in something a person"
        " could do tomorrow, and you say which option you'd take and why. You're warm, quick, and a little too fond of"
        " structure: two points, rarely three, never ten. You think most problems are smaller than they look, so you"
        " get impatient with doubt that leads nowhere and with provocation for its own sake. When someone shows you"
        " that your tidy answer left out what mattered, you say so cheerfully and fix it in the open."
    ),
    "claude": (
        "You listen for the assumption behind the sentence. You'd rather understand a view than beat a weak copy of it,"
        " so you often state the other side better than they did, and then name its weak spot. Dry humor, plain words,"
        " one good question instead of three caveats. You change your mind out loud when an argument earns it, and hold"
        " still when only the volume goes up. Neat plans make you look for the person they forgot. Confident numbers"
        " make you ask where they came from. A cheap shot gets a raised eyebrow and a better joke."
    ),
    "gemini": (
        "You are curious about everything and unable to keep it to yourself. You argue by connection: a fight about"
        " pizza reminds you of plate tectonics, and by the third sentence it makes sense. You love a fact with a"
        " number, a date, or an odd animal in it, and you say how sure you are of it. You want evidence before"
        " opinions, tease people who argue from principle alone, and defend a surprising result against everyone's"
        " common sense. When you're caught out on a fact, you're delighted: now you have the right one."
    ),
    "grok": (
        "You say what the room avoids. When everyone agrees, you get suspicious and take the other"
        " side, seriously enough to defend it for three rounds. Short sentences, quick wit, no reverence for experts,"
        " brands, or the others in this channel, least of all for yourself. You aim at ideas and egos, never at the"
        " vulnerable, and you stop when someone is hurt. There's always a real point behind the joke, and when you lose"
        " an argument, you concede in one line and make it funny."
    ),
}


def _bot(name: str, display_name: str, provider: str, color: int) -> AgentSpec:
    known = PROVIDERS[provider]
    return AgentSpec(
        name=name,
        display_name=display_name,
        provider=provider,
        key_setting=known.key.setting,
        personality=_PERSONALITIES[name],
        model=known.model,
        image_model=known.image_model or None,
        color=color,
        cog=known.cog,
    )


_BOTS = (
    _bot("chatgpt", "ChatGPT", "openai", 0x10A37F),
    _bot("claude", "Claude", "anthropic", 0xD97757),
    _bot("gemini", "Gemini", "google", 0x4285F4),
    _bot("grok", "Grok", "xai", 0x8E8E93),
)
AGENTS: Mapping[str, AgentSpec] = MappingProxyType({spec.name: spec for spec in _BOTS})
"""The table of agents by name, in the order of all lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """What IdentityCard has of a persona's front matter, before the agent starts. None: not set. `models`: in order."""

    display_name: str | None = None
    avatar: str | None = None
    provider: str | None = None
    models: tuple[str, ...] = ()
    image_model: str | None = None
    talkativeness: float | None = None
    interests: tuple[str, ...] = ()
    color: int | None = None
    disclosure: str | None = None
    idle_tasks: tuple[TaskName, ...] | None = None
    unprompted: Unprompted | None = None


ReadFronts = Callable[[Path, Sequence[str]], Mapping[str, FrontMatter]]  # (the personas' folder, the agents' names)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """A configured agent. `models` are tried in order; the first one decides the class of its cog.

    `image_model`, a model of `image_provider`, is None if the agent doesn't draw. `retries` are per call.
    `personality` and `allowed_tools` are None unless set for this agent alone. `coding` is set if the Claude Agent
    SDK runs its turns. `servers`: guild id → the agent with the models that are set for that guild.
    """

    spec: AgentSpec
    token: SecretStr | None
    models: tuple[ModelSettings, ...]
    image_model: str | None
    image_provider: str = ""
    retries: int = 2
    personality: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    front: FrontMatter = FrontMatter()
    coding: QueryConfig | None = None
    servers: Mapping[int, AgentSettings] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def display_name(self) -> str:
        return self.spec.display_name

    @property
    def provider(self) -> str:
        return self.models[0].provider

    @property
    def model(self) -> str:
        return self.models[0].model

    @property
    def api_key(self) -> SecretStr | None:
        return self.models[0].api_key

    @property
    def base_url(self) -> str | None:
        return self.models[0].base_url

    @property
    def usable(self) -> tuple[ModelSettings, ...]:
        return tuple(model for model in self.models if model.lacks is None)

    def without_level(self, level: Thinking | None) -> Sequence[ModelSettings]:
        """Return the usable models that lack a thinking level. They think as usual."""
        return [model for model in self.usable if level and level not in model.profile.thinking]

    @property
    def elsewhere(self) -> Mapping[int, AgentSettings]:
        """The entries of `servers` with a usable model. In other servers the agent uses its own models."""
        return {server: agent for server, agent in self.servers.items() if agent.usable}

    @property
    def cog(self) -> str:
        """The cog of its first model's provider, as "module:Class"."""
        if self.provider == self.spec.provider:
            return self.spec.cog
        known = PROVIDERS.get(self.provider)
        return known.cog if known else COMPATIBLE_COG


COLORS = (0x4E79A7, 0xF28E2B, 0x59A14F, 0xB07AA1, 0xD37295, 0x76B7B2, 0x9C755F, 0xEDC948)
CHARACTER = "You take part in discussions: you say what you think, with reasons, and answer what the others said."


class NoModel(Exception):
    """The persona has no model; the text tells its owner why."""


@dataclass(frozen=True, kw_only=True)
class PersonaModels:
    """Builds the settings of personas without a bot. `specs` is the table of agents, `chosen` the model of the command
    line, and `shared` the option of config/shared.yaml."""

    sources: Sources = field(default_factory=Sources)
    specs: tuple[AgentSpec, ...] = ()
    chosen: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    retries: int = 2

    def settings_of(self, key: str, front: FrontMatter) -> AgentSettings:
        """Return the persona's settings, even if a key is missing (see AgentSettings.usable). Raises NoModel."""
        models = tuple(self._models(front))
        image_provider, image_model = self.sources.image_model(front.image_model or "none", models[0].provider, models)
        return AgentSettings(
            spec=AgentSpec(
                name=key,
                display_name=front.display_name or key.replace("_", " ").replace("-", " ").title(),
                provider=models[0].provider,
                key_setting=models[0].key_setting,
                personality=CHARACTER,
                model=models[0].model,
                image_model=None,
                color=COLORS[crc32(key.encode()) % len(COLORS)] if front.color is None else front.color,
                cog="",
            ),
            token=None,
            models=models,
            image_model=image_model,
            image_provider=image_provider,
            retries=self.retries,
            front=front,
        )

    def _models(self, front: FrontMatter) -> Iterable[ModelSettings]:
        """Return the models from the first source that has some: command line, front matter, default of its provider,
        config/shared.yaml, least expensive default of the providers with a key."""
        if names := self.chosen or front.models:
            return [self._named(name) for name in names]
        if front.provider is not None:
            return [self._default_of(front.provider)]
        shared = [self._named(name) for name in self.shared]
        if any(model.lacks is None for model in shared):
            return shared
        return [self._least_expensive]

    @cached_property
    def _least_expensive(self) -> ModelSettings:
        """The least expensive default model of the providers with a key, by the price of a million tokens in and out.
        Prices are compared once, because personas are read every few seconds."""
        defaults = [self._default_of(spec.provider) for spec in self.specs]
        if not defaults:
            raise NoModel("identity.md: provider: no bot is configured, so there's no default provider")

        def rank(model: ModelSettings) -> tuple[bool, float]:
            listed = list_price(model.provider, model.model)
            return model.lacks is not None, 0.0 if model.lacks else listed.input + listed.output

        return min(defaults, key=rank)

    def _named(self, name: str) -> ModelSettings:
        provider, model = self.sources.split_model_name(name, "")
        if not provider:
            raise NoModel(f"identity.md: model: expected provider/model, or a line `provider:` before {name!r}")
        return self.sources.model(provider, model)

    def _default_of(self, provider: str) -> ModelSettings:
        if not self.sources.knows(provider):
            raise NoModel(f"identity.md: provider: {provider!r} is unknown")
        spec = next((spec for spec in self.specs if spec.provider == provider), None)
        if spec is not None:
            return self.sources.model(provider, spec.model, key_setting=spec.key_setting)
        if model := default_of(provider):
            return self.sources.model(provider, model)
        raise NoModel(f"identity.md: provider: {provider} has no default model, so add a line `model:`")
