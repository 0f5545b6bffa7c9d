"""`python -m agentic.record replay`: plan the turns, confirm what they may cost, make them again, show both answers."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent_config import Settings, SettingsError, load_settings, process_environment
from agentic.agent.persona import read_fronts
from agentic.llm.pricing import load as load_prices
from agentic.local.models import check_model
from agentic.local.settings import LOCAL
from agentic.process.logs import set_up_logging
from agentic.process.redaction import Redactor
from agentic.record.database import connect
from agentic.record.queries.posts import last_conversation
from agentic.record.queries.turns import calls_of_turn, turns_of_conversation, whole_turn
from agentic.replay.replay import (
    Answer,
    AskedModels,
    Comparison,
    NotReplayable,
    Prepared,
    RecordedTurn,
    Replayer,
    compare,
    describe_decision,
    totals,
)
from agentic.runtime.services import caps_of
from agentic.state.shared_state import SharedState
from agentic.text import counted, dollars
from agentic.wire.connection import RedisAddressError, RedisConnection, RedisStartError, StateUnavailable
from agentic.wire.server import locate_redis

NARROW = 90  # columns, below which two answers do not fit beside each other
Plan = list[tuple[RecordedTurn, Prepared | str]]  # a turn that is ready, or why it can't be replayed, in one line
ASKS_FROM = 0.01  # US dollars: a replay that may cost more is confirmed first


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "replay",
        help="replay recorded turns, with another model or persona",
        description="Replay recorded turns with the same inputs, and show old and new answers side by side. Nothing is"
        " posted and no tool runs. Calls cost money, within the daily budget.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--conversation", metavar="ID", help="all turns of this conversation")
    what.add_argument("--last", action="store_true", help="all turns of the newest conversation with a post")
    what.add_argument("--turn", metavar="AGENT/ID", type=_turn, help="this turn only, such as claude/m1234")
    parser.add_argument("--agent", metavar="NAME", help="with --conversation and --last: only this agent's turns")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--model", metavar="NAME", help="ask this model, such as ollama/llama3.3 (docs/models.md)")
    change.add_argument("--persona", metavar="FOLDER", type=Path, help="with the persona in this folder")
    parser.add_argument("--estimate", action="store_true", help="print the highest possible cost, and call no model")
    parser.add_argument("--yes", action="store_true", help="don't ask, whatever it may cost")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--local", action="store_true", help="from the record of local mode (run_all.py --local)")
    parser.set_defaults(run=run)


def _turn(text: str) -> tuple[str, str]:
    agent, _, turn_id = text.partition("/")
    if not (agent and turn_id):
        raise argparse.ArgumentTypeError("expected AGENT/ID, such as claude/m1234")
    return agent, turn_id


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Return 0 if it is done; 1 if a turn couldn't be replayed, or its model failed; 2 for a wrong command line."""
    try:
        named = load_settings(process_environment(), local=options.local, model=options.model, fronts=read_fronts)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    set_up_logging("ERROR", redact=Redactor(named.secrets()).secrets)  # what fails is shown with its turn
    if options.model is not None and not options.estimate and (problem := check_model(named, options.model).problem):
        print(problem, file=sys.stderr)
        return 2
    return asyncio.run(replay(options, named.with_(data_dir=settings.data_dir)))


async def replay(options: argparse.Namespace, settings: Settings) -> int:
    """Replay with these settings, whose agents have the requested model; return the exit code."""
    persona = _persona_folder(options, settings)
    if persona is not None and not persona.is_dir():
        print(f"--persona {options.persona}: no such folder, here or in {settings.personas_dir}", file=sys.stderr)
        return 2
    turns = await recorded_turns(settings.record_file, options)
    if not turns:
        print(f"The history has no such turn: {settings.record_file}", file=sys.stderr)
        return 1
    load_prices()
    models = AskedModels(settings, named=options.model is not None)
    try:
        replayer, plan = Replayer(settings, models, None, persona=persona), Plan()
        for turn in turns:
            try:
                plan.append((turn, replayer.prepare(turn)))
            except NotReplayable as error:
                plan.append((turn, str(error)))
        if options.estimate:
            _print_estimate(options, plan)
            return 0 if _costs(plan) else 1
        if not _is_confirmed(options, plan):
            return 2
        return await _replay_all(options, settings, models, persona, plan)
    finally:
        await models.aclose()


def _persona_folder(options: argparse.Namespace, settings: Settings) -> Path | None:
    """Return the folder that --persona names, which may be below PERSONAS_DIR."""
    given: Path | None = options.persona
    return given if given is None or given.is_dir() else settings.personas_dir / given


async def _replay_all(
    options: argparse.Namespace, settings: Settings, models: AskedModels, persona: Path | None, plan: Plan
) -> int:
    console = Console(highlight=False, soft_wrap=False)
    found: list[Comparison] = []
    try:
        async with open_state(settings, paid=sum(_costs(plan).values()) > 0) as state:
            replayer = Replayer(settings, models, state.limits.replay_costs if state else None, persona=persona)
            for turn, each in plan:
                found.append(compare(turn, problem=each) if isinstance(each, str) else await replayer.replay(each))
                if not options.json:
                    configured = settings.agents.get(turn.turn.agent)
                    show(console, found[-1], configured.display_name if configured else turn.turn.agent)
            for notice in state.limits.budgets.notices() if state else ():
                print(notice, file=sys.stderr)
    except (StateUnavailable, RedisStartError, RedisAddressError) as away:
        print(f"Redis is unavailable, so no budget can be reserved and no model was called: {away}", file=sys.stderr)
        return 1
    if options.json:
        replayed = [each for each in found if each.new is not None]
        sums = {"old": totals(each.old for each in replayed), "new": totals(each.new for each in replayed)}
        clean = Redactor(settings.secrets()).secrets
        print(clean(json.dumps({"turns": [asdict(each) for each in found], "totals": sums}, ensure_ascii=False)))
    else:
        console.rule(characters="─")
        print(summary(found))
    return 0 if all(each.new is not None and not each.problem for each in found) else 1


