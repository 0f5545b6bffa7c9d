"""The command lines of run_all.py, run_bot.py, and agent_coordinator, and the messages of a failed start.

Exit codes: 0 stopped on request, 1 an essential part failed, 2 settings are wrong or missing, or Discord rejects every
bot (a restart wouldn't help).
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from agent_config import (
    Settings,
    SettingsError,
    load_settings,
    missing_key_message,
    missing_tokens_message,
    process_environment,
)
from agentic.agent.persona import read_fronts
from agentic.process.logs import set_up_logging, version_line
from agentic.process.redaction import Redactor
from agentic.process.root import write_probe

MAX_TOPIC = 200  # characters, as in Discord
PRIVATE_UMASK = 0o077

log = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Run run_all.py with these arguments. Returns the exit code."""
    _keep_files_private()
    options = _options(arguments)
    if options.setup:
        from agentic.setup.wizard import run_setup

        return run_setup(lambda: main(("--check",)), environ=process_environment())
    settings = _settings(local=options.local, model=options.model)
    if settings is None:
        return 2
    if options.local:
        return _ended(settings, lambda: _run_local(settings, options))
    known = tuple(dict.fromkeys((*settings.agents, *settings.account_agents)))
    if unknown := [name for name in (*options.only, *options.without) if name not in known]:
        _parser().error(f"unknown bot {', '.join(unknown)}; choose from {', '.join(known)}")
    _set_up_logging(settings)
    if settings.on_discord and not any(agent.token for agent in settings.agents.values()):
        return _refuse(missing_tokens_message(settings))
    if options.check:
        from agentic.check.run import run_check

        return _ended(settings, lambda: asyncio.run(run_check(settings)))
    _log_start(settings)
    return _serve(settings, only=options.only, without=options.without)


def _run_local(settings: Settings, options: argparse.Namespace) -> int:
    if sys.stderr is not None and sys.stderr.isatty():
        print("starting...", file=sys.stderr, flush=True)  # the imports take two seconds
    from agentic.local.session import AlreadyRunning, only_start
    from agentic.local.settings import LOCAL

    if options.model is not None:
        from agentic.local.models import check_model

        verdict = check_model(settings, options.model)
        if verdict.problem:
            return _refuse(verdict.problem)
        if verdict.warning:
            print(f"Warning: {verdict.warning}", file=sys.stderr)
    _make_data_dir(settings)
    try:
        with only_start(settings.data_dir / LOCAL):
            from agentic.local.mode import run_local

            return run_local(settings, once=options.once, scripted=options.scripted, topic=options.room)
    except AlreadyRunning as running:
        print(running, file=sys.stderr)
        return 1


def main_one_bot(arguments: Sequence[str] = ()) -> int:
    """Run run_bot.py: the bot in AGENT_NAME, without the coordinator."""
    settings = _start("run_bot.py", "Run the bot in AGENT_NAME, without the coordinator.", arguments)
    if settings is None:
        return 2
    if settings.agent_name is None:
        names = ", ".join(settings.agents)
        return _refuse(f"AGENT_NAME isn't set. Run it like this: AGENT_NAME=claude python run_bot.py (bots: {names})")
    if settings.agent_name in settings.account_agents:  # with a bot or without one
        _log_start(settings)
        return _serve(settings, only=(settings.agent_name,), coordinator=False)
    agent = settings.agents[settings.agent_name]
    if agent.token is None:
        return _refuse(f"{agent.display_name} can't start: {agent.spec.token_setting} isn't set. Set it in .env.")
    if not agent.usable:
        return _refuse(missing_key_message(agent))
    _log_start(settings)
    return _serve(settings, only=(agent.name,), coordinator=False)


def main_coordinator(arguments: Sequence[str] = ()) -> int:
    """Run python -m agent_coordinator: the coordinator without bots."""
    settings = _start("python -m agent_coordinator", "Run the coordinator without bots.", arguments)
    if settings is None:
        return 2
    if not settings.channels:
        return _refuse("The coordinator has no channels. Set CHANNEL_THEME_MAP in .env.")
    log.info("%s", version_line())

    from agentic.runtime.runtime import serve
    from agentic.runtime.services import ModelMakers, ProcessConfig, embedder_of

    models = ModelMakers(make_embedder=embedder_of)
    setup = ProcessConfig(settings=settings, agents=(), models=models, tools=False, personas=False)
    return _ended(settings, lambda: _run_with_data(settings, partial(serve, setup)))


def _serve(
    settings: Settings, *, only: Sequence[str] = (), without: Sequence[str] = (), coordinator: bool = True
) -> int:
    from agentic.runtime.bot import runnable
    from agentic.runtime.runtime import serve
    from agentic.runtime.services import ModelMakers, ProcessConfig, cheap_model, embedder_of

    agents = runnable(settings, only, without)
    accounts = tuple(name for name in settings.account_agents if (not only or name in only) and name not in without)
    if not (agents or accounts):
        log.error("no bot can start: none of the chosen bots has its own token and an API key")
        return 2
    setup = ProcessConfig(
        settings=settings,
        agents=agents,
        accounts=accounts,
        coordinator=coordinator,
        models=ModelMakers(make_cheap=cheap_model, make_embedder=embedder_of),
    )

    return _ended(settings, lambda: _run_with_data(settings, partial(serve, setup)))


