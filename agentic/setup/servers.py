"""Invite the bots, and choose the servers in which they speak."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agentic.check.discord import link_to_invite, options_in
from agentic.setup.answers import SERVERS
from agentic.setup.choices import example, numbers
from agentic.setup.lookups import look_up_servers
from agentic.setup.session import Session

Servers = Mapping[str, Mapping[int, str]]  # by agent: id → name


def choose_servers(session: Session) -> bool:
    """Ask for the servers; False if they cannot be listed."""
    talk = session.talk
    talk.heading("Server")
    if not session.tokens():
        talk.warn(
            f"No token could be checked, so servers and channels cannot be listed: set {SERVERS} and CHANNEL_THEME_MAP."
        )
        return False
    found = _invited(session, ())
    session.servers = {server: name for servers in found.values() for server, name in servers.items()}
    if not session.servers:
        talk.warn("No bot is in a server, so there are no channels to choose. Run this again when they are invited.")
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
        there = session.titles([agent for agent in found if server in found[agent]])
        talk.say(f"  {number:>3}  {session.servers[server]} ({there})")
    before = [server for server in session.answers.settings().guild_ids if server in session.servers]
    kept = ",".join(str(listed.index(server) + 1) for server in before)

    def read(text: str) -> list[int]:
        return [listed[number - 1] for number in numbers(text or kept, len(listed))]

    leaves = f" [{kept}]" if kept else ""
    return talk.pick(f"In which servers shall they speak? By number, such as {example(len(listed))}{leaves}:", read)


def _invited(session: Session, servers: Collection[int]) -> Servers:
    """Show invite links until each bot is in a server, or in one of these; the servers of each bot then."""
    talk, shown = session.talk, False
    while True:
        with talk.waiting("Asking Discord"):
            found, failed = look_up_servers(session.tokens())
        for agent, reason in failed.items():
            talk.bad(f"{session.title(agent)}: Discord {reason}.")
        absent = [agent for agent, there in found.items() if not (there.keys() & set(servers) if servers else there)]
        if not absent and not failed:
            return found
        if absent and shown:
            talk.bad(f"Not there yet: {session.titles(absent)}")
        elif absent:
            where = f" to {' or '.join(session.servers[server] for server in servers)}" if servers else ""
            talk.say(f"Invite the bots{where}: open each link in the browser, choose your server, press Authorize.")
            for agent in absent:
                talk.say(f"  {session.title(agent)}: {_link(session, agent)}")
            shown = True
        if not talk.goes_on("Are they in?" if absent else "Try again?"):
            return found


def _link(session: Session, agent: str) -> str:
    settings = session.answers.settings()
    options = options_in(agent, settings)
    return link_to_invite(session.bots[agent].application.id, settings, options)
