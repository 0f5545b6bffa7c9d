"""Ask for each bot's Discord token, invite the bots, and ask for the servers and channels that they speak in.

Each token is checked: which bot it belongs to, and whether that bot can read messages. Channels are listed in Discord's
order; each gets a theme.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from agent_config import AgentSettings
from agentic.check.discord import (
    NEEDED,
    TEXT_CHANNELS,
    BotView,
    ChannelView,
    NoAnswerError,
    TokenRefusedError,
    find_namesake,
    link_to_invite,
    missing,
)
from agentic.check.odd_settings import options_in
from agentic.setup.answers import (
    CHANNELS,
    OLD_CHANNELS,
    SERVERS,
    FoundBot,
    Session,
    ask_keys,
    ask_secret,
    look_up_bot,
    look_up_channels,
    look_up_servers,
    tail,
    wrong_token,
)
from agentic.setup.dialogue import Dialogue, example_numbers, guess_theme, read_numbers, read_theme
from agentic.themes import THEMES

CATEGORY = 4  # https://discord.com/developers/docs/resources/channel#channel-object-channel-types
PORTAL = "https://discord.com/developers/applications"

Views = Mapping[str, BotView]
Servers = Mapping[str, Mapping[int, str]]  # by agent: id → name


def set_up_bots(session: Session) -> None:
    for agent in session.agents():
        session.talk.heading(agent.display_name)
        kept = _set_up_bot(session, agent)
        if session.answers.get(agent.spec.token_setting):
            ask_keys(session, agent.name, kept=kept)


def _set_up_bot(session: Session, agent: AgentSettings) -> bool:
    """Ask for the bot's token. Returns whether the owner keeps the current token."""
    talk, setting = session.talk, agent.spec.token_setting
    token = session.answers.get(setting)
    if not token:
        if talk.agrees(f"Set up {agent.display_name}?"):
            _explain(session, agent)
            _ask_token(session, agent, "")
        return False
    outside = session.answers.in_environment(setting) == token
    place = "a token in the environment" if outside else "a token"
    ways = ("keep", "change") if outside else ("keep", "change", "off")
    ask = "Keep it or change it?" if outside else "Keep it, change it, or turn the bot off?"
    way = talk.choose(f"{agent.display_name} has {place} ({tail(token)}). {ask}", ways, default="keep")
    if way == "off":
        session.answers.give(setting, "")
        session.bots.pop(agent.name, None)
    else:
        _ask_token(session, agent, token if way == "keep" else "")
    return way == "keep"


def _explain(session: Session, agent: AgentSettings) -> None:
    if session.tokens():
        session.talk.say(
            f"  Make another application for {agent.display_name} at {PORTAL}",
            "  On its page Bot, turn on Message Content Intent, save, click Reset Token, and copy the token.",
        )
        return
    session.talk.say(
        f"  1. Open {PORTAL} and click New Application.",
        f"     Give it the bot's name, such as {agent.display_name}.",
        "  2. Open the page Bot in the menu on the left. Under Privileged Gateway Intents, turn on",
        "     Message Content Intent, and save.",
        "  3. On the same page, click Reset Token and copy the token.",
    )


def _ask_token(session: Session, agent: AgentSettings, token: str) -> None:
    """Ask until a token is accepted, goes unchecked, or is skipped. `token` is the first to try."""
    talk, setting = session.talk, agent.spec.token_setting
    before = session.answers.get(setting)
    leaves = "keeps the current token" if before else "skips this bot"
    while True:
        question = f"{agent.display_name}'s token (hidden while you paste; Enter {leaves}):"
        token = token or ask_secret(talk, question, wrong_token)
        if not token:
            if not before:
                talk.say(f"  Skipping {agent.display_name}. You can come back to it at the end.")
            return
        try:
            found = _look_up(talk, token)
        except TokenRefusedError:
            talk.bad("Discord rejects this token. Copy all of it, or click Reset Token for a new one.")
            token = ""
            continue
        if found is not None and not _is_bot_of(session, agent, found, tail(token)):
            token = ""
            continue
        session.answers.give(setting, token)
        if found is None:
            session.bots.pop(agent.name, None)
        else:
            session.bots[agent.name] = found
            _check_application(session, agent, token)
        return


def _look_up(talk: Dialogue, token: str) -> FoundBot | None:
    """Return the token's bot, or None if it goes unchecked. Raises TokenRefusedError."""
    while True:
        try:
            with talk.waiting("Asking Discord"):
                return look_up_bot(token)
        except NoAnswerError as error:
            talk.bad(f"Discord {error}. Your token may still be right.")
        if not talk.wants_to_continue("Try again?"):
            talk.warn("Continuing without checking the token.")
            return None


