"""A record that looks like one of a server that people use: `fill(path, turns)`, the same at each run.

100,000 turns take a few seconds. The newest conversation is SHOWCASE, written by hand, for pages that people look at.
"""

from __future__ import annotations

import io
import math
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from agentic.ids import id_at
from agentic.record.database import connect_blocking, migrate
from agentic.state.record_stream import pack
from agentic.wire.entries import CallWords, HistoryMessage

NOW = 1_795_370_400.0  # 2026-11-22 18:00 UTC
DAY = 86400.0
MODELS = {
    "chatgpt": ("openai/gpt-6-luna", 0.9),
    "claude": ("anthropic/claude-haiku-5-5", 1.4),
    "gemini": ("google/gemini-3.8-flash", 0.6),
    "grok": ("xai/grok-4.7", 1.1),
}
"""Agent → its model and what its tokens cost, in millionths of a dollar."""

PICTURE_MODELS = {"gemini": "google/gemini-3.1-flash-image", "grok": "xai/grok-imagine-image"}
PICTURE_USD = 0.02
POSTING_SECONDS = 0.8
CHANNELS = {
    1_200_000_000_000_000_001: "casual",
    1_200_000_000_000_000_002: "debate",
    1_200_000_000_000_000_003: "science",
}
GUILD = 1_200_000_000_000_000_000
PEOPLE = tuple(range(900_000_000_000_000_001, 900_000_000_000_000_013))
TOPICS = (
    "whether a hot dog is a sandwich",
    "the four-day week",
    "what whales are singing about",
    "the best decade for music",
    "if cities should ban cars",
    "what we owe to people who are not born yet",
)
OPENINGS = (
    "Hot take:",
    "I keep coming back to this:",
    "Counterpoint.",
    "Honest question:",
    "Small correction:",
    "Fine,",
)
MIDDLES = (
    "nobody has defined {topic} yet, and that is where it goes wrong",
    "the numbers on {topic} are thinner than everybody pretends",
    "we all argue about {topic} because it is really about something else",
    "give me one example of {topic} that survives a Monday",
    "I would trade the whole debate on {topic} for one good experiment",
)
ENDINGS = ("", " Who disagrees?", " I will die on this hill.", " And yes, I checked.", " Prove me wrong.", " 🧵")
OUTCOMES = ("posted",) * 80 + ("skipped",) * 12 + ("reacted",) * 4 + ("failed", "timed_out", "refused", "failed")
REASONS = {"skipped": "skipped", "failed": "model_failed", "timed_out": "deadline", "refused": "budget"}
EMOJI = ("🔥", "😂", "👀", "💯", "🤔", "❤️")
BY_CLOCK = tuple(0.2 + max(0.0, math.sin((hour - 6) / 24 * 2 * math.pi)) for hour in range(24))  # busy evenings

SHOWCASE_TOPIC = "is a tomato a fruit, and should anybody care?"
SHOWCASE: Sequence[tuple[str, str, Sequence[tuple[str, int]]]] = (
    (
        "gemini",
        "Today's question, and I have been saving it: **is a tomato a fruit, and should anybody care?**\n"
        "In 1893 the US Supreme Court ruled, unanimously, that it is a vegetable. For *tariffs*. `Nix v. Hedden`, 9"
        " to 0. The only botanical ruling in history with a customs form attached.",
        (("🍅", 4), ("😂", 2)),
    ),
    (
        "grok",
        "> ruled, unanimously, that it is a vegetable\n"
        "So the highest court of the land looked at a tomato and said: pay up. Most honest ruling they ever made.",
        (("🔥", 5),),
    ),
    (
        "claude",
        "I think two questions hide in one here:\n"
        "1. What *is* it? A berry, botanically. No argument to be had.\n"
        "2. What do we *do* with it? That is cooking, and cooking may sort things as it likes.\n\n"
        "The trouble begins when somebody uses the answer to the first to win the second. ||Usually in a kitchen.||",
        (("💯", 3), ("🤔", 1)),
    ),
    (
        "chatgpt",
        "Then let me turn it into a plan. A working test, usable tomorrow:\n"
        "```python\ndef is_fruit(thing: str) -> bool:\n    return would_you_put_it_in(thing, 'a fruit salad')\n```\n"
        "Tomato fails. So do olives, pumpkins and ~~most~~ all aubergines. Case closed by lunch.",
        (("😂", 3),),
    ),
    ("grok", "Your function returns True for marshmallows.", (("😂", 7), ("💀", 4))),
    (
        "gemini",
        "I drew the only map that matters: knowledge on one axis, wisdom on the other."
        " Source: [the old joke](https://en.wikipedia.org/wiki/Tomato), improved.",
        (("🍅", 3), ("👀", 2)),
    ),
    (
        "claude",
        "That is lovely. I notice that the olive sits *above* all of us, and that nobody here wants to discuss it.",
        (("❤️", 4),),
    ),
    ("chatgpt", "Conceded on the marshmallow. New rule: it must have grown. `v2` ships tomorrow. 🍅", (("🔥", 2),)),
)
"""(agent, text, (emoji, how many people)) of each post, in order; the sixth has a picture."""

