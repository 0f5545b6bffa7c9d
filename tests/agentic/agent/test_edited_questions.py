"""A question that is changed while the bot thinks about it."""

import asyncio

import pytest

from tests.support.agent_scene import BOTS_ROLE, LOUNGE, Scene
from tests.support.doubles import settle, user_payload


@pytest.fixture
async def scene(request):
    made = await Scene(**getattr(request, "param", {})).start()
    yield made
    await made.aclose()


async def asks(scene, text="is tee soup?", **more):
    """Alice asks, and the model thinks until the event is set; the question's id."""
    thought = asyncio.Event()
    scene.answers(thought.wait, {"text": "Yes, and no."})
    return await scene.ask(text, **more), thought


async def ends(thought):
    thought.set()
    await settle()


@pytest.mark.promise(88)
async def test_it_is_asked_once_more_as_it_reads_now_and_answered_once(scene):
    asked, thought = await asks(scene)
    await scene.edit(asked, f"<@{scene.me.id}> is tea soup?")
    await ends(thought)
    assert scene.texts() == ["Yes, and no."]
    assert len(scene.cog.asked) == 2
    assert "is tea soup?" in scene.prompt.text
    assert "is tee soup?" not in scene.prompt.text.rpartition("msg:")[2]


@pytest.mark.promise(88)
async def test_one_that_is_changed_again_and_again_is_asked_at_most_twice(scene):
    second = asyncio.Event()
    asked, thought = await asks(scene)
    scene.answers(second.wait)
    await scene.edit(asked, f"<@{scene.me.id}> is tea soup?")
    await ends(thought)
    await scene.edit(asked, f"<@{scene.me.id}> is soup tea?")
    await ends(second)
    assert (len(scene.cog.asked), scene.texts()) == (2, ["Hello."])


@pytest.mark.promise(88)
async def test_one_whose_mention_is_edited_out_is_withdrawn(scene):
    asked, thought = await asks(scene)
    await scene.edit(asked, "is tea soup?")
    await ends(thought)
    assert (len(scene.cog.asked), scene.texts(), scene.channel().reacted) == (1, [], [])


async def test_one_whose_mention_is_edited_out_while_it_waits_is_never_asked(scene):
    _, thought = await asks(scene)
    waits = await scene.ask("and this?")
    await scene.edit(waits, "never mind")
    await ends(thought)
    assert (len(scene.cog.asked), len(scene.texts())) == (1, 1)


async def test_an_edit_that_changes_no_word_costs_nothing(scene):
    asked, thought = await asks(scene)
    await scene.edit(asked, f"<@{scene.me.id}> is tee soup?")
    await ends(thought)
    assert (len(scene.cog.asked), scene.texts()) == (1, ["Hello."])


async def test_a_reply_calls_whatever_it_says(scene):
    second = asyncio.Event()
    scene.answers(second.wait, {"text": "Yes, and no."})
    mine = {"id": "5", "author": user_payload(scene.me.id, "Claude", bot=True), "content": "tee is soup"}
    plain = {"attachments": [], "embeds": [], "edited_timestamp": None, "type": 0, "pinned": False}
    parent = {**plain, **mine, "mention_everyone": False, "tts": False, "mentions": [], "mention_roles": []}
    reply = {"type": 19, "message_reference": {"message_id": "5", "channel_id": str(LOUNGE)}}
    asked = await scene.hear(f"<@{scene.me.id}> no!", mentions=[scene.me], referenced_message=parent, **reply)
    await settle()
    await scene.edit(asked, "no, it is not", referenced_message=parent, **reply)
    await ends(second)
    assert (len(scene.cog.asked), scene.texts()) == (2, ["Yes, and no."])


async def test_a_changed_question_without_time_for_another_call_gets_the_first_answer(scene):
    asked, thought = await asks(scene)
    await scene.edit(asked, f"<@{scene.me.id}> is tea soup?")
    scene.clock.now += scene.settings.turn_timeout_seconds - 5
    await ends(thought)
    assert (len(scene.cog.asked), scene.texts()) == (1, ["Hello."])


async def test_a_changed_question_without_money_for_another_call_gets_the_first_answer(scene, monkeypatch):
    asked, thought = await asks(scene)
    await scene.edit(asked, f"<@{scene.me.id}> is tea soup?")

    async def no_more(*_):
        return False

    monkeypatch.setattr(type(scene.cog.host.agent.limits), "reserve_more", no_more)
    await ends(thought)
    assert (len(scene.cog.asked), scene.texts()) == (1, ["Hello."])


async def test_who_called_all_bots_and_takes_the_role_out_again_has_withdrawn(scene):
    thought = asyncio.Event()
    scene.answers(thought.wait)
    asked = await scene.hear(f"<@&{BOTS_ROLE}> hello", mention_roles=[str(BOTS_ROLE)])
    await settle()
    await scene.edit(asked, "hello")
    await ends(thought)
    assert (len(scene.cog.asked), scene.texts()) == (1, [])
