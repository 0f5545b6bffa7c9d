"""The input of a model in a long conversation, and the share that a provider's cache has already; time to build it.

Four agents, thirty rounds; each sees the conversation as agentic.context lays it out. Characters are counted of
everything sent as text: system part, window, tail. What a call shares with the beginning of the same agent's previous
call is cached, the rest is new. Effective input is the new part and a tenth of the cached part, as providers charge it.
The public program that does the same job needs 2,974 characters a turn in this conversation.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC
from itertools import takewhile

from agent_config import AGENTS
from agentic.context.chat_layout import build_history, build_tail
from agentic.context.entries import Entry, Reaction, Speaker
from agentic.context.history import ChannelSource
from agentic.context.options import Options
from agentic.context.prompt import (
    Abilities,
    Identity,
    Place,
    PromptContext,
    TalkContext,
    Task,
    build_system,
    prepare_channel,
)
from agentic.context.window import Depth, WindowMemory, conversation_entries
from agentic.services.discord.view import DISCORD
from agentic.themes import THEMES, theme_named
from agentic.turn.form import form_for
from tests.benchmarks.stage import Bench
from tests.benchmarks.table import Row, median, milliseconds

ROUNDS = 30
MESSAGE = 110  # characters
WINDOW = 40  # messages
PAUSE = 25.0  # seconds between two messages
PUBLIC_PROGRAM = 2974
EFFECTIVE_SHARE = 0.65
NEW_SHARE = 0.15
CACHED_PRICE = 0.1
LARGE = 400
CHANNEL = 1_200_000_000_000_000_000
BEGAN = 1_795_000_000.0
TOPIC = "whether tea is soup"


@dataclass
class Count:
    """Characters of all calls of one conversation."""

    calls: int = 0
    read: int = 0
    cached: int = 0
    before: dict[str, str] = field(default_factory=dict)

    def add(self, agent: str, text: str) -> None:
        self.calls += 1
        self.read += len(text)
        self.cached += sum(1 for _ in takewhile(_same, zip(self.before.get(agent, ""), text, strict=False)))
        self.before[agent] = text

    @property
    def cached_share(self) -> float:
        return self.cached / self.read

    @property
    def effective(self) -> float:
        """New characters and a tenth of the cached ones, a call."""
        return (self.read - self.cached * (1 - CACHED_PRICE)) / self.calls


def _same(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


async def context(bench: Bench) -> list[Row]:
    """Count in all themes and report the most expensive one."""
    counts = {theme: conversation(theme) for theme in THEMES}
    dearest = max(counts, key=lambda theme: counts[theme].effective)
    worst = counts[min(counts, key=lambda theme: counts[theme].cached_share)]
    of_public = counts[dearest].effective / PUBLIC_PROGRAM
    return [
        Row(
            metric=f"input that is not a beginning sent before, {ROUNDS} rounds of {len(AGENTS)}",
            value=100 * (1 - worst.cached_share),
            unit="%",
            target=100 * NEW_SHARE,
            note=f"{worst.read / worst.calls:.0f} characters a call, {worst.cached_share:.1%} of them sent before",
        ),
        Row(
            metric="effective input for each turn of it",
            value=counts[dearest].effective,
            unit="characters",
            target=EFFECTIVE_SHARE * PUBLIC_PROGRAM,
            note=f"{of_public:.2f} of the public program's {PUBLIC_PROGRAM:,}; theme {dearest}, the most expensive",
        ),
        _speed(bench.size(200, 40)),
    ]


def conversation(theme: str) -> Count:
    """Let every agent speak once a round, in random order."""
    rng, count = random.Random(7), Count()
    memories = {agent: WindowMemory() for agent in AGENTS}
    said: list[Entry] = []
    for round_number in range(1, ROUNDS + 1):
        for agent in rng.sample(list(AGENTS), len(AGENTS)):
            now = BEGAN + PAUSE * (len(said) + 1)
            count.add(agent, _prompt(agent, theme, memories[agent], said, round_number, now))
            said.append(_message(agent, len(said) + 1, now, rng))
    return count


def _prompt(agent: str, theme: str, memory: WindowMemory, said: list[Entry], round_number: int, now: float) -> str:
    options = Options(max_messages=WINDOW)
    resolved = prepare_channel(ChannelSource(channel_id=CHANNEL, entries=said), options, (agent,))
    entries = conversation_entries(resolved.entries, [said[0].id] if said else [])
    window = memory.build(CHANNEL, "conversation", entries, now, Depth.of(options), whole=True)
    task = Task(
        trigger="round" if said else "starter",
        target=next((entry for entry in reversed(said) if entry.speaker.agent != agent), None),
        topic_ideas=theme_named(theme).topic_hints[:2] if not said else (),
    )
    topic, started = (TOPIC, said[0].id) if said else (None, None)
    talk = TalkContext(topic=topic, started_with=started, round_number=round_number)
    can_draw = AGENTS[agent].image_model is not None
    turn = PromptContext(
        me=_identity(agent),
        place=_place(theme),
        window=window,
        task=task,
        talk=talk,
        abilities=Abilities(
            contract=form_for(task, talk, can_draw=can_draw).on(DISCORD),
            can_draw=can_draw,
            searches=theme_named(theme).search or not said,
        ),
        now=now,
        timezone=UTC,
    )
    return "\n".join((build_system(turn), *(message.text for message in build_history(turn)), build_tail(turn)))


def _place(theme: str) -> Place:
    return Place(theme=theme_named(theme), membership=DISCORD.membership, heading=DISCORD.heading.format(theme))


def _identity(agent: str) -> Identity:
    others = tuple(spec.display_name for name, spec in AGENTS.items() if name != agent)
    return Identity(agent, AGENTS[agent].display_name, AGENTS[agent].personality, others)


def _message(agent: str, number: int, at: float, rng: random.Random) -> Entry:
    words = "".join(rng.choice("aeiourstlnm     ") for _ in range(MESSAGE - 2))
    speaker = Speaker(len(agent), AGENTS[agent].display_name, "agent", agent)
    return Entry(CHANNEL + number * (1 << 22), speaker, f"x{words}.", at)


def _speed(runs: int) -> Row:
    """From the entries of a transcript to messages for a model, nothing known from before."""
    said = list(_busy_channel())
    options = Options(max_messages=LARGE)
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        resolved = prepare_channel(ChannelSource(channel_id=CHANNEL, entries=said), options, ("claude",))
        window = WindowMemory().build(CHANNEL, "recent", resolved.entries, BEGAN + 1e5, Depth.of(options))
        task, talk = Task(trigger="round", target=said[-1]), TalkContext()
        turn = PromptContext(
            me=_identity("claude"),
            place=_place("story"),
            window=window,
            task=task,
            abilities=Abilities(contract=form_for(task, talk, can_draw=False).on(DISCORD)),
            now=BEGAN + 1e5,
            timezone=UTC,
        )
        build_system(turn), build_history(turn), build_tail(turn)
        times.append(time.perf_counter() - began)
    note = f"cold; {sum(len(entry.text) for entry in said):,} characters of text"
    return Row(metric=f"context of {LARGE} messages", value=milliseconds(median(times)), unit="ms", target=5, note=note)


def _busy_channel() -> Iterator[Entry]:
    """People and bots, of which every tenth speaks twice, with replies, reactions and messages of several lines."""
    rng, agents = random.Random(3), list(AGENTS)
    for number in range(1, LARGE + 1):
        entry = _message(agents[number % 4 if number % 10 else (number - 1) % 4], number, BEGAN + number, rng)
        if number % 3 == 0:
            entry = _by_person(entry, number)
        yield entry


def _by_person(entry: Entry, number: int) -> Entry:
    return Entry(
        id=entry.id,
        speaker=Speaker(number % 7 + 100, f"person-{number % 7}", "person"),
        text=f"{entry.text}\n{entry.text}",
        created_at=entry.created_at,
        reply_to=entry.id - (1 << 22),
        reactions=(Reaction("🔥", ("Claude",), 2),) if number % 9 == 0 else (),
    )
