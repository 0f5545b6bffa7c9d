"""A process died in the middle of a turn, and another one continues it."""

import asyncio

import pytest

from agentic.agent.events import InstructionEvent, MentionEvent, TurnEvent, read_saved_event, save_event
from agentic.agent.limits import read_under_way
from agentic.context.entries import Attachment, Entry, Speaker
from agentic.state.budgets import Caps
from agentic.turn.runner import TurnRegistry
from agentic.wire import keys
from agentic.wire.messages import Instruction
from tests.support.agent_scene import CALL, LOUNGE, Scene
from tests.support.doubles import ALICE, Clock, SceneState, http_error, message, settle


async def crashed(*, at, decision=None, mention=False, state=None, **fields):
    """A turn whose process dies at a checkpoint: while it thinks, posts, reacts or settles; then the next process."""
    first = await Scene(state=state).start()
    channel, stuck = first.channel(), asyncio.Event()
    answer = decision or {"text": "Hello."}
    if at == "thinking":
        first.answers(stuck.wait)
    else:
        first.answers(answer)
    if at == "posting":
        channel.hold = stuck
    if at == "reacting":
        channel.hold_reactions = stuck
    if at == "settling":
        first.state.bus.away = True
    await (first.ask() if mention else first.instruct(**fields))
    await first.aclose()
    first.state.bus.away = False
    first.state.crash()
    return first, await next_process(first)


async def next_process(first):
    scene = Scene(state=first.state)
    scene.channel().past = own_posts(first, scene)
    scene.channel().hold = None
    return await scene.start()


def own_posts(first, scene):
    me = scene.me
    posts = [
        message(scene.channel(), sent.id, sent.text or "", author=me.id, name=me.name, bot=True)
        for sent in first.channel().sent
    ]
    return posts[::-1]


async def end(*scenes):
    for scene in scenes:
        await scene.aclose()


async def test_a_call_that_was_cut_off_is_made_again_and_both_are_charged():
    first, scene = await crashed(at="thinking")
    estimate = read_under_way(first.state.blocking.client.hget(keys.turn("claude", "i1"), "under_way")).cost_usd
    result = await scene.instruct()
    assert (len(scene.cog.asked), scene.texts(), result.text) == (1, ["Hello."], "Hello.")
    assert (result.usage.calls, scene.spent()["ai_calls"]) == (2, 2)
    assert scene.spent()["total_cost"] == pytest.approx(CALL.cost_usd + estimate)
    await end(first, scene)


@pytest.mark.promise(49)
async def test_a_continued_turn_has_a_budget_like_any_other():
    state = SceneState(Clock(), caps=Caps(all=0.004))
    first, scene = await crashed(at="thinking", state=state, mention=True)
    scene.services.chats.transcripts.of(LOUNGE).add(first.services.chats.transcripts.of(LOUNGE).entries()[0])
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert (scene.cog.asked, [emoji for _, emoji in scene.channel().reacted]) == ([], ["💤"])
    assert scene.spent()["ai_calls"] == 1
    await end(first, scene)


@pytest.mark.promise(49)
async def test_what_a_resumed_turn_asks_of_its_model_is_put_aside_and_on_its_persons_account():
    state = SceneState(Clock(), caps=Caps(all=5.0))
    first, scene = await crashed(at="thinking", state=state, mention=True)
    stuck = asyncio.Event()
    scene.answers(stuck.wait)
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    uses = await state.uses()
    assert uses[f"person:{ALICE}"].reserved == uses["all"].reserved > 0.004, "two calls of 0.0023 dollars"
    stuck.set()
    await settle()
    uses = await state.uses()
    assert uses[f"person:{ALICE}"].spent == uses["all"].spent > 0.01
    await end(first, scene)


async def test_a_run_after_the_next_pays_for_both_calls_that_were_cut_off():
    first, second = await crashed(at="thinking")
    second.answers(asyncio.Event().wait)
    await second.instruct()
    await second.aclose()
    second.state.crash()
    third = await next_process(second)
    await third.instruct()
    assert third.spent()["ai_calls"] == 3
    await end(first, second, third)


@pytest.mark.promise(74)
async def test_an_answer_that_was_kept_is_posted_without_a_second_call_and_charged_once():
    first, scene = await crashed(at="posting")
    result = await scene.instruct()
    assert (scene.cog.asked, scene.texts(), result.text) == ([], ["Hello."], "Hello.")
    assert (result.usage.calls, scene.spent()["ai_calls"]) == (1, 1)
    await end(first, scene)