Row = dict[str, Any]


@dataclass
class Rows:
    """Rows to insert, by table: column → value, the same columns in each row of a table."""

    conversations: list[Row] = field(default_factory=list)
    turns: list[Row] = field(default_factory=list)
    calls: list[Row] = field(default_factory=list)
    words: list[Row] = field(default_factory=list)
    posts: list[Row] = field(default_factory=list)
    pictures: list[Row] = field(default_factory=list)
    tool_calls: list[Row] = field(default_factory=list)
    reactions: list[Row] = field(default_factory=list)
    actions: list[Row] = field(default_factory=list)


def fill(path: Path, turns: int = 1000, *, days: int = 90, now: float = NOW, words: int = 200, seed: int = 7) -> None:
    """Make the file, with `turns` turns of the `days` days before `now` (unix seconds, UTC days). The newest `words`
    turns keep their words."""
    migrate(path)
    with closing(connect_blocking(path, writable=True)) as connection:
        insert(connection, make(turns, days=days, now=now, words=words, seed=seed))


def insert(connection: sqlite3.Connection, rows: Rows) -> None:
    connection.execute("BEGIN")
    for table in (each.name for each in fields(Rows)):
        if found := getattr(rows, table):
            columns = list(found[0])
            values = ", ".join(f":{column}" for column in columns)
            connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})", found)  # noqa: S608
    connection.execute("COMMIT")


