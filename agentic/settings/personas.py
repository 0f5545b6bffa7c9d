"""The settings of a persona that has no bot: its front matter, with keys and addresses of the settings.

Its models are, in this order: the one of the command line; those of its front matter; its provider's default; the
`model` of config/shared.yaml; the least expensive default among the providers whose key is set. The defaults are those
of the table of agents.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from zlib import crc32

from agentic.llm.pricing import list_price
from agentic.settings.agents import AgentSettings, AgentSpec, FrontMatter
from agentic.settings.models import ModelSettings, Sources, default_of

COLOURS = (0x4E79A7, 0xF28E2B, 0x59A14F, 0xB07AA1, 0xE15759, 0x76B7B2, 0x9C755F, 0xEDC948)
CHARACTER = "You take part in discussions: you say what you think, with reasons, and answer what the others said."


class NoModel(Exception):
    """No model can be named for the persona; the text says why, for its owner."""


@dataclass(frozen=True, kw_only=True)
class PersonaModels:
    """Build the settings of personas without a bot. `specs` is the table of agents; `chosen` is the
    model of the command line, `shared` the option of config/shared.yaml."""

    sources: Sources = field(default_factory=Sources)
    specs: tuple[AgentSpec, ...] = ()
    chosen: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    retries: int = 2

    def settings_of(self, key: str, front: FrontMatter) -> AgentSettings:
        """Raises NoModel. A model whose key is missing is none of its business: see AgentSettings.usable."""
        models = tuple(self._models(front))
        image_provider, image_model = self.sources.parted(front.image_model or "none", models[0].provider)
        draws = image_model.lower() != "none" and any(one.provider == image_provider for one in models)
        return AgentSettings(
            spec=AgentSpec(
                name=key,
                display_name=front.display_name or key.replace("_", " ").replace("-", " ").title(),
                provider=models[0].provider,
                key_setting=models[0].key_setting,
                personality=CHARACTER,
                model=models[0].model,
                image_model=None,
                colour=COLOURS[crc32(key.encode()) % len(COLOURS)] if front.colour is None else front.colour,
                cog="",
            ),
            token=None,
            models=models,
            image_model=image_model if draws else None,
            image_provider=image_provider,
            retries=self.retries,
            front=front,
        )

    def _models(self, front: FrontMatter) -> Iterable[ModelSettings]:
        if names := self.chosen or front.models:
            return [self._named(name) for name in names]
        if front.provider is not None:
            return [self._default_of(front.provider)]
        shared = [self._named(name) for name in self.shared]
        return shared if any(model.lacks is None for model in shared) else [self._least_expensive()]

    def _named(self, name: str) -> ModelSettings:
        provider, model = self.sources.parted(name, "")
        if not provider:
            raise NoModel(f"identity.md: model: expected provider/model, or a line `provider:` before {name!r}")
        return self.sources.model(provider, model)

    def _default_of(self, provider: str) -> ModelSettings:
        if not self.sources.knows(provider):
            raise NoModel(f"identity.md: provider: {provider!r} is unknown")
        spec = next((spec for spec in self.specs if spec.provider == provider), None)
        if spec is None and (model := default_of(provider)):
            return self.sources.model(provider, model)
        if spec is None:
            raise NoModel(f"identity.md: provider: {provider} has no default model, so a line `model:` is needed too")
        return self.sources.model(provider, spec.model, key_setting=spec.key_setting)

    def _least_expensive(self) -> ModelSettings:
        """The default of the providers with a key; where none has one, the first default, which then lacks its key."""
        defaults = [self._default_of(spec.provider) for spec in self.specs]
        if not defaults:
            raise NoModel("identity.md: provider: no agent is configured, so there is no default")
        return min(defaults, key=lambda model: (model.lacks is not None, model.lacks is None and _price(model)))


def _price(model: ModelSettings) -> float:
    """US dollars for a million tokens in and as many out."""
    listed = list_price(model.provider, model.model)
    return listed.input + listed.output
