"""Choose the channels, listed as Discord lists them, and a theme for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentic.check.discord import NEEDED, TEXT_CHANNELS, BotView, ChannelView, missing
from agentic.setup.answers import CHANNELS, OLD_CHANNELS
from agentic.setup.choices import example, guessed_theme, numbers, theme_of
from agentic.setup.lookups import look_up_channels
from agentic.setup.session import Session
from agentic.themes import THEMES

CATEGORY = 4  # https://discord.com/developers/docs/resources/channel#channel-object-channel-types
Views = Mapping[str, BotView]


def choose_channels(session: Session) -> None:
    """Ask for channels and themes in the chosen servers."""
    talk = session.talk
    talk.heading("Channels")
    views = _looked_up(session)
    listed = _show(session, views)
    if not listed:
        talk.warn(f"There is no text channel to choose. Make one, then run this again, or set {CHANNELS}.")
        return
    before = session.answers.settings().channels
    if before:
        talk.say(f"Now: {', '.join(f'{_name(session, one)} ({theme})' for one, theme in before.items())}")
    if any(lacking(views, channel) for channel in listed):
        talk.say("A permission that is missing can be given later in Discord; the check at the end names it again.")
    names = [channel.name for channel in listed]
    leaves = "Enter keeps them" if before else "Enter chooses none yet"

    def read(text: str) -> list[ChannelView]:
        return [listed[number - 1] for number in numbers(text, len(listed), names)] if text else []

    question = f"In which channels shall they speak? By number, such as {example(len(listed))} ({leaves}):"
    chosen = talk.pick(question, read)
    if chosen:
        _choose_themes(session, chosen, before)
    elif not before:
        talk.warn("Without a channel the bots stay silent.")


def in_order(channels: Sequence[ChannelView]) -> Iterator[tuple[str, list[ChannelView]]]:
    """The text channels as Discord lists them, by category; first those without one, whose category is ""."""
    categories = [channel for channel in channels if channel.kind == CATEGORY]
    ids = {category.id for category in categories}
    texts = sorted((one for one in channels if one.kind in TEXT_CHANNELS), key=_position)
    yield "", [channel for channel in texts if channel.parent_id not in ids]
    for category in sorted(categories, key=_position):
        yield category.name, [channel for channel in texts if channel.parent_id == category.id]


def lacking(views: Views, channel: ChannelView) -> dict[tuple[str, ...], list[str]]:
    """The permissions that bots lack in the channel, with these bots. A bot that is not in the server is left out."""
    found: dict[tuple[str, ...], list[str]] = {}
    for agent, view in views.items():
        if channel.guild_id in view.guilds and (names := missing(view.bits_in(channel), NEEDED)):
            found.setdefault(tuple(names), []).append(agent)
    return found


def _position(channel: ChannelView) -> tuple[int, int]:
    return channel.position, channel.id


def _name(session: Session, channel: int) -> str:
    return f"#{session.channels[channel]}" if channel in session.channels else str(channel)


def _looked_up(session: Session) -> Views:
    while True:
        with session.talk.waiting("Asking Discord"):
            views, failed = look_up_channels(session.tokens(), session.answers.settings().guild_ids)
        for agent, reason in failed.items():
            session.talk.bad(f"{session.title(agent)}: Discord {reason}.")
        if not failed or not session.talk.goes_on("Try again?"):
            return views


def _show(session: Session, views: Views) -> list[ChannelView]:
    """Print the channels of the servers with their numbers; return them in that order."""
    listed: list[ChannelView] = []
    for server in session.answers.settings().guild_ids:
        everything = {
            channel.id: channel
            for view in views.values()
            for channel in view.channels.values()
            if channel.guild_id == server
        }
        if len(session.answers.settings().guild_ids) > 1:
            session.talk.say(f"{session.servers[server]}:")
        for category, channels in in_order(list(everything.values())):
            if category and channels:
                session.talk.say(f"       {category}")
            for channel in channels:
                listed.append(channel)
                session.channels[channel.id] = channel.name
                session.talk.say(f"  {len(listed):>3}  #{channel.name}{_marks(session, views, channel)}")
    return listed


def _marks(session: Session, views: Views, channel: ChannelView) -> str:
    found = lacking(views, channel)
    lines = [f"{session.titles(agents)}: missing {', '.join(names)}" for names, agents in found.items()]
    return f"  ({'; '.join(lines)})" if lines else ""


def _choose_themes(session: Session, chosen: Sequence[ChannelView], before: Mapping[int, str]) -> None:
    talk = session.talk
    talk.say("", "Each channel has a theme, by which the bots know how to talk there. Type its number or name:")
    for number, theme in enumerate(THEMES.values(), 1):
        talk.say(f"  {number:>3}  {theme.name:<17} {theme.summary}")
    themes = {channel.id: _ask_theme(session, channel, before.get(channel.id)) for channel in chosen}
    session.answers.give(CHANNELS, ",".join(f"{channel}:{theme}" for channel, theme in themes.items()))
    if session.answers.get(OLD_CHANNELS):
        session.answers.give(OLD_CHANNELS, "")  # otherwise it would leave out the channels that it does not list


def _ask_theme(session: Session, channel: ChannelView, before: str | None) -> str:
    usual = before or guessed_theme(channel.name)
    return session.talk.pick(f"Theme of #{channel.name} [{usual}]:", lambda text: theme_of(text or usual))