def _costs(plan: Plan) -> dict[str, float]:
    return {f"{turn.turn.agent}/{turn.turn.id}": each.most_usd for turn, each in plan if isinstance(each, Prepared)}


def _print_estimate(options: argparse.Namespace, plan: Plan) -> None:
    costs = _costs(plan)
    problems = {f"{turn.turn.agent}/{turn.turn.id}": each for turn, each in plan if isinstance(each, str)}
    if options.json:
        print(json.dumps({"most_usd": sum(costs.values()), "turns": costs, "problems": problems}))
        return
    for turn, problem in problems.items():
        print(f"{turn} can't be replayed: {problem}")
    print(f"{counted(len(costs), 'turn')}, at most {dollars(sum(costs.values()))}. No model was called.")


def _is_confirmed(options: argparse.Namespace, plan: Plan) -> bool:
    costs = _costs(plan)
    if options.yes or sum(costs.values()) <= ASKS_FROM:
        return True
    cost = f"{counted(len(costs), 'turn')} may cost {dollars(sum(costs.values()))} at most"
    if not sys.stdin.isatty():
        print(f"{cost}. Give --yes to replay them", file=sys.stderr)
        return False
    print(f"{cost}. Replay? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def recorded_turns(path: Path, options: argparse.Namespace) -> list[RecordedTurn]:
    async with connect(path) as db:
        if options.turn is not None:
            whole = await whole_turn(db, *options.turn)
            turns = [whole.turn] if whole is not None else []
        elif options.last:
            conversation = await last_conversation(db)
            turns = list(await turns_of_conversation(db, conversation.id)) if conversation is not None else []
        else:
            turns = list(await turns_of_conversation(db, options.conversation))
        wanted = [turn for turn in turns if options.agent in (None, turn.agent)]
        return [RecordedTurn.of(turn, await calls_of_turn(db, turn.agent, turn.id)) for turn in wanted]


@asynccontextmanager
async def open_state(settings: Settings, *, paid: bool) -> AsyncIterator[SharedState | None]:
    """Open the daily budgets if a call costs money. Raises RedisStartError, RedisAddressError."""
    if not paid:
        yield None
        return
    url = None if settings.data_dir.name == LOCAL else settings.redis_url
    async with (
        locate_redis(
            url, settings.data_dir, runtime_dir=settings.runtime_dir, use_default_port=settings.data_dir.name != LOCAL
        ) as place,
        RedisConnection(place.address) as link,
    ):
        yield SharedState(link, caps=caps_of(settings))


def show(console: Console, comparison: Comparison, name: str) -> None:
    round_number = f"round {comparison.round}" if comparison.round is not None else comparison.trigger
    title = f"{name} · {round_number} · {comparison.agent}/{comparison.turn_id}"
    console.rule(Text(title), align="left", characters="─")
    if comparison.new is None:
        console.print(Text(f"not replayed: {comparison.problem}", style="yellow"))
        return
    if comparison.same:
        console.print(_answer("Both", comparison.old, other=comparison.new))
        return
    old, new = _answer("Then", comparison.old), _answer("Now", comparison.new)
    if console.width < NARROW:
        console.print(old, new, sep="\n")
    else:
        table = Table(box=None, expand=True, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(ratio=1, overflow="fold")
        table.add_column(ratio=1, overflow="fold")
        table.add_row(old, new)
        console.print(table)
    if comparison.problem:
        console.print(Text(comparison.problem, style="yellow"))


def _answer(title: str, answer: Answer, *, other: Answer | None = None) -> Text:
    models = dict.fromkeys(filter(None, (answer.model, other.model if other else "")))
    used, used_now = (_format_use(totals([each])) for each in (answer, other))
    facts = [f"{title}: {', '.join(models)}", describe_decision(answer.decision), used]
    if other is not None and used_now != used:
        facts.append(f"now {used_now}")
    text = Text(" · ".join(facts), style="dim")
    return text.append(f"\n{answer.says}", style="not dim") if answer.says else text


def _format_use(sums: dict[str, float]) -> str:
    """Return "1,200 + 80 tokens, $0.0012"."""
    return f"{sums['input_tokens']:,.0f} + {sums['output_tokens']:,.0f} tokens, {dollars(sums['cost_usd'])}"


def summary(comparisons: Sequence[Comparison]) -> str:
    replayed = [comparison for comparison in comparisons if comparison.new is not None]
    old, new = totals(each.old for each in replayed), totals(each.new for each in replayed)
    same, failed = sum(each.same for each in replayed), sum(bool(each.problem) for each in replayed)
    missing = sum(comparison.pictures_missing for comparison in comparisons)
    pictures = (
        f" {counted(missing, 'picture')} of the prompts were not sent: pictures are not recorded." if missing else ""
    )
    return (
        f"{counted(len(replayed), 'turn')} replayed: {same} with the same answer to the byte, {failed} without an"
        f" answer; {len(comparisons) - len(replayed)} not replayed.\n"
        f"Then {_format_use(old)}; now {_format_use(new)}.{pictures}"
    )
