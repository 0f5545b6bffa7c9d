"""Run the setup: bots, Signal, servers and channels, time zone and budget, summary, writing, check."""

from __future__ import annotations

import difflib
import math
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from rich.console import Console

from agent_config import DEFAULT_BUDGET, SettingsError, machine_timezone
from agentic.check.costs import forecast_day
from agentic.findings import Findings
from agentic.process.redaction import Redactor
from agentic.process.tasks import INTERRUPTED
from agentic.services.signal.settings import SignalSettings
from agentic.setup.answers import (
    ASKED,
    BUDGET,
    OLD_CHANNELS,
    SIGNAL_ALLOWED,
    SIGNAL_NUMBERS,
    SIGNAL_SERVER,
    TIME_ZONE,
    Session,
    answers_on_signal,
    read_answers,
    tail,
)
from agentic.setup.dialogue import ChoiceError, Dialogue, Reader
from agentic.setup.discord import PORTAL, choose_channels, choose_servers, set_up_bots
from agentic.setup.env_file import CannotWriteError, EnvPlace, find_place, template, write_settings

NOTHING = "Nothing was written."
USUAL_AGENT = "penny"  # the companion among the personas
MAX_BUDGET = 1_000_000.0


def run_setup(
    check: Callable[[], int],
    *,
    environ: Mapping[str, str],
    folder: Path | None = None,
    reader: Reader | None = None,
    console: Console | None = None,
) -> int:
    """Ask, write the folder's .env, and return the exit code of `check`, which reads it. If nothing was written,
    returns 1, 2 if the existing settings can't be used, or 130 after Ctrl-C."""
    talk = Dialogue(reader, console or Console())
    # A signal from a service manager or a closed terminal ends the setup like Ctrl-C, which turns the echo on again.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
    try:
        place = find_place(folder or Path())
        answers, asked_again = read_answers(place.path, environ)
    except CannotWriteError as error:
        talk.bad(str(error))
        return 2
    except SettingsError as error:
        return _refuse(talk, error.problems)
    session = Session(talk, answers)
    try:
        _introduce(session, place, asked_again)
        if not _ask_all(session) or not _confirm_and_write(session, place, folder or Path()):
            talk.say(NOTHING)
            return 1
    except EOFError:
        talk.say("", f"The input ended. {NOTHING}")
        return 1
    except KeyboardInterrupt:
        talk.say("", f"Stopped. {NOTHING}")
        return INTERRUPTED
    except SettingsError as error:  # answers that conflict with other settings
        return _refuse(talk, error.problems)
    except Exception:
        # The outermost edge: no answer may be in the traceback.
        names = (key for key in ASKED if key.startswith("BOT_TOKEN_") or key.endswith("_KEY"))
        secrets = [text for key in names if (text := answers.get(key))]
        print(Redactor(secrets).secrets(traceback.format_exc()), file=sys.stderr)
        talk.bad(f"An unexpected error ended the setup. {NOTHING}")
        return 1
    return _finish(session, check)


def _refuse(talk: Dialogue, problems: list[str]) -> int:
    talk.bad("Some settings that this setup doesn't ask for are wrong. Correct them in .env first:")
    talk.say(*(f"  {line}" for line in problems), NOTHING)
    return 2


def _introduce(session: Session, place: EnvPlace, asked_again: list[str]) -> None:
    talk = session.talk
    talk.heading("Set up agentic-discord")
    talk.say(
        "This asks what your bots need, checks each answer right away, and at the end writes it to",
        f"  {place.path.absolute()}",
        "It takes about five minutes. Nothing is written until you agree; leave anytime with Ctrl-C.",
        "",
        "Open a browser and log in to",
        f"  - {PORTAL} (to make an application for each bot)",
        "  - Discord, with an account that can manage your server",
        "  - each bot's AI provider (to make an API key): OpenAI, Anthropic, Google, xAI",
        "One bot is enough to start with; two can talk to each other.",
    )
    if place.is_link:
        talk.warn(f".env is a link. This changes the file that it points to: {place.path}")
    if place.exists:
        talk.say(
            "",
            "You already have a .env. Its values are offered as defaults, its other lines stay as they are,",
            "and the old file is kept as a backup.",
        )
    if place.open_to_others:
        talk.warn("Other users of this machine can read it now. Only you will be able to read the new file.")
    for line in asked_again:
        talk.warn(f"{line} (you'll be asked again)")
    if names := sorted(key for key in ASKED if session.answers.in_environment(key)):
        talk.warn(f"Set in the environment, which overrides .env when the bots start: {', '.join(names)}")