def _is_bot_of(session: Session, agent: AgentSettings, found: FoundBot, ending: str) -> bool:
    """Whether the bot is this agent's: not another agent's, and not named like one unless the owner agrees."""
    talk, name = session.talk, found.name
    for other, bot in session.bots.items():
        if other != agent.name and bot.id == found.id:
            talk.bad(f"That's {session.title(other)}'s token. Each bot needs its own application.")
            return False
    talk.good(f"Discord accepts the token ({ending}): the bot is called {name}")
    if find_namesake(agent.display_name, name, (one.display_name for one in session.agents())) is None:
        return True
    return talk.agrees(f"The bot is called {name}. Use it as {agent.display_name} anyway?", default=False)


def _check_application(session: Session, agent: AgentSettings, token: str) -> None:
    """Check the switches in the portal until they are right or the owner skips this."""
    talk = session.talk
    while True:
        application = session.bots[agent.name].application
        page = f"{PORTAL}/{application.id}/bot"
        if application.message_content:
            talk.good("Message Content Intent is on")
        else:
            talk.bad("Message Content Intent is off, so the bot can't start. Turn it on and save:")
            talk.say(f"  {page}, under Privileged Gateway Intents")
        if application.code_grant:
            talk.bad("Requires OAuth2 Code Grant is on, so nobody can invite the bot. Turn it off and save:")
            talk.say(f"  {page}")
        if application.message_content and not application.code_grant:
            return
        if not talk.wants_to_continue("Check again?"):
            return
        try:
            with talk.waiting("Asking Discord"):
                session.bots[agent.name] = look_up_bot(token)
        except (TokenRefusedError, NoAnswerError) as error:
            talk.bad(f"Discord {error}." if str(error) else "Discord now rejects the token.")


def choose_servers(session: Session) -> bool:
    """Ask for the servers. Returns False if they can't be listed."""
    talk = session.talk
    talk.heading("Server")
    if not session.tokens():
        what = f"Set {SERVERS} and {CHANNELS} in .env yourself."
        talk.warn(f"Without a token that Discord accepts, your servers and channels can't be listed. {what}")
        return False
    found = _invited(session, ())
    session.servers = {server: name for servers in found.values() for server, name in servers.items()}
    if not session.servers:
        talk.warn(
            "Your bots aren't in a server yet, so you can't choose channels yet. Invite them, then run this again."
        )
        return False
    chosen = _chosen(session, found)
    session.answers.give(SERVERS, ",".join(map(str, chosen)))
    _invited(session, chosen)
    return True


def _chosen(session: Session, found: Servers) -> list[int]:
    talk, listed = session.talk, list(session.servers)
    if len(listed) == 1:
        talk.good(f"The bots are in {session.servers[listed[0]]}")
        return listed
    for number, server in enumerate(listed, 1):
        there = session.titles(agent for agent in found if server in found[agent])
        talk.say(f"  {number:>3}  {session.servers[server]} ({there})")
    before = [server for server in session.answers.settings().guild_ids if server in session.servers]
    kept = ",".join(str(listed.index(server) + 1) for server in before)

    def read(text: str) -> list[int]:
        return [listed[number - 1] for number in read_numbers(text or kept, len(listed))]

    example, leaves = example_numbers(len(listed)), f" [{kept}]" if kept else ""
    return talk.pick(f"Which servers should they speak in? Type numbers, such as {example}{leaves}:", read)


def _invited(session: Session, servers: Collection[int]) -> Servers:
    """Show invite links until each bot is in a server, or in one of `servers`. Returns each bot's servers."""
    talk, shown = session.talk, False
    while True:
        with talk.waiting("Asking Discord"):
            found, failed = look_up_servers(session.tokens())
        _show_failures(session, failed)
        absent = [agent for agent, there in found.items() if not (there.keys() & set(servers) if servers else there)]
        if not absent and not failed:
            return found
        if absent and shown:
            talk.bad(f"Not in a server yet: {session.titles(absent)}")
        elif absent:
            where = f" to {' or '.join(session.servers[server] for server in servers)}" if servers else ""
            talk.say(f"Invite the bots{where}: open each link in your browser, choose your server, click Authorize.")
            settings = session.answers.settings()
            for agent in absent:
                application = session.bots[agent].application
                link = link_to_invite(application.id, settings, options_in(agent, settings))
                talk.say(f"  {session.title(agent)}: {link}")
            shown = True
        if not talk.wants_to_continue("Are they in your server now?" if absent else "Try again?"):
            return found


