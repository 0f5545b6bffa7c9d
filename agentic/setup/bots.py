"""Ask for each bot's Discord token, and check it: whose it is, and whether it may read messages."""

from __future__ import annotations

from agent_config import AgentSettings
from agentic.check.discord import NoAnswerError, TokenRefusedError
from agentic.setup.answers import tail
from agentic.setup.keys import ask_keys
from agentic.setup.lookups import FoundBot, look_up_bot
from agentic.setup.pasted import cleaned, wrong_token
from agentic.setup.session import Session

PORTAL = "https://discord.com/developers/applications"


def set_up_bots(session: Session) -> None:
    """Ask about every bot of the table."""
    for agent in list(session.agents()):
        session.talk.heading(agent.display_name)
        kept = _set_up_bot(session, agent)
        if session.answers.get(agent.spec.token_setting):
            ask_keys(session, agent.name, kept=kept)


def _set_up_bot(session: Session, agent: AgentSettings) -> bool:
    """Ask for the bot's token; return whether the owner keeps the one there is."""
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
    ask = "keep it or change it?" if outside else "keep it, change it, or turn the bot off?"
    way = talk.choose(f"{agent.display_name} has {place}, {tail(token)}: {ask}", ways, default="keep")
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
            "  and, on its page Bot, switch on Message Content Intent, save, and copy the token (Reset Token).",
        )
        return
    session.talk.say(
        f"  1. Open {PORTAL} and press New Application.",
        f"     Its name is the bot's name, such as {agent.display_name}.",
        "  2. Open its page Bot, in the menu on the left. Under Privileged Gateway Intents switch on",
        "     Message Content Intent, and save.",
        "  3. On the same page press Reset Token, and copy the token.",
    )


def _ask_token(session: Session, agent: AgentSettings, token: str) -> None:
    """Ask until a token is accepted, goes unchecked, or is left out. `token`: the one to try first."""
    talk, setting = session.talk, agent.spec.token_setting
    before = session.answers.get(setting)
    leaves = "keeps the one there is" if before else "leaves this bot out"
    while True:
        if not token:
            token = cleaned(talk.ask_hidden(f"Token of {agent.display_name} (hidden while you paste; Enter {leaves}):"))
            if not token:
                if not before:
                    talk.say(f"  {agent.display_name} is left out; you can come back to it at the end.")
                return
            if problem := wrong_token(token):
                talk.bad(problem)
                token = ""
                continue
        found = _checked(session, agent, token)
        if found is None:
            token = ""
            continue
        session.answers.give(setting, token)
        if isinstance(found, FoundBot):
            session.bots[agent.name] = found
            _check_application(session, agent, token)
        else:
            session.bots.pop(agent.name, None)
        return


def _checked(session: Session, agent: AgentSettings, token: str) -> FoundBot | str | None:
    """The token's bot; the token itself if it goes unchecked; None if another one is needed."""
    talk = session.talk
    while True:
        try:
            with talk.waiting("Asking Discord"):
                found = look_up_bot(token)
        except TokenRefusedError:
            talk.bad("Discord refuses this token. Copy it whole; Reset Token makes a new one, and ends the old one.")
            return None
        except NoAnswerError as error:
            talk.bad(f"Discord {error}. This says nothing about the token.")
            if talk.goes_on("Try again?"):
                continue
            talk.warn("The token goes unchecked.")
            return token
        return found if _belongs(session, agent, found, tail(token)) else None


def _belongs(session: Session, agent: AgentSettings, found: FoundBot, ending: str) -> bool:
    """Whether the bot is this agent's: no other agent's, and not named like one unless the owner says so."""
    talk, name = session.talk, found.name
    for other, bot in session.bots.items():
        if other != agent.name and bot.id == found.id:
            talk.bad(f"This is {session.title(other)}'s token. Each bot needs an application of its own.")
            return False
    talk.good(f"Discord knows this token, {ending}: the bot is called {name}")
    others = [one.display_name for one in session.agents() if one.name != agent.name]
    if agent.display_name.lower() in name.lower() or not any(one.lower() in name.lower() for one in others):
        return True
    return talk.agrees(f"Shall {name} really be {agent.display_name}?", default=False)


def _check_application(session: Session, agent: AgentSettings, token: str) -> None:
    """Ask for the switches in the portal until they are right, or the owner goes on without."""
    talk = session.talk
    while True:
        application = session.bots[agent.name].application
        page = f"{PORTAL}/{application.id}/bot"
        if application.message_content:
            talk.good("Message Content Intent is on")
        else:
            talk.bad("Message Content Intent is off, so the bot could not start. Switch it on and save:")
            talk.say(f"  {page}, Privileged Gateway Intents")
        if application.code_grant:
            talk.bad("Requires OAuth2 Code Grant is on, so nobody could invite the bot. Switch it off and save:")
            talk.say(f"  {page}")
        if application.message_content and not application.code_grant:
            return
        if not talk.goes_on("Check again?"):
            return
        try:
            with talk.waiting("Asking Discord"):
                session.bots[agent.name] = look_up_bot(token)
        except (TokenRefusedError, NoAnswerError) as error:
            talk.bad(f"Discord {error}." if str(error) else "Discord refuses the token now.")