def _run_with_data(settings: Settings, work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    if settings.redis_url is None:
        _make_data_dir(settings)
    return asyncio.run(work())


def _ended(settings: Settings, run: Callable[[], int]) -> int:
    """Run, and return the exit code. A known failure to start is printed in one line."""
    from agentic.wire.connection import RedisAddressError, RedisStartError, StateUnavailable
    from agentic.wire.server import without_password

    try:
        return run()
    except SettingsError as error:
        return _refuse(error)
    except RedisAddressError as error:
        return _refuse(SettingsError([f"REDIS_URL: {error}"]))
    except RedisStartError as error:
        print(f"Can't start: {error}", file=sys.stderr)
    except StateUnavailable as error:
        place = without_password(settings.redis_url) if settings.redis_url else "its address"
        print(
            f"Can't start without Redis at {place}: {error}. Start that server, or correct REDIS_URL.",
            file=sys.stderr,
        )
    except OSError as error:
        if error.errno != errno.ENOSPC:
            log.exception("an unexpected error ended the program")
        else:
            print(
                f"Stopped: no space left for {error.filename or 'standard output'}. Free some space and start again.",
                file=sys.stderr,
            )
    except Exception:
        # The outermost edge: Python would print the traceback unredacted.
        log.exception("an unexpected error ended the program")
    return 1


def _refuse(problem: object) -> int:
    """Print the problem, and return the exit code."""
    print(problem, file=sys.stderr)
    return 2


def _start(prog: str, description: str, arguments: Sequence[str]) -> Settings | None:
    _keep_files_private()
    _with_version(prog, description).parse_args(arguments)
    settings = _settings()
    if settings is not None:
        _set_up_logging(settings)
    return settings


def _keep_files_private() -> None:
    """Let only the owner read the files that this program and its tools create: many contain people's words."""
    os.umask(PRIVATE_UMASK)


def _make_data_dir(settings: Settings) -> None:
    """Create the data folder, or Redis fails later, less clearly. Raises SettingsError; OSError for a full disk."""
    try:
        write_probe(settings.data_dir)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        problem = f"DATA_DIR: expected a folder that the bots can write to ({error.strerror or error})"
        raise SettingsError([problem]) from error


def _settings(*, local: bool = False, model: str | None = None) -> Settings | None:
    logging.basicConfig(format="Warning: %(message)s")  # for mistakes in persona files, until the settings choose a log
    try:
        settings = load_settings(process_environment(), local=local, model=model, fronts=read_fronts)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return None
    for warning in settings.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    return settings


def _log_start(settings: Settings) -> None:
    log.info("%s", version_line())
    from agentic.check.odd_settings import setting_warnings_here  # slow to import

    for warning in setting_warnings_here(settings):
        log.warning("%s", warning)


def _set_up_logging(settings: Settings) -> None:
    redact = Redactor(settings.secrets()).secrets
    set_up_logging(settings.log_level, style=settings.log_format, redact=redact)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("expected names of bots, such as claude,grok")
    return names


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    needs_local = options.once or options.scripted or options.model is not None or options.room is not None
    if needs_local and not options.local:
        parser.error("--once, --scripted, --room, and --model need --local")
    if options.room is not None and not 0 < len(options.room) <= MAX_TOPIC:
        parser.error(f"--room needs a topic of at most {MAX_TOPIC} characters: --room 'Is P equal to NP?'")
    if options.setup and (options.only or options.without):
        parser.error("--only and --without can't be used with --setup, which asks about each bot")
    if options.local and (options.only or options.without):
        parser.error("--only and --without can't be used with --local, which runs all four bots")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = _with_version("run_all.py", "Run the bots that have a token, and their coordinator.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--only", type=_names, default=(), metavar="NAMES", help="run only these bots, such as claude,grok"
    )
    which.add_argument("--without", type=_names, default=(), metavar="NAMES", help="run all bots except these")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--local", action="store_true", help="try it in this terminal, without Discord, tokens, or keys")
    what.add_argument("--check", action="store_true", help="check tokens, keys, channels, and Redis; posts nothing")
    what.add_argument(
        "--setup", action="store_true", help="ask for tokens, keys, and channels, check them, and write .env"
    )
    parser.add_argument(
        "--once", action="store_true", help="with --local: run one conversation, print a summary, and exit"
    )
    parser.add_argument(
        "--room",
        type=lambda text: " ".join(text.split()),
        metavar="TOPIC",
        help="with --local: let personas debate this in a room (with --once: a short debate, then exit)",
    )
    voices = parser.add_mutually_exclusive_group()
    voices.add_argument(
        "--model",
        metavar="NAME",
        help="with --local: use this model for all bots, such as ollama/llama3.3 (docs/models.md)",
    )
    voices.add_argument(
        "--scripted", action="store_true", help="with --local: use scripted lines, even if an API key is set"
    )
    return parser


def _with_version(prog: str, description: str) -> argparse.ArgumentParser:
    """Return a parser with --help and --version, which need no settings."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--version", action="version", version=version_line(), help="print the version and exit")
    return parser
