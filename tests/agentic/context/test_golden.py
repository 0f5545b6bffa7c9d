"""The same channel over forty turns: between two cuts each prompt begins with all of the one before, up to its tail."""

import random
from dataclasses import replace

import pytest

from agentic.context.blocks import ToolLine
from agentic.context.chat_layout import build_history, build_tail
from agentic.context.entries import Reaction
from agentic.context.history import ChannelSource
from agentic.context.options import Options
from agentic.context.prefill_layout import build_prefill
from agentic.context.prompt import build_system, prepare_channel
from agentic.context.window import Depth, WindowMemory
from agentic.llm.types import Picture
from tests.support.said import ALICE, BOB, CLAUDE, GROK, ME, PICTURE, context, said

TURNS = 40


class LivelyChannel:
    """Between two turns people and bots speak, in several parts too, edit, react, hide by text, and post pictures."""

    def __init__(self, seed):
        self.rng, self.entries, self.tools = random.Random(seed), [], []

    def go_on(self):
        for _ in range(self.rng.randint(1, 4)):
            speaker = self.rng.choice((ALICE, BOB, GROK, CLAUDE))
            for _ in range(self.rng.choice((1, 1, 3)) if speaker.agent else 1):
                self.speak(speaker)
        for _ in range(self.rng.randint(0, 3)):
            self.change(self.rng.randrange(max(0, len(self.entries) - 12), len(self.entries)))

    def speak(self, speaker):
        number = len(self.entries) + 1
        more = {"attachments": (replace(PICTURE, id=number),)} if self.rng.random() < 0.1 else {}
        if self.rng.random() < 0.2 and number > 3:
            more["reply_to"] = number - 2
        hidden = self.rng.random() < 0.1
        text = ".aside" if hidden else f"words {number}\nand [msg:{number}] more"
        self.entries.append(said(number, speaker, text, hidden=hidden, created_at=1e6 + 30 * number, **more))
        if self.rng.random() < 0.1:
            self.tools.append(ToolLine(number, f"search {number}"))

    def change(self, index):
        entry = self.entries[index]
        if self.rng.random() < 0.5:
            entry = replace(entry, reactions=(*entry.reactions[:2], Reaction("🔥", ("Bob",), self.rng.randint(1, 3))))
        elif not entry.hidden:
            entry = replace(entry, text=self.rng.choice((f"{entry.text} and more", f"other {index}")), edited=True)
        self.entries[index] = entry


def chat(turn, pictures):
    history = build_history(turn, pictures)
    texts = [f"{message.text}{len(message.pictures) or ''}" for message in history]
    return "\n".join((build_system(turn), *texts)), build_tail(turn), texts[:-1]


def prefill(turn, pictures):
    made = build_prefill(turn, pictures)
    text = "".join((made.system, *(f"{m.text}{len(m.pictures) or ''}" for m in made.history), made.prefill))
    tail = f"\n\n{made.own}:"
    return text.removesuffix(tail), tail, [message.text for message in made.history[:-1]]


@pytest.mark.parametrize("layout", [chat, prefill])
@pytest.mark.parametrize("seed", range(6))
def test_between_cuts_each_prompt_begins_with_the_whole_of_the_one_before_up_to_its_tail(layout, seed):
    channel, memory, options = LivelyChannel(seed), WindowMemory(), Options(max_messages=30, marker_depth=2)
    before, parts_before, cuts, held = "", [], 0, 0
    for number in range(TURNS):
        channel.go_on()
        found = prepare_channel(ChannelSource(channel_id=7, entries=channel.entries), options, ("claude",))
        window = memory.build(7, "recent", found.entries, 1e6 + 300 * number, Depth.of(options), tools=channel.tools)
        pictures = {e.id: (Picture(b"x", "image/png"),) for e in channel.entries if e.attachments}
        turn = context(window, me=ME, now=1e6 + 300 * number, round_number=number)
        stable, tail, parts = layout(turn, pictures)
        assert tail
        if window.fresh:
            cuts += 1
        else:
            held += 1
            assert stable.startswith(before)
            assert parts[: len(parts_before)] == parts_before
        before, parts_before = stable, parts
    assert cuts >= 2
    assert held >= 30


def test_the_first_message_of_a_channel_is_followed_by_the_second():
    memory, options = WindowMemory(), Options()
    for count in (1, 2):
        entries = [said(number) for number in range(1, count + 1)]
        history = build_history(context(memory.build(7, "recent", entries, 2.0, Depth.of(options))))
    assert [message.text for message in history] == ["[msg:1 just now] Alice: text 1", "[msg:2 just now] Alice: text 2"]