def _ask_all(session: Session) -> bool:
    """Ask everything. Returns False if the owner sets up neither a bot nor a Signal number."""
    set_up_bots(session)
    ask_signal(session)
    while not any(agent.token for agent in session.agents()) and not session.answers.settings().account_agents:
        session.talk.bad("No bot has a token yet, so there's nothing to run.")
        if not session.talk.agrees("Go through the bots again?"):
            return False
        set_up_bots(session)
    _ask_places(session)
    choose_habits(session)
    return True


def _ask_places(session: Session) -> None:
    if any(agent.token for agent in session.agents()) and choose_servers(session):
        choose_channels(session)


def _confirm_and_write(session: Session, place: EnvPlace, folder: Path) -> bool:
    """Show the answers, and write them once the owner agrees. Returns False if the owner doesn't."""
    talk = session.talk
    while True:
        _summarize(session, place)
        changes = session.answers.changes()
        if not changes and place.exists:
            talk.good("Nothing has changed, so .env stays as it is.")
            return True
        words = ("yes", "no", "bots", "signal", "channels", "time")
        answer = talk.choose("Write it? Or change something?", words, default="yes")
        if answer == "no":
            return False
        if answer == "yes":
            try:
                old = write_settings(place, changes, template(folder), time.time())
            except (OSError, CannotWriteError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                talk.bad(f"Writing {place.path} failed ({reason}). Fix that, then answer yes again.")
                continue
            readers = "You and its group" if place.open_to_group else "Only you"
            talk.good(
                f"Wrote {place.path.absolute()}. {readers} can read it. Don't share it: it has your tokens and keys."
            )
            if old is not None:
                talk.say(f"  The old file is now {old.name}. Delete it once everything works.")
            return True
        if answer == "bots":
            set_up_bots(session)
        elif answer == "signal":
            ask_signal(session)
        elif answer == "channels":
            _ask_places(session)
        elif answer == "time":
            choose_habits(session)


def _summarize(session: Session, place: EnvPlace) -> None:
    talk, answers, settings = session.talk, session.answers, session.answers.settings()
    talk.heading(f"For {place.path.absolute()}")
    for agent in settings.agents.values():
        if agent.token is None:
            talk.say(f"  {agent.display_name:<10} off")
            continue
        lacking = ", ".join(dict.fromkeys(model.lacks for model in agent.models if model.lacks))
        keys = dict.fromkeys(model.key_setting for model in agent.models if model.api_key)
        shown = [f"{key} {tail(answers.get(key))}" for key in keys]
        shown += [f"no {lacking}, so it stays offline"] if lacking else []
        talk.say(f"  {agent.display_name:<10} token {tail(agent.token.get_secret_value())}; {', '.join(shown)}")
    servers = [session.servers.get(server, str(server)) for server in settings.guild_ids]
    named = {channel: f"#{session.channels[channel]}" for channel in settings.channels if channel in session.channels}
    channels = [f"{named.get(channel, channel)} ({theme})" for channel, theme in settings.channels.items()]
    budget = answers.get(BUDGET)
    talk.say(
        f"  {'Server':<10} {', '.join(servers) or 'every server they are in'}",
        f"  {'Channels':<10} {', '.join(channels) or 'none yet, so the bots stay silent'}",
        f"  {'Time zone':<10} {answers.get(TIME_ZONE)}",
        f"  {'Budget':<10} {'no limit' if budget.lower() == 'none' else f'${budget} a day'}",
    )
    if settings.account_agents:
        allowed = ", ".join(SignalSettings.of(settings).signal_allowed) or "nobody yet"
        talk.say(f"  {'Signal':<10} {', '.join(settings.account_agents)}; answers {allowed}")
    if OLD_CHANNELS in answers.changes():
        talk.say(f"  {OLD_CHANNELS} will be emptied, because CHANNEL_THEME_MAP lists all channels.")
    _warn_of_environment(session)


def _warn_of_environment(session: Session) -> None:
    if winning := sorted(key for key in ASKED if session.answers.overruled(key)):
        session.talk.warn(f"The environment overrides these answers. Unset there: {', '.join(winning)}")


def ask_signal(session: Session) -> None:
    """Ask for Signal's settings if the owner wants it. An agent can be there without a bot in Discord."""
    talk, answers = session.talk, session.answers
    talk.heading("Signal (optional)")
    question = "Should one of your bots also answer on Signal, with its own phone number?"
    if not talk.agrees(question, default=bool(answers.get(SIGNAL_NUMBERS))):
        if answers.get(SIGNAL_NUMBERS):
            answers.give(SIGNAL_NUMBERS, "")
        return
    talk.say(
        "  docs/signal.md explains how to register a number and start the Signal server.",
        f"  Write the name of the bot or persona before its number, such as {USUAL_AGENT}:+4915112345678.",
    )
    _ask_setting(session, SIGNAL_NUMBERS, "Its phone number, with + and country code")
    usual = SignalSettings.of(answers.settings()).signal_api_url
    server = _ask_setting(session, SIGNAL_SERVER, "Address of your signal-cli-rest-api server", usual)
    with talk.waiting("Asking the server"):
        is_there = answers_on_signal(server)
    if is_there:
        talk.good(f"{server} answers")
    else:
        talk.warn("It doesn't answer yet. Start it before the bots: docker compose --profile signal up -d signal")
    _ask_setting(session, SIGNAL_ALLOWED, "Who it answers: phone numbers separated by commas, or all")


def _ask_setting(session: Session, setting: str, question: str, usual: str = "") -> str:
    """Ask until the answer fits the settings as a whole; Enter keeps the current value."""
    before = session.answers.get(setting) or usual

    def read(text: str) -> str:
        given = text or before
        if not given:
            raise ChoiceError("Type an answer, or leave with Ctrl-C.")
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


def choose_habits(session: Session) -> None:
    """Ask for the time zone, forecast the cost of a day, and ask for the daily budget."""
    talk, answers = session.talk, session.answers
    talk.heading("Time and money")
    usual, why = answers.get(TIME_ZONE), ""
    if not usual:
        name = machine_timezone(answers.environ).key
        usual, why = name if name and _exists(name) else "UTC", ", this machine's"
    question = f"Your time zone, for the hours when the bots talk [{usual}{why}]:"
    zone = talk.pick(question, lambda text: zone_named(text) if text else usual)
    answers.give(TIME_ZONE, zone)
    talk.good(f"{zone} (it's {datetime.now(ZoneInfo(zone)):%H:%M} there now)")

    day = forecast_day(answers.settings(), Findings(), time.time())
    if day.dollars:
        talk.say(f"Your bots will probably cost {day.text}.")
    usual_budget = answers.get(BUDGET) or f"{DEFAULT_BUDGET:g}"
    question = f"Daily budget for all bots together, in US dollars (none for no limit) [{usual_budget}]:"
    budget = talk.pick(question, lambda text: budget_of(text) if text else usual_budget)
    answers.give(BUDGET, budget)
    if budget.lower() == "none":
        talk.warn("Without a limit, there's no cap on what people's mentions can cost.")
    elif float(budget) < day.dollars:
        talk.warn("That's less than a day will probably cost. The bots go quiet once it is used up.")


def zone_named(text: str) -> str:
    """Return an IANA name for that name or its city, in any case: "berlin" → "Europe/Berlin". Raises ChoiceError."""
    names = available_timezones()
    word = re.sub(r"\s+", "_", text.strip())
    found = [name for name in names if name.lower() == word.lower()]
    found = found or [name for name in names if name.lower().rpartition("/")[2] == word.lower()]
    if len(found) == 1 or _exists(word):
        return found[0] if len(found) == 1 else word
    near = sorted(found)
    if not near:  # at most three names with a similar spelling, or with a city that has one
        spellings = {part: name for name in sorted(names) for part in (name.lower(), name.lower().rpartition("/")[2])}
        alike = difflib.get_close_matches(word.lower(), spellings, n=3, cutoff=0.7)
        near = list(dict.fromkeys(spellings[one] for one in alike))
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ChoiceError(f"That isn't a time zone. Type a name such as Europe/Berlin.{hint}")


def budget_of(text: str) -> str:
    """Parse "$7.50" to "7.5"; "none" means no limit. Raises ChoiceError."""
    word = text.strip().removeprefix("$").strip().lower()
    if word == "none":
        return word
    try:
        dollars = float(word)
    except ValueError:
        dollars = math.nan
    if not 0 < dollars <= MAX_BUDGET:
        raise ChoiceError("Type US dollars, such as 5 or 0.50, or none for no limit.")
    return f"{dollars:g}" if dollars < 1000 else f"{dollars:.0f}"


def _exists(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _finish(session: Session, check: Callable[[], int]) -> int:
    talk = session.talk
    talk.heading("Check")
    try:
        code = check()
    except KeyboardInterrupt:
        talk.say("", "You stopped the check; .env is written. To check again: make run ARGS=--check")
        return INTERRUPTED
    talk.say()
    if code == 0:
        talk.say(
            "To start or restart the bots:  make run",
            "To start with a conversation:  COORDINATOR_FIRE_ON_STARTUP=true make run",
            "With Docker instead:           docker compose up -d && docker compose restart bots",
            "With systemd instead:          systemctl restart agentic-discord",
        )
    else:
        _warn_of_environment(session)
        talk.say(
            "Fix what the check found, then check again:  make run ARGS=--check", "To change an answer:  make setup"
        )
    return code