def _show_failures(session: Session, failed: Mapping[str, str]) -> None:
    for agent, reason in failed.items():
        session.talk.bad(f"{session.title(agent)}: Discord {reason}.")


def choose_channels(session: Session) -> None:
    talk = session.talk
    talk.heading("Channels")
    while True:
        with talk.waiting("Asking Discord"):
            views, failed = look_up_channels(session.tokens(), session.answers.settings().guild_ids)
        _show_failures(session, failed)
        if not failed or not talk.wants_to_continue("Try again?"):
            break
    listed = _list_channels(session, views)
    if not listed:
        talk.warn(f"The server has no text channel. Make one and run this again, or set {CHANNELS} in .env.")
        return
    before = session.answers.settings().channels
    if before:
        names = {one: f"#{session.channels[one]}" if one in session.channels else one for one in before}
        talk.say(f"Now: {', '.join(f'{names[one]} ({theme})' for one, theme in before.items())}")
    if any(lacking(views, channel) for channel in listed):
        talk.say("You can grant missing permissions later in Discord. The check at the end lists them again.")
    leaves = "Enter keeps the current channels" if before else "Enter chooses none for now"

    def read(text: str) -> list[ChannelView]:
        numbers = read_numbers(text, len(listed), [one.name for one in listed]) if text else []
        return [listed[number - 1] for number in numbers]

    example = example_numbers(len(listed))
    question = f"Which channels should they speak in? Type numbers, such as {example} ({leaves}):"
    chosen = talk.pick(question, read)
    if not chosen:
        if not before:
            talk.warn("Without a channel the bots stay silent.")
        return
    talk.say("", "Each channel has a theme that tells the bots how to talk there. Type its number or name:")
    for number, theme in enumerate(THEMES.values(), 1):
        talk.say(f"  {number:>3}  {theme.name:<17} {theme.summary}")
    themes: dict[int, str] = {}
    for channel in chosen:
        usual = before.get(channel.id) or guess_theme(channel.name)
        question = f"Theme of #{channel.name} [{usual}]:"
        themes[channel.id] = talk.pick(question, partial(read_theme, usual=usual))
    session.answers.give(CHANNELS, ",".join(f"{channel}:{theme}" for channel, theme in themes.items()))
    if session.answers.get(OLD_CHANNELS):
        session.answers.give(OLD_CHANNELS, "")  # it would hide channels that it doesn't list


def in_order(channels: Sequence[ChannelView]) -> Iterator[tuple[str, list[ChannelView]]]:
    """Yield the text channels in Discord's order, by category; first the channels without a category ("")."""
    in_place = sorted(channels, key=lambda channel: (channel.position, channel.id))
    categories = [channel for channel in in_place if channel.kind == CATEGORY]
    texts = [channel for channel in in_place if channel.kind in TEXT_CHANNELS]
    ids = {category.id for category in categories}
    yield "", [channel for channel in texts if channel.parent_id not in ids]
    for category in categories:
        yield category.name, [channel for channel in texts if channel.parent_id == category.id]


def lacking(views: Views, channel: ChannelView) -> dict[tuple[str, ...], list[str]]:
    """Return the permissions that bots lack in the channel, with these bots. Bots outside the server don't count."""
    found: dict[tuple[str, ...], list[str]] = {}
    for agent, view in views.items():
        if channel.guild_id in view.guilds and (names := missing(view.bits_in(channel), NEEDED)):
            found.setdefault(tuple(names), []).append(agent)
    return found


def _list_channels(session: Session, views: Views) -> list[ChannelView]:
    """Print the channels of the servers with their numbers. Returns them in that order."""
    listed: list[ChannelView] = []
    for server in session.answers.settings().guild_ids:
        known = (channel for view in views.values() for channel in view.channels.values())
        everything = {channel.id: channel for channel in known if channel.guild_id == server}
        if len(session.answers.settings().guild_ids) > 1:
            session.talk.say(f"{session.servers[server]}:")
        for category, channels in in_order(list(everything.values())):
            if category and channels:
                session.talk.say(f"       {category}")
            for channel in channels:
                listed.append(channel)
                session.channels[channel.id] = channel.name
                found = lacking(views, channel)
                lines = [f"{session.titles(agents)}: missing {', '.join(names)}" for names, agents in found.items()]
                marks = f"  ({'; '.join(lines)})" if lines else ""
                session.talk.say(f"  {len(listed):>3}  #{channel.name}{marks}")
    return listed