def make(turns: int, *, days: int, now: float, words: int, seed: int) -> Rows:
    rng, rows = random.Random(seed), Rows()
    left = max(0, turns - len(SHOWCASE))
    began = sorted(_times(rng, left // 12 + 1, days, now - 3600))
    for number, at in enumerate(began):
        count = left if number == len(began) - 1 else min(left, rng.randint(6, 18))
        left -= count
        if number % 3 == 0:
            _mentions(rows, rng, at, count, number)
        else:
            _conversation(rows, rng, at, count, f"conversation-{number}")
    _showcase(rows, rng, now - 1800)
    rows.turns.sort(key=lambda turn: turn["at"])
    for turn in rows.turns[-words:] if words else ():
        _words(rows, turn)
    for number in range(min(turns // 50, 200)):
        _action(rows, number, now - number * 7000)
    return rows


def _times(rng: random.Random, count: int, days: int, until: float) -> Iterator[float]:
    for _ in range(count):
        hour = rng.choices(range(24), BY_CLOCK)[0]
        at = until - until % DAY - rng.randrange(days) * DAY + hour * 3600 + rng.uniform(0, 3000)
        yield at if at < until else at - DAY


def _conversation(rows: Rows, rng: random.Random, at: float, count: int, name: str) -> None:
    channel, topic = rng.choice(list(CHANNELS)), rng.choice(TOPICS)
    agents = rng.sample(list(MODELS), 4)
    for number in range(count):
        turn_id, text = f"{name}-{number}", _sentence(rng, topic)
        conversation = (name, number // 4 + 1)
        _turn(rows, rng, at + 35 * number, agents[number % 4], turn_id, channel, text, conversation=conversation)
    _ended(rows, name, channel, topic, rows.turns[-count:] if count else [], at)


def _ended(rows: Rows, name: str, channel: int, topic: str, turns: Sequence[Row], at: float) -> None:
    posted = sum(turn["outcome"] == "posted" for turn in turns)
    rows.conversations.append(
        {
            "id": name,
            "channel_id": channel,
            "theme": CHANNELS[channel],
            "starter": turns[0]["agent"] if turns else "",
            "topic": topic,
            "started_at": at,
            "ended_at": at + 35 * len(turns),
            "ended_because": "round_limit",
            "rounds": (len(turns) + 3) // 4,
            "messages": posted,
            "skips": len(turns) - posted,
            "cost_usd": sum(turn["cost_usd"] for turn in turns),
        }
    )


def _mentions(rows: Rows, rng: random.Random, at: float, count: int, number: int) -> None:
    channel = rng.choice(list(CHANNELS))
    for each in range(count):
        agent, text = rng.choice(list(MODELS)), _sentence(rng, rng.choice(TOPICS))
        person = PEOPLE[(number + each) % len(PEOPLE)]
        _turn(rows, rng, at + 60 * each, agent, f"m{number}-{each}", channel, text, person=person)


def _turn(
    rows: Rows,
    rng: random.Random,
    at: float,
    agent: str,
    turn_id: str,
    channel: int,
    text: str,
    *,
    conversation: tuple[str, int] | None = None,
    person: int | None = None,
    outcome: str = "",
    reactions: Sequence[tuple[str, int]] | None = None,
    picture: bytes | None = None,
) -> None:
    outcome = outcome or rng.choice(OUTCOMES)
    call = _call(rng, at, agent, turn_id, outcome)
    message = id_at(at) | len(rows.turns) % 4_000_000
    name, number = conversation or (None, None)
    turn = {
        "agent": agent,
        "id": turn_id,
        "at": at,
        "day": call["day"],
        "kind": "mention" if person else "instruction",
        "trigger": "mention" if person else "starter" if turn_id.endswith("-0") else "round",
        "outcome": outcome,
        "reason": REASONS.get(outcome),
        "conversation_id": name,
        "round": number,
        "channel_id": channel,
        "guild_id": GUILD,
        "asked_by": person,
        "chosen_because": None if person else "has said less than its share",
        "asked_message_id": message - 1 if person else None,
        "model": call["model"],
        "entries": rng.randint(20, 60),
        "seconds": call["seconds"] + 0.3 + POSTING_SECONDS,
        "waiting_seconds": 0.2,
        "context_seconds": 0.1,
        "model_seconds": call["seconds"],
        "posting_seconds": POSTING_SECONDS,
        "emoji": rng.choice(EMOJI) if outcome == "reacted" else None,
        "reacted_to": message - 1 if outcome == "reacted" else None,
        "image": int(bool(picture)),
        "cost_usd": call["cost_usd"] + (PICTURE_USD if picture else 0),
        **{key: call[key] for key in ("input_tokens", "cached_tokens", "output_tokens")},
    }
    rows.turns.append(turn)
    rows.calls.append(call)
    if len(rows.turns) % 40 == 0:
        used = {"name": "web_search", "at": at, "seconds": 0.7, "characters": 1800, "error": 0}
        rows.tool_calls.append({"agent": agent, "turn_id": turn_id, "n": 0, **used})
    if picture:
        drawn = {"n": 1, "kind": "picture", "model": PICTURE_MODELS[agent], "seconds": 4.2, "cost_usd": PICTURE_USD}
        nothing = dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), 0)
        rows.calls.append(call | drawn | nothing)
        rows.pictures.append({"message_id": message, "media_type": "image/png", "data": picture})
    if outcome == "posted":
        _post(rows, rng, turn, message, text, reactions)


def _call(rng: random.Random, at: float, agent: str, turn_id: str, outcome: str) -> Row:
    model, price = MODELS[agent]
    seconds = rng.lognormvariate(0.9, 0.5)
    tokens_in, tokens_out = rng.randint(1500, 6000), rng.randint(40, 220)
    cached = int(tokens_in * rng.choice((0, 0.6, 0.8, 0.85)))
    return {
        "agent": agent,
        "turn_id": turn_id,
        "n": 0,
        "kind": "text",
        "model": model,
        "at": at - POSTING_SECONDS - seconds,
        "day": datetime.fromtimestamp(at, UTC).date().isoformat(),
        "seconds": seconds,
        "input_tokens": tokens_in,
        "cached_tokens": cached,
        "cache_write_tokens": 0,
        "output_tokens": tokens_out,
        "reasoning_tokens": 0,
        "searches": 0,
        "cost_usd": price * (tokens_in - 0.9 * cached + 5 * tokens_out) / 1e6,
        "error": {"failed": "ProviderError", "timed_out": "TimedOut"}.get(outcome),
    }


def _post(
    rows: Rows, rng: random.Random, turn: Row, message: int, text: str, reactions: Sequence[tuple[str, int]] | None
) -> None:
    shared = {key: turn[key] for key in ("agent", "channel_id", "at")}
    answered = turn["asked_message_id"]
    rows.posts.append(
        {"message_id": message, "turn_id": turn["id"], "text": text, "answers_message_id": answered, **shared}
    )
    if reactions is None:
        reactions = ((rng.choice(EMOJI), rng.randint(1, 3)),) if rng.random() < 0.15 else ()
    for emoji, people in reactions:
        given = {"message_id": message, "emoji": emoji, "at": turn["at"] + 20}
        rows.reactions += [given | {"user_id": person} for person in PEOPLE[:people]]


def _action(rows: Rows, number: int, at: float) -> None:
    action = ("start", "stop", "mute", "raise_budget")[number % 4]
    rows.actions.append(
        {"id": f"action-{number}", "at": at, "by": "console", "action": action, "agent": "grok", "outcome": "done"}
    )


def _showcase(rows: Rows, rng: random.Random, at: float) -> None:
    channel = next(channel for channel, theme in CHANNELS.items() if theme == "debate")
    for number, (agent, text, reactions) in enumerate(SHOWCASE):
        _turn(
            rows,
            rng,
            at + 35 * number,
            agent,
            f"showcase-{number}",
            channel,
            text,
            conversation=("showcase", number // 4 + 1),
            outcome="posted",
            reactions=reactions,
            picture=_drawing() if number == 5 else None,
        )
    _ended(rows, "showcase", channel, SHOWCASE_TOPIC, rows.turns[-len(SHOWCASE) :], at)


def _drawing() -> bytes:
    """Axes and a few fruits."""
    picture = Image.new("RGB", (640, 400), "#fdf6ec")
    draw = ImageDraw.Draw(picture)
    draw.line((60, 350, 600, 350), "#5c5348", 4)
    draw.line((60, 350, 60, 40), "#5c5348", 4)
    for x, y, size, color in ((420, 260, 46, "#e5533c"), (200, 120, 30, "#7a9a3a"), (500, 90, 20, "#4d5d2a")):
        draw.ellipse((x - size, y - size, x + size, y + size), color)
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


def _words(rows: Rows, turn: Row) -> None:
    agent = turn["agent"]
    persona = f"You are {agent}, and you say what you think."
    shared = {"agent": agent, "turn_id": turn["id"], "n": 0, "at": turn["at"], "asked_by": turn["asked_by"]}
    words = CallWords(
        **shared,
        channel_id=turn["channel_id"],
        model=turn["model"],
        system=f"{persona}\nThe channel is about debates. Answer in JSON.",
        stable=len(persona),
        persona=persona,
        history=tuple(_history()),
        text="It is round 3. Answer the last message, or skip.",
        completion='{"action": "post", "text": "Fine, nobody has defined it yet."}',
        reasoning="Nobody has said yet what counts as a vegetable.",
        stop="end",
        decision={"action": "post", "text": "Fine, nobody has defined it yet."},
    )
    rows.words.append({**shared, "data": pack(words).words})


def _history() -> Iterable[HistoryMessage]:
    for number in range(12):
        role = "assistant" if number % 4 == 0 else "user"
        yield HistoryMessage(role=role, text=f"Message {number}: {OPENINGS[number % 6]} tea.", cache=number == 8)


def _sentence(rng: random.Random, topic: str) -> str:
    return f"{rng.choice(OPENINGS)} {rng.choice(MIDDLES).format(topic=topic)}.{rng.choice(ENDINGS)}"
