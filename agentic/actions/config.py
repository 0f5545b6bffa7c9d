"""`/config show` and `/config set`: an agent's options with their sources, and changes while the bots run.

Managers of a server set options for its channels. Only the bots' owner sets options everywhere, and options that cost
money or store what people write (OWNERS_LIVE). The record notes who set what.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import yaml

from agentic.actions.base import (
    REPLY_CHARACTERS,
    ActionContext,
    ActionRefused,
    ActionRequest,
    File,
    Outcome,
    done,
    report,
)
from agentic.actions.rights import acts_everywhere, is_owner
from agentic.actions.values import Values, option, unknown_value
from agentic.agent.options import LookupScope, OptionSource
from agentic.agent.roster import RosterEntry
from agentic.context.options import LIVE, OF_SERVERS, OWNERS_LIVE, Options, read_options, wanted
from agentic.state.live_options import ALL, EVERYWHERE, in_channel, in_guild

log = logging.getLogger(__name__)

MAX_SHOWN = 80  # characters
MAX_DETAIL = 200  # characters of what is recorded
MAX_VALUE = 1_000  # characters, of an option
HIDDEN = "custom_fields"  # may carry an address or a key of the owner's
DEFAULT = "default"
PLACES = {"channel": "this channel", "server": "this server", "everywhere": "everywhere (owner only)"}
SHOWN_REACH: Mapping[str, str] = {"channel": "in this channel", "server": "in this server", "everywhere": "everywhere"}


class ShowOptions(Values):
    agent: str = option("Which bot or persona", kind="agent")
    setting: str = option("Which option (default: all)", "", name="option", kind="option")


class SetOption(Values):
    setting: str = option("Which option (see docs/channel-options.md)", name="option", kind="option")
    value: str = option("The new value, or “default” to remove what /config set", max_length=MAX_VALUE)
    agent: str = option("Which bot or persona (default: all)", "", kind="agent")
    place: str = option("This channel, server, or all (default: this channel)", "channel", choices=PLACES)


def format_options(
    shown: str, options: Options, sources: Mapping[str, OptionSource], only: str | None = None
) -> Outcome:
    """Return an agent's options in a channel: first the options that something sets, then the built-in ones; or just
    the option `only`. If they don't fit into a message, they are in a file."""

    def line(name: str) -> str:
        source = sources.get(name, OptionSource("built_in"))
        return f"`{name}` {format_value(name, getattr(options, name))}: {describe_source(source)}"

    if only is not None:
        rights = "the bots' owner" if only in OWNERS_LIVE else "server managers"
        by = f"/config set can change it ({rights})" if only in LIVE else "/config set can't change it"
        return report(f"{line(only)}\n{shown} takes {wanted(only)}; {by}.")
    others = sorted(set(Options.model_fields) - set(sources))
    built_in = ", ".join(f"{name} {format_value(name, getattr(options, name))}" for name in others)
    text = "\n".join([f"**Options of {shown} here**", *map(line, sorted(sources)), f"-# Built in: {built_in}"])
    if len(text) <= REPLY_CHARACTERS:
        return report(text)
    return Outcome(code="options_in_file", fields={"agent": shown}, reply=File("options.txt", text))


def format_value(name: str, value: Any) -> str:
    if name == HIDDEN:
        return f"{len(value)} fields" if value else "none"
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    text = " ".join(text.split()).replace("`", "'")
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def describe_source(source: OptionSource) -> str:
    """Return "built in", ".env", "identity.md", "config/bots/claude.yaml", "/config set, this server", or "a pin"."""
    if source.kind == "live":
        place, _, agent = source.place.partition(":")
        reach = {"*": "everywhere", "s": "this server", "c": "this channel"}[place[:1]]
        return f"/config set, {reach}{', all bots' if agent == '*' else ''}"
    known = {"env": ".env", "persona": source.place, "file": f"config/{source.place}"}
    return {**known, "pin": f"the pinned .config {source.place}"}.get(source.kind, "built in")


async def show(context: ActionContext, request: ActionRequest, values: ShowOptions) -> Outcome:
    agent = _agent(context, values.agent)
    name = _option_named(values.setting.strip())
    if name and name not in Options.model_fields:
        raise ActionRefused("option_not_shown", why=_sentence(read_options({name: None})[1][0]))
    place, book = _place(context, request), context.services.agents.options
    return format_options(agent.shown, book.options(agent.key, place), book.sources(agent.key, place), name or None)


