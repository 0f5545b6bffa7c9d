import pytest

from agent_cogs.events import InstructionEvent, MentionEvent
from agent_cogs.money import (
    AFTER_DEADLINE,
    FRAME_CHARACTERS,
    MAX_PICTURES,
    PICTURE_TOKENS,
    Tariff,
    prompt_tokens,
    wish_of,
)
from agent_context.entries import Attachment, Entry, Speaker
from agent_discord.directory import Directory
from agent_discord.transcript import Transcripts
from agent_protocol.messages import HistoryEntry, Instruction

ALICE = Speaker(11, "Alice", "person")
LUNA = Tariff("openai", "gpt-6-luna", "gpt-image-2.6-flare")


def entry(number, text="x" * 340, pictures=0):
    files = tuple(Attachment(n, "cat.png", "", 1, "image/png") for n in range(pictures))
    return Entry(number, ALICE, text, 0.0, attachments=files)


def transcript(*entries):
    made = Transcripts(Directory()).of(1)
    for each in entries:
        made.add(each)
    made.whole = True
    return made


def instruction(**fields):
    return InstructionEvent.of(Instruction(instruction_id="i1", channel_id=1, **fields), 0.0)


def test_a_prompt_is_its_frame_and_the_messages_of_the_window():
    entries = [entry(n) for n in range(5)]
    assert prompt_tokens(entries, ["y" * 40], window=5, whole=True) == (FRAME_CHARACTERS + 5 * 400 + 100) // 4


def test_of_a_long_channel_only_what_is_shown_counts():
    event, few = instruction(), transcript(*(entry(n) for n in range(5)))
    many = transcript(*(entry(n) for n in range(100)))
    assert wish_of(event, "round", LUNA, many, 5).estimate == wish_of(event, "round", LUNA, few, 5).estimate > 0


def test_what_was_not_read_yet_counts_all_the_same():
    assert prompt_tokens([], (), window=40, whole=False) == (FRAME_CHARACTERS + 40 * 200) // 4


def test_pictures_count_up_to_those_that_are_shown():
    entries = [entry(n, "", pictures=3) for n in range(3)]
    plain = prompt_tokens([entry(n, "") for n in range(3)], (), window=40, whole=True)
    assert prompt_tokens(entries, (), window=40, whole=True) == plain + MAX_PICTURES * PICTURE_TOKENS


def test_a_wish_names_the_person_who_called_and_ends_after_the_deadline():
    event = MentionEvent.of(entry(5), channel_id=1, theme="casual", to_all=False, now=100.0)
    wish = wish_of(event, "mention", LUNA, transcript(entry(5)), 40)
    assert (wish.turn_id, wish.kind, wish.person_id, wish.message_id) == ("m5", "mention", 11, 5)
    assert wish.until == event.deadline + AFTER_DEADLINE
    assert wish.estimate == pytest.approx((8400 / 4 * 0.1 + 1000 * 0.5) / 1e6)


@pytest.mark.parametrize(
    ("trigger", "theme", "kind", "searches"),
    [
        ("starter", "casual", "opening", 1),
        ("round", "casual", "round", 0),
        ("round", "debate", "round", 1),
        ("reactive", "casual", "joining", 0),
    ],
)
def test_a_scheduled_turn_is_nobodys_and_counts_a_search_where_it_may_search(trigger, theme, kind, searches):
    wish = wish_of(instruction(channel_theme=theme), trigger, LUNA, transcript(), 40)
    assert (wish.kind, wish.person_id, wish.message_id) == (kind, None, None)
    assert wish.estimate == pytest.approx((8000 / 4 * 0.1 + 1000 * 0.5) / 1e6 + searches * 0.01)


def test_the_conversation_that_an_instruction_brings_is_read_too():
    history = (HistoryEntry(agent="grok", text="z" * 40_000),)
    short = wish_of(instruction(), "round", LUNA, transcript(), 40).estimate
    assert wish_of(instruction(conversation_history=history), "round", LUNA, transcript(), 40).estimate > 2 * short


def test_a_free_model_puts_nothing_aside():
    free = Tariff("nobody", "nothing", None, free=True)
    assert wish_of(instruction(), "starter", free, transcript(), 40).estimate == 0
    assert free.picture() == 0
