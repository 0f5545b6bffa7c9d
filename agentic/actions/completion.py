"""The choices that are offered while a person types an option."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentic.actions.base import CHOICE_CHARACTERS, MAX_CHOICES, ActionContext, ActionRequest, Choice
from agentic.actions.rooms import SEEN, may_be_named
from agentic.agent.roster import RosterEntry
from agentic.context.options import LIVE, Options
from agentic.llm.provider_table import PROVIDERS


async def complete(context: ActionContext, request: ActionRequest, option: str, typed: str) -> Sequence[Choice]:
    roster = context.services.agents.roster
    if option == "option":  # /config show takes all options
        letters = typed.strip().casefold().replace(" ", "_").replace("-", "_")
        names = sorted(LIVE if request.name == "config set" else Options.model_fields)
        return _fitting(letters, (Choice(name, name) for name in names))
    if option == "room":
        every = await context.services.state.coordination.rooms.list(limit=SEEN)
        rooms = [room for room in every if may_be_named(context, room, request)]
        lines = (f"{room.topic[: CHOICE_CHARACTERS - 12]} ({room.status})" for room in rooms)
        return _fitting(typed, map(Choice, (str(room.thread_id) for room in rooms), lines))
    if option == "model":
        return _fitting(typed, (Choice(name, name) for name in _models(context)))
    able = [entry for entry in roster if entry.why_not is None]
    if option == "personas":  # the list so far, with each agent that may complete its last name
        before, comma, last = typed.rpartition(",")
        taken = {name.strip().casefold() for name in before.split(",")}
        fitting = _agents(last.strip(), (entry for entry in able if entry.shown.casefold() not in taken))
        lists = (f"{before}{comma}{' ' if comma else ''}{choice.label}" for choice in fitting)
        return [Choice(names, names) for names in lists if len(names) <= CHOICE_CHARACTERS]
    if option != "name":
        return _agents(typed, able)
    return _agents(typed, (entry for entry in roster if request.name == "agent show" or not entry.is_bot))


def _models(context: ActionContext) -> Sequence[str]:
    """Return the models that agents use, and the usual models of the providers with a key, as provider/model."""
    sources = context.services.settings.persona_models.sources
    usual = [sources.model(provider, known.model) for provider, known in PROVIDERS.items() if known.model]
    used = [model for entry in context.services.agents.roster if entry.settings for model in entry.settings.usable]
    with_key = (model for model in usual if model.api_key is not None and model.lacks is None)
    return sorted({model.name for model in (*used, *with_key)})


def _agents(typed: str, entries: Iterable[RosterEntry]) -> Sequence[Choice]:
    return _fitting(typed, (Choice(entry.key, entry.shown) for entry in entries))


def _fitting(typed: str, choices: Iterable[Choice]) -> Sequence[Choice]:
    """Return the choices that contain the typed letters, starting with the choices that begin with them."""
    letters = typed.casefold()
    found = [choice for choice in choices if letters in choice.label.casefold()]
    return sorted(found, key=lambda choice: not choice.label.casefold().startswith(letters))[:MAX_CHOICES]