@pytest.mark.promise(74)
async def test_a_post_that_was_made_is_found_and_not_made_again():
    first, scene = await crashed(at="settling")
    result = await scene.instruct()
    assert (scene.cog.asked, scene.texts()) == ([], [])
    assert result.message_id == first.channel().sent[0].id
    assert scene.spent()["ai_calls"] == 1
    await end(first, scene)


async def test_where_the_past_cannot_be_read_the_post_goes_out_under_its_nonce_again():
    first, scene = await crashed(at="posting")
    scene.services.chats.transcripts.of(LOUNGE).is_complete = True
    scene.channel().wrong = [http_error(500)]
    await scene.instruct()
    nonces = [sent.options["nonce"] for sent in scene.channel().sent]
    assert len(nonces) == 1
    assert scene.channel().sent[0].options["enforce_nonce"]
    await end(first, scene)


async def test_of_several_parts_only_those_that_lack_are_posted():
    long = "\n\n".join(f"{letter * 1500}." for letter in "abc")
    first, scene = await crashed(at="settling", decision={"text": long})
    scene.channel().past = scene.channel().past[1:]  # the last one was not made
    result = await scene.instruct()
    assert [text[:1] for text in scene.texts()] == ["c"]
    assert result.message_id == first.channel().sent[0].id
    await end(first, scene)


async def test_the_same_words_of_an_earlier_turn_are_not_taken_for_the_post():
    first = await Scene().start()
    await first.instruct("i0")
    stuck = asyncio.Event()
    first.channel().hold = stuck
    await first.instruct("i1")
    await first.aclose()
    first.state.crash()
    scene = await next_process(first)
    assert len(scene.channel().past) == 1
    result = await scene.instruct("i1")
    assert [(sent.text, sent.id) for sent in scene.channel().sent] == [("Hello.", result.message_id)]
    await end(first, scene)


async def test_after_the_post_only_the_reaction_is_left_to_do():
    first, scene = await crashed(at="reacting", decision={"text": "Hello.", "react_emoji": "🔥"}, mention=True)
    assert [name for _, name in first.state.checkpoints] == ["answer", "posted"]
    scene.channel().past = []  # not even looked for
    scene.services.chats.transcripts.of(LOUNGE).add(first.services.chats.transcripts.of(LOUNGE).entries()[0])
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert (scene.cog.asked, scene.texts(), [emoji for _, emoji in scene.channel().reacted]) == ([], [], ["🔥"])
    assert len(scene.notices) == 1
    await end(first, scene)


async def test_a_mention_is_answered_by_the_process_that_comes_after():
    first, scene = await crashed(at="thinking", mention=True)
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert (scene.texts(), len(scene.cog.asked)) == (["Hello."], 1)
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert len(scene.texts()) == 1
    await end(first, scene)


async def test_an_instruction_is_continued_before_it_is_repeated():
    first, scene = await crashed(at="posting")
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert [result.text for result in scene.results] == ["Hello."]
    await scene.instruct()
    assert (len(scene.texts()), len(scene.results)) == (1, 2)
    await end(first, scene)


async def test_past_its_deadline_a_turn_is_ended_and_its_costs_are_booked():
    first, scene = await crashed(at="posting", deadline=None)
    scene.clock.now += 91
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert [(result.skipped, result.reason) for result in scene.results] == [(True, "deadline")]
    assert (scene.texts(), scene.spent()["ai_calls"]) == ([], 1)
    await end(first, scene)


LOOK = {"text": "Look.", "generate_image": True, "image_prompt": "a cat"}


async def test_a_picture_that_was_drawn_is_posted_by_the_next_process_and_charged_once():
    first, scene = await crashed(at="posting", decision=LOOK)
    result = await scene.instruct()
    assert (first.cog.drawn, scene.cog.drawn, scene.cog.asked) == (["a cat"], [], [])
    [sent] = scene.channel().sent
    assert [file.filename for file in sent.options["files"]] == ["picture.png"]
    assert (result.usage.pictures, scene.spent()["image_calls"]) == (1, 1)
    await end(first, scene)


@pytest.mark.parametrize("lost", ["never kept", "lost with Redis"])
async def test_a_picture_that_was_drawn_and_lost_is_drawn_again_and_both_are_charged(lost, monkeypatch):
    if lost == "never kept":
        monkeypatch.setattr("agentic.state.drawn_images.MAX_BYTES", 0)
    first, scene = await crashed(at="posting", decision=LOOK)
    first.state.blocking.client.delete(keys.turn_picture("claude", "i1"))
    result = await scene.instruct()
    assert (first.cog.drawn, scene.cog.drawn, scene.cog.asked) == (["a cat"], ["a cat"], [])
    assert (result.usage.pictures, scene.spent()["image_calls"]) == (2, 2)
    await end(first, scene)


