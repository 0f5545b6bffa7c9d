"""Ask whether an agent is on Signal: its number, the server that holds the account, and who may write to it."""

from __future__ import annotations

from agent_config import SettingsError
from agentic.setup.answers import SIGNAL_ALLOWED, SIGNAL_NUMBERS, SIGNAL_SERVER, Session, answers_on_signal
from agentic.setup.dialogue import ChoiceError

USUAL_AGENT = "penny"  # the companion among the personas


def ask_signal(session: Session) -> None:
    """Ask for the settings of Signal, if the owner wants it; an agent may be there without a bot in Discord."""
    talk, answers = session.talk, session.answers
    talk.heading("Signal (optional)")
    if not talk.agrees("Shall an agent have a phone number on Signal?", default=bool(answers.get(SIGNAL_NUMBERS))):
        if answers.get(SIGNAL_NUMBERS):
            answers.give(SIGNAL_NUMBERS, "")
        return
    talk.say(
        "  docs/signal.md says how a number is registered, and how the server that holds it is started.",
        f"  Before a number stands the name of a bot or persona, such as {USUAL_AGENT}:+4915112345678.",
    )
    _ask(session, SIGNAL_NUMBERS, "Which number has the agent, with + and country code")
    server = _ask(session, SIGNAL_SERVER, "Address of signal-cli-rest-api", answers.settings().signal_api_url)
    with talk.waiting("Asking the server"):
        is_there = answers_on_signal(server)
    if is_there:
        talk.good(f"{server} answers")
    else:
        talk.warn("No answer there yet. Start it before the bots: docker compose --profile signal up -d signal")
    _ask(session, SIGNAL_ALLOWED, "Who may write to it: phone numbers with commas between them, or all")


def _ask(session: Session, setting: str, question: str, usual: str = "") -> str:
    """Ask until the settings as a whole accept the answer; Enter keeps what is there."""
    before = session.answers.get(setting) or usual

    def read(text: str) -> str:
        given = text or before
        if not given:
            raise ChoiceError("Type an answer, or leave by Ctrl-C.")
        if setting == SIGNAL_NUMBERS and ":" not in given and "," not in given:
            given = f"{USUAL_AGENT}:{given}"
        session.answers.give(setting, given)
        try:
            session.answers.settings()
        except SettingsError as error:
            session.answers.give(setting, "")
            raise ChoiceError(error.problems[0]) from error
        return given

    return session.talk.pick(f"{question}{f' [{before}]' if before else ''}:", read)
