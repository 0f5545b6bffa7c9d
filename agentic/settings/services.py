"""The table of chat services, and the base class of their settings.

A service is a package with two classes: the runtime opens `service` (agentic.services.context.HostedService), and
`settings` is mixed into the program's settings. Discord's settings are part of the program's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import new_class
from typing import Any, ClassVar, NamedTuple, Self, cast

from agentic.settings.fields import Keys
from agentic.settings.settings import DISCORD, Settings


class ServiceRow(NamedTuple):
    """A chat service: its key, and "module:Class" of the service and of its settings."""

    key: str
    service: str
    settings: str = ""


SERVICES: tuple[ServiceRow, ...] = (
    ServiceRow(DISCORD, "agentic.services.discord.service:DiscordService"),
    ServiceRow(
        "signal", "agentic.services.signal.service:SignalService", "agentic.services.signal.settings:SignalSettings"
    ),
)


class ServiceSettings(Keys):
    """Settings of a service where agents have their own accounts: a part of Settings, read through class methods."""

    accounts_field: ClassVar[str]  # agent → its account
    accounts_example: ClassVar[str]
    alone: ClassVar[str] = ""  # a line for owners: how to go live without a bot's token

    @classmethod
    def of(cls, settings: object) -> Self:
        assert isinstance(settings, cls)
        return settings

    @classmethod
    def accounts_setting(cls) -> str:
        return str(cls.model_fields[cls.accounts_field].validation_alias)

    @classmethod
    def warnings_of(cls, settings: Settings) -> Iterator[str]:
        """Yield a line for each setting that is dangerous or has no effect, if the service is used."""
        del settings
        yield from ()


def load_class(path: str) -> Any:
    """Import a class, given as "module:Class"."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def service_keys() -> list[str]:
    return [row.key for row in SERVICES]


def services_in_use(settings: Settings) -> Iterator[Any]:
    yield from (load_class(row.service) for row in SERVICES if settings.is_on(row.key))


def service_settings() -> Mapping[str, type[ServiceSettings]]:
    """Return the class of each service's settings, by the service's key."""
    return {row.key: load_class(row.settings) for row in SERVICES if row.settings}


def settings_class() -> type[Settings]:
    return _mix(tuple(service_settings().values()))


@cache  # pydantic takes longer to make a model than to fill it
def _mix(services: tuple[type[ServiceSettings], ...]) -> type[Settings]:
    return cast("type[Settings]", new_class("Settings", (*services, Settings)))


def with_accounts(settings: Settings) -> Settings:
    found = {key: dict(getattr(settings, its.accounts_field)) for key, its in service_settings().items()}
    return settings.with_(accounts=found)


def account_setting_of(agent: str, settings: Settings) -> str:
    """Return the setting that gives an agent an account on a service in use, or "" if it has none."""
    for key, service in service_settings().items():
        if settings.is_on(key) and agent in settings.accounts[key]:
            return service.accounts_setting()
    return ""