async def set_option(context: ActionContext, request: ActionRequest, values: SetOption) -> Outcome:
    agent, live = _agent(context, values.agent) if values.agent else None, context.services.agents.live_options
    name, written, agent = _read_words(context, values, agent)
    reach = values.place
    if name in OF_SERVERS:
        if agent is not None:
            raise ActionRefused("option_not_changed", why=f"{name} applies to all bots, so leave out {agent.shown}.")
        reach = "server" if reach == "channel" else reach
    if reach == "server" and request.guild_id is None:
        raise unknown_value("place", reach, ["channel", "everywhere"])
    if name in OWNERS_LIVE and not await is_owner(context, request.who):
        raise ActionRefused("owners_option", option=name, person=request.who.user_id)
    if reach == "everywhere" and not await acts_everywhere(context, request):
        raise ActionRefused("everywhere_is_the_owners")
    where, who = EVERYWHERE, agent.key if agent else ALL
    if reach == "channel":
        where = in_channel(request.channel_id, request.guild_id)
    elif reach == "server" and request.guild_id is not None:
        where = in_guild(request.guild_id)
    target = f"for {agent.shown if agent else 'all bots'} {SHOWN_REACH[reach]}"
    detail = f"{name}: {written}"[:MAX_DETAIL]
    if written.strip().lower() == DEFAULT:
        if name not in Options.model_fields:
            raise ActionRefused("option_not_changed", why=_sentence(read_options({name: None})[1][0]))
        if not await live.unset(where, who, name):
            return done("option_was_not_set", option=name, target=target)
        log.info("a person removed the option %s %s", name, target)
        return done("option_unset", detail=detail, option=name, target=target)
    if name in Options.model_fields.keys() - LIVE:
        raise ActionRefused("option_not_changed", why=f"Only the owner can set {name}, in the files in config/.")
    layer, problems = read_options({name: _value_of(written)}, LIVE)
    if problems:
        raise ActionRefused("option_not_changed", why=_sentence(problems[0]))
    value = layer[name]
    if await live.set(where, who, name, list(value) if isinstance(value, tuple) else value) == "full":
        raise ActionRefused("too_many_options")
    log.info("a person set the option %s %s", name, target)
    above = _above(context, request, name, agent, f"{where.partition('@')[0]}:{who}")
    shown = {"option": name, "value": format_value(name, value), "target": target, "above": above}
    return done("option_set", detail=detail, **shown)


def _read_words(
    context: ActionContext, values: SetOption, agent: RosterEntry | None
) -> tuple[str, str, RosterEntry | None]:
    """Return the option, its value, and the agent. People also type the agent's name before the option, or next to a
    value that makes no sense with that name in it."""
    name, written = values.setting.strip(), values.value.strip()
    named = context.services.agents.roster.named
    if agent is None and _option_named(name) not in Options.model_fields and (agent := named(name)) is not None:
        name, _, written = written.partition(" ")
    name, written = _option_named(name), written.strip().strip("`")
    words = written.split()
    if agent is None and name in Options.model_fields and not _fits(name, written):
        for cut in range(1, len(words)):
            first, last = " ".join(words[:cut]), " ".join(words[cut:])
            for who, value in ((last, first), (first, last)):
                if (found := named(who)) is not None and _fits(name, value):
                    return name, value, found
    return name, written, agent


def _above(context: ActionContext, request: ActionRequest, name: str, agent: RosterEntry | None, now_set: str) -> str:
    """Return a note if something else still decides in this channel: a pinned `.config`, or a value for a narrower
    place or for one agent. `now_set`: the live entry's place and agent, as in OptionSource."""
    place, agents = _place(context, request), [agent.key] if agent else list(context.services.agents.names)
    sources = [context.services.agents.options.sources(each, place).get(name) for each in agents]
    if any(source is not None and source.kind == "pin" for source in sources):
        return "; a pinned .config here still wins"
    narrower = any(source is not None and source.kind == "live" and source.place != now_set for source in sources)
    return "; here, a value for a narrower place or for one bot still wins" if narrower else ""


def _agent(context: ActionContext, written: str) -> RosterEntry:
    """Return an agent by its key or a name. Raises ActionRefused."""
    roster, name = context.services.agents.roster, written.strip()
    if (found := roster.of(name) or roster.named(name)) is None:
        raise unknown_value("bot or persona", written, [entry.shown for entry in roster])
    return found


def _place(context: ActionContext, request: ActionRequest) -> LookupScope:
    def pinned(channel_id: int) -> Any:
        return tuple(context.services.chats.transcripts.of(channel_id).pinned())

    above = request.place.parent_id if request.place is not None else None
    parent = LookupScope(request.guild_id, above, (pinned(above),)) if above is not None else None
    pins = (*(parent.pins if parent else ()), pinned(request.channel_id))
    return LookupScope(request.guild_id, request.channel_id, pins, parent)


def _option_named(written: str) -> str:
    """Return the option's name for typed text such as `Always-Search`; the text itself if no option has that name."""
    name = written.strip().strip("`").lower().replace("-", "_").replace(" ", "_")
    return name if name in Options.model_fields else written


def _sentence(problem: str) -> str:
    return problem if problem.endswith("?") else f"{problem}."


def _fits(option: str, written: str) -> bool:
    return written.lower() == DEFAULT or not read_options({option: _value_of(written)})[1]


def _value_of(written: str) -> object:
    """Return the value as a line of a file would have it: `60`, `true`, `[a, b]`; the text itself if it isn't YAML."""
    try:
        return yaml.safe_load(written[:MAX_VALUE])
    except (yaml.YAMLError, ValueError, RecursionError):
        return written
