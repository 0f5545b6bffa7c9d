"""The command line of `python -m agentic.record replay`. It imports nothing heavy, for `--help`."""

from __future__ import annotations

import argparse
from pathlib import Path

from agent_config import Settings


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "replay",
        help="make recorded turns again, with another model or persona",
        description="Make recorded turns again with the same inputs, and show old and new answers beside each other."
        " Nothing is posted and no tool is run. Calls cost what they cost, within the day's budget.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--conversation", metavar="ID", help="all turns of this conversation")
    what.add_argument("--last", action="store_true", help="those of the newest conversation with a post")
    what.add_argument("--turn", metavar="AGENT/ID", type=_turn, help="this turn only, such as claude/m1234")
    parser.add_argument("--agent", metavar="NAME", help="with --conversation and --last: the turns of this agent only")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--model", metavar="NAME", help="ask this model, such as ollama/llama3.3 (docs/providers.md)")
    change.add_argument("--persona", metavar="FOLDER", type=Path, help="with the persona in this folder")
    parser.add_argument("--estimate", action="store_true", help="say what it costs at most, and call no model")
    parser.add_argument("--yes", action="store_true", help="do not ask, whatever it may cost")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--local", action="store_true", help="from the record of local mode (run_all.py --local)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace, settings: Settings) -> int:
    from agentic.replay.command import run

    return run(options, settings)


def _turn(text: str) -> tuple[str, str]:
    agent, _, turn_id = text.partition("/")
    if not (agent and turn_id):
        raise argparse.ArgumentTypeError("expected AGENT/ID, such as claude/m1234")
    return agent, turn_id
