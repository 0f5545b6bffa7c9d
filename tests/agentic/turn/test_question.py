"""What a person adds while the question waits is one question with it."""

import asyncio
from dataclasses import replace

import pytest

from agentic.agent.events import MENTION_SECONDS, MentionEvent
from agentic.chat.transcript import Transcript
from agentic.context.entries import Attachment, Entry, Speaker
from agentic.inbox.inbox import debounce_left
from agentic.turn.view import is_deleted, question
from tests.support.agent_scene import Scene
from tests.support.doubles import BOB, LoopTime, settle, user

ALICE = Speaker(11, "Alice", "person")
FILE = Attachment(1, "a.png", "https://x/a", 9)


def entry(number, text="well?", *files):
    return Entry(number, ALICE, text, float(number), attachments=files)


def event(asked, *pieces, now=0.0):
    made = MentionEvent.of(asked, channel_id=1, theme="casual", to_all=False, now=now)
    return replace(made, pieces=pieces)


def test_a_question_is_its_messages_in_their_order_as_they_read_now():
    transcript = Transcript(1)
    transcript.add(entry(1, "what"))
    transcript.revise(entry(1, "what,"))
    whole = question(event(entry(2, "is", FILE), entry(1, "what"), entry(3, "that?")), transcript)
    assert (whole.id, whole.text, whole.attachments) == (2, "what,\nis\nthat?", (FILE,))


def test_a_question_is_taken_back_when_all_of_it_is():
    transcript, asked = Transcript(1), event(entry(2, "two"), entry(1, "one"))
    transcript.delete(2)
    assert (is_deleted(asked, transcript), question(asked, transcript).id) == (False, 1)
    transcript.delete(1)
    assert (is_deleted(asked, transcript), question(asked, transcript)) == (True, None)


def test_what_is_hidden_since_it_was_heard_is_taken_back():
    transcript, asked = Transcript(1), event(entry(2, "two"), entry(1, "one"))
    for part in (asked.asked, *asked.pieces):
        transcript.add(part)
    transcript.revise(entry(1, ".one"))
    assert (is_deleted(asked, transcript), question(asked, transcript).id) == (False, 2)
    transcript.react(2, "🙃", 11, "Alice")
    assert (is_deleted(asked, transcript), question(asked, transcript)) == (True, None)


@pytest.mark.parametrize(
    ("debounce", "heard", "now", "seconds"),
    [(5, 0, 0, 5), (5, 4, 6, 3), (5, 4, 9, 0), (5, 59, 59, 1), (0, 3, 3, 0), (5, 0, 600, -595)],
)
def test_a_question_waits_after_its_newest_message_and_never_eats_up_its_time(debounce, heard, now, seconds):
    asked = replace(event(entry(1)), heard_at=float(heard), deadline=MENTION_SECONDS)
    assert debounce_left(asked, debounce, now) == seconds


@pytest.fixture
async def busy():
    """A scene in whose lounge a first question is being answered; `busy.thought.set()` ends that."""
    scene = await Scene().start()
    scene.thought = asyncio.Event()
    scene.answers(scene.thought.wait)
    await scene.ask("first", author=BOB)
    yield scene
    await scene.aclose()


async def end(scene):
    scene.thought.set()
    await settle()


async def test_what_a_person_adds_while_the_question_waits_is_answered_with_it(busy):
    await busy.ask("what is")
    await busy.hear("the capital")
    await busy.hear("of France?")
    await end(busy)
    assert len(busy.cog.asked) == 2
    for part in ("what is", "the capital", "of France?"):
        assert part in busy.prompt.text


async def test_a_second_mention_of_the_same_person_is_one_turn_with_the_first_about_the_newer(busy):
    await busy.ask("one")
    newer = await busy.ask("two")
    await end(busy)
    assert len(busy.texts()) == 2
    assert busy.notices[-1].trigger_message_id == newer


async def test_another_person_and_another_channel_are_turns_of_their_own(busy):
    await busy.ask("one")
    await busy.ask("two", author=BOB)
    await busy.hear("three", author=BOB)
    await end(busy)
    assert len(busy.cog.asked) == 3


async def test_a_turn_that_has_begun_takes_nothing_more_in(busy):
    await busy.hear("more", author=BOB)
    await busy.ask("again", author=BOB)
    await end(busy)
    assert len(busy.cog.asked) == 2


async def test_what_is_said_to_somebody_else_is_not_part_of_the_question(busy):
    busy.directory.learn("grok", 99)
    await busy.ask("one")
    await busy.hear("good evening <@99>", mentions=[user(99, "Grok", bot=True)])
    await end(busy)
    assert "good evening" not in busy.prompt.text


async def test_the_same_message_heard_twice_is_taken_in_once(busy):
    await busy.ask("one")
    more = await busy.hear("two")
    await busy.hear("two", message_id=more)
    await end(busy)
    assert busy.prompt.text.count("two") == 1


async def test_a_piece_taken_back_is_left_out_and_all_of_them_cancel_the_turn(busy):
    first = await busy.ask("one")
    second = await busy.ask("two")
    transcript = busy.services.chats.transcripts.of(100)
    transcript.delete(second)
    await end(busy)
    assert (len(busy.cog.asked), "two" in busy.prompt.text, "one" in busy.prompt.text) == (2, False, True)
    assert first not in transcript.deleted


async def test_with_a_debounce_a_question_waits_until_nothing_comes_any_more():
    time = LoopTime()
    scene = await Scene(env={"MENTION_DEBOUNCE_SECONDS": "5"}).start()

    async def pass_by(seconds):
        for _ in range(int(seconds)):
            scene.clock.now += 1
            await time.run(1, step=1)

    await scene.ask("one")
    await pass_by(4)
    await scene.hear("two")
    await pass_by(4)
    assert scene.cog.asked == []
    await pass_by(2)
    assert len(scene.cog.asked) == 1
    assert "two" in scene.prompt.text
    await scene.aclose()