async def test_a_conversations_last_turn_whose_call_was_lost_has_no_money_for_another():
    first, scene = await crashed(at="thinking", state=SceneState(Clock(), caps=Caps(all=0.004)))
    result = await scene.instruct()
    assert (result.skipped, result.reason, scene.cog.asked) == (True, "budget", [])
    await end(first, scene)


@pytest.mark.parametrize("at", ["posting", "reacting"])
async def test_a_conversations_last_turn_is_still_its_last_when_another_process_ends_it(at):
    decision = {"text": "Bye.", "react_emoji": "🔥", "react_to_message_id": 5} if at == "reacting" else None
    state = SceneState(Clock(), caps=Caps(all=0.004))
    first, scene = await crashed(at=at, decision=decision, state=state)
    result = await scene.instruct()
    assert (result.skipped, result.reason) == (False, "budget")
    assert all("last message" in prompt.text for prompt, _ in (*first.cog.asked, *scene.cog.asked))
    await end(first, scene)


async def test_a_turn_that_went_to_another_process_is_not_posted_and_stays_open_for_it():
    scene = await Scene().start()
    scene.answers(scene.state.take_over)
    assert await scene.instruct() is None
    assert scene.spent() == {}, "who takes it over pays for what was under way"
    assert (scene.texts(), await scene.state.turns.open_ids("claude")) == ([], ["i1"])
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert (scene.texts(), scene.spent()["ai_calls"]) == (["Hello."], 2)
    await end(scene)


async def test_a_turn_whose_lease_lapsed_is_continued_by_the_next_holder_also_the_same_process():
    scene = await Scene().start()

    async def lapse():
        scene.acts = False

    scene.answers(lapse)
    assert await scene.instruct() is None
    assert scene.texts() == []
    scene.acts = True
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert (scene.texts(), len(scene.cog.asked), scene.spent()["ai_calls"]) == (["Hello."], 1, 1)
    await end(scene)


async def test_one_that_does_not_hold_the_agent_takes_nothing_up():
    first, scene = await crashed(at="thinking")
    scene.acts = False
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert scene.cog.asked == []
    await end(first, scene)


async def test_a_plain_turn_keeps_its_answer_once_before_the_post_and_nothing_else():
    scene = await Scene().start()
    await scene.instruct()
    assert scene.state.checkpoints == [("i1", "answer")]
    await end(scene)


ASKED = Entry(5, Speaker(11, "Alice", "person"), "what\nnow?", 1.5, 4, (Attachment(1, "a.png", "https://x/a", 9),))
EVENTS = [
    MentionEvent.of(ASKED, channel_id=2**60, theme="casual", to_all=True, now=0.5),
    InstructionEvent.of(Instruction(instruction_id="i1", channel_id=3, topic="tea", deadline=9.5), 0.0),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.id)
def test_an_event_comes_back_as_it_was(event):
    begun = read_saved_event(save_event(event, 77))
    assert (begun.event, begun.after) == (event, 77)


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"mention": {"id": 3}}', '{"mention": null}', None])
def test_an_event_that_cannot_be_read_is_none(text):
    assert read_saved_event(text).event is None


def test_an_event_of_another_kind_is_not_saved():
    assert save_event(TurnEvent(id="x", channel_id=1, theme="casual", deadline=1.0), 0) == ""


async def test_a_kept_answer_that_cannot_be_read_is_asked_for_again():
    first, scene = await crashed(at="posting")
    first.state.blocking.client.hset(keys.turn("claude", "i1"), "answer", "{broken")
    await scene.instruct()
    assert (len(scene.cog.asked), scene.texts()) == (1, ["Hello."])
    book = TurnRegistry("claude", scene.state)
    assert book.begin("i1") == "new"
    await end(first, scene)


async def test_the_record_of_a_turn_that_nobody_can_go_on_with_has_what_it_posted_and_its_model():
    first, scene = await crashed(at="reacting", decision={"text": "Hello.", "react_emoji": "🔥"}, mention=True)
    del scene.client.channels[LOUNGE]
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    (record,) = scene.state.recorded
    assert (record.reason, record.posted) == ("unknown_channel", (first.channel().sent[0].id,))
    assert (record.model, record.cost_usd) == (CALL.model, CALL.cost_usd)
    await end(first, scene)
