"""The agent's side of a turn in a room."""

import asyncio
import itertools
from functools import partial
from typing import Any

import pytest

from agentic.context.entries import Entry, Speaker
from agentic.state.budgets import Caps
from agentic.state.rooms import Room, RoomMember
from agentic.turn import room_turns
from agentic.turn.decision import LAST_WORD
from agentic.turn.room_turns import next_member
from agentic.wire.connection import wait_for_redis
from agentic.wire.messages import RoomBrief
from tests.support.agent_scene import LOUNGE, THREAD, Scene
from tests.support.doubles import ALICE, Clock, SceneState, settle

OPENER = 77
MEMBERS = (
    RoomMember(name="claude", shown="Claude"),
    RoomMember(name="grok", shown="Grok"),
    RoomMember(name="ada", shown="Ada Lovelace"),
)


def room(number: int = 0, **more: Any) -> Room:
    fields = {"status": "active", "opened_by": OPENER, **more}
    return Room(
        thread_id=THREAD,
        channel_id=LOUNGE,
        conversation_id="r1",
        topic="Is P equal to NP?",
        members=MEMBERS,
        turn_number=number,
        **fields,
    )


def brief(number: int = 1, **more: Any) -> RoomBrief:
    return RoomBrief(turn_number=number, turns=20, members=tuple(each.shown for each in MEMBERS), **more)


async def in_room(number: int = 0, *, answers: Any = (), **kwargs: Any) -> Scene:
    scene = await Scene(**kwargs).start()
    scene.state.coordination.rooms.kept[THREAD] = room(number)
    scene.answers(*answers)
    return scene


async def turn(scene: Scene, number: int, instruction_id: str = "i1", *, about: Any = None, **fields: Any) -> Any:
    asked = {"topic": "Is P equal to NP?", "conversation_id": "r1", **fields}
    return await scene.instruct(instruction_id, channel=THREAD, room=about or brief(number), **asked)


async def test_a_turn_in_a_room_posts_and_is_recorded_with_its_number_and_its_opener() -> None:
    scene = await in_room(4)
    result = await turn(scene, 5, chosen_because="its turn in the order")
    assert (result.text, result.leaves, result.next_agent) == ("Hello.", False, None)
    (record,) = scene.state.recorded
    assert (record.room_turn, record.chosen_because, record.asked_by) == (5, "its turn in the order", OPENER)
    await scene.aclose()


@pytest.mark.parametrize(("audience_seconds", "reason"), [(60.0, None), (0.0, "not_permitted")])
async def test_a_locked_thread_is_open_to_the_members_of_a_room_with_slots(
    audience_seconds: float, reason: str | None
) -> None:
    scene = await in_room()
    scene.state.coordination.rooms.kept[THREAD] = room(audience_seconds=audience_seconds)
    thread = scene.client.channels[THREAD]
    thread.locked = True
    thread.permissions.update(manage_threads=True)
    assert (await turn(scene, 1)).reason == reason
    await scene.aclose()


async def test_a_turn_that_posts_nothing_has_no_number() -> None:
    scene = await in_room(answers=[{"skip": True}])
    await turn(scene, 1)
    assert [record.room_turn for record in scene.state.recorded] == [None]
    await scene.aclose()


@pytest.mark.promise(171)
@pytest.mark.parametrize(
    ("kept", "number"),
    [(room(5), 5), (room(5), 7), (room(4, status="paused"), 5), (room(4, status="closed"), 5), (None, 1)],
)
async def test_a_turn_whose_number_is_not_the_room_s_plus_one_is_dropped(kept: Room | None, number: int) -> None:
    scene = await in_room()
    scene.state.coordination.rooms.kept = {} if kept is None else {THREAD: kept}
    result = await turn(scene, number)
    assert (result.skipped, result.reason) == (True, "out_of_turn")
    assert (scene.cog.asked, scene.texts(THREAD)) == ([], [])
    assert await scene.state.uses() == {}
    await scene.aclose()


@pytest.mark.promise(171)
async def test_a_repeated_instruction_gets_its_result_although_its_number_is_done() -> None:
    scene = await in_room()
    first = await turn(scene, 1)
    scene.state.coordination.rooms.kept[THREAD] = room(1)
    assert await turn(scene, 1) == first
    assert len(scene.texts(THREAD)) == 1
    await scene.aclose()


@pytest.mark.promise(171)
async def test_a_room_that_is_paused_while_the_model_thinks_hears_no_more() -> None:
    scene = await in_room()

    async def paused() -> None:
        scene.state.coordination.rooms.kept[THREAD] = room(status="paused")

    scene.answers(paused)
    result = await turn(scene, 1)
    assert (result.reason, scene.texts(THREAD)) == ("out_of_turn", [])
    assert scene.spent()["ai_calls"] == 1
    await scene.aclose()


@pytest.mark.promise(171)
async def test_while_redis_is_away_a_turn_waits_for_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room_turns, "wait_for_redis", partial(wait_for_redis, every=0))
    scene = await in_room()
    scene.state.coordination.rooms.away = True
    assert await turn(scene, 1) is None
    assert scene.cog.asked == []
    scene.state.coordination.rooms.away = False
    await settle()
    assert [result.text for result in scene.results] == ["Hello."]
    await scene.aclose()


async def test_an_answer_is_posted_although_redis_went_away_while_the_model_thought() -> None:
    scene = await in_room()

    async def gone() -> None:
        scene.state.coordination.rooms.away = True

    scene.answers(gone)
    assert (await turn(scene, 1)).text == "Hello."
    await scene.aclose()


@pytest.mark.promise(171)
@pytest.mark.parametrize(("number", "posted"), [(0, 1), (1, 0)])
async def test_a_turn_that_a_crash_cut_off_is_posted_unless_its_number_is_done(number: int, posted: int) -> None:
    first = await in_room()

    async def held() -> None:
        first.channel(THREAD).hold = asyncio.Event()

    first.answers(held)
    assert await turn(first, 1) is None
    await first.aclose()
    first.state.crash()
    scene = Scene(state=first.state)
    await scene.start()
    scene.state.coordination.rooms.kept[THREAD] = room(number)
    result = await turn(scene, 1)
    assert (len(scene.texts(THREAD)), scene.cog.asked) == (posted, [])
    assert (result.message_id is not None) == bool(posted)
    await scene.aclose()


async def test_a_room_is_on_its_opener_s_account() -> None:
    scene = await in_room(state=SceneState(Clock(), caps=Caps(person=0.0000001)))
    assert (await turn(scene, 1)).reason == "person_budget"
    scene.state.coordination.rooms.kept[THREAD] = room(opened_by=None)
    assert (await turn(scene, 1, "i2")).text == "Hello."
    await scene.aclose()


async def test_a_debate_that_a_member_proposed_is_on_the_budget_for_such_debates() -> None:
    scene = await in_room(state=SceneState(Clock(), caps=Caps(person=0.0000001)))
    scene.state.coordination.rooms.kept[THREAD] = room(proposed=True)
    assert (await turn(scene, 1)).text == "Hello."
    assert [record.asked_by for record in scene.state.recorded] == [None]
    await scene.aclose()
    scene = await in_room(state=SceneState(Clock(), caps=Caps(members=0.0000001)))
    scene.state.coordination.rooms.kept[THREAD] = room(proposed=True)
    assert (await turn(scene, 1)).reason == "person_budget"
    scene.state.coordination.rooms.kept[THREAD] = room()
    assert (await turn(scene, 1, "i2")).text == "Hello."
    await scene.aclose()


async def test_a_member_leaves_with_its_last_word() -> None:
    scene = await in_room(answers=[{"text": "That was all.", "leave": True}, {"skip": True, "leave": True}])
    result = await turn(scene, 1)
    assert (result.leaves, result.text) == (True, "That was all.")
    result = await turn(scene, 1, "i2")
    assert (result.leaves, result.text, result.skipped) == (True, LAST_WORD, False)
    await scene.aclose()


@pytest.mark.parametrize(
    ("said", "key"),
    [("Ada Lovelace", "ada"), ("@grok", "grok"), ("GROK ", "grok"), ("Claude", None), ("Nobody", None), (None, None)],
)
async def test_who_is_named_as_the_next_is_found_by_the_shown_name(said: str | None, key: str | None) -> None:
    scene = await in_room(answers=[{"text": "So.", "next_speaker": said}] * 2)
    assert (await turn(scene, 1, about=brief(names_next=True))).next_agent == key
    assert (await turn(scene, 1, "i2")).next_agent is None, "it does not fall to it to name anybody"
    await scene.aclose()


async def test_a_person_s_message_is_taken_up_and_quoted() -> None:
    scene = await in_room()
    asked = await scene.hear("And who checks it?", channel=THREAD)
    scene.answers({"skip": True}, {"text": "Anybody can."})
    result = await turn(scene, 1, take_up=asked)
    assert (result.text, result.answers_message_id) == ("Anybody can.", asked)
    assert f"[msg:{asked}] Alice (audience): And who checks it?" in scene.prompt.text
    assert scene.state.recorded[0].asked_message_id == asked
    await scene.aclose()


async def test_a_message_that_was_deleted_before_the_turn_is_not_taken_up() -> None:
    scene = await in_room(answers=[{"skip": True}])
    asked = await scene.hear("And who checks it?", channel=THREAD)
    scene.transcripts.of(THREAD).delete(asked)
    result = await turn(scene, 1, take_up=asked)
    assert (result.reason, len(scene.cog.asked)) == ("skipped", 1)
    await scene.aclose()


@pytest.mark.parametrize("how_many_left", [0, 1, 2])
async def test_messages_that_were_deleted_while_the_program_was_down_are_not_taken_up(how_many_left: int) -> None:
    scene = await in_room()
    left = [await scene.hear(f"Who checks part {number}?", channel=THREAD) for number in range(how_many_left)]
    gone = [4_000_000_000_000_000_000, 4_000_000_000_000_000_001]
    result = await turn(scene, 1, take_up=gone[-1], questions=(*left, *gone))
    prompt = scene.prompt.text
    assert result.text == "Hello."
    assert ("A person has spoken" in prompt, "People wait for answers" in prompt) == (
        how_many_left == 1,
        how_many_left == 2,
    )
    assert all(f"Who checks part {number}?" in prompt for number in range(how_many_left))
    await scene.aclose()


async def test_a_message_deleted_while_the_member_thinks_ends_the_turn_even_if_it_was_not_the_newest() -> None:
    scene = await in_room()
    asked = [await scene.hear(text, channel=THREAD) for text in ("Who checks it?", "And who pays?")]

    async def delete() -> None:
        scene.transcripts.of(THREAD).delete(asked[0])

    scene.answers(delete)
    result = await turn(scene, 1, take_up=asked[1], questions=tuple(asked))
    assert (result.reason, result.text) == ("withdrawn", None)
    await scene.aclose()


async def test_outside_of_a_room_what_is_taken_up_is_on_its_author_s_account() -> None:
    scene = await Scene().start()
    asked = await scene.hear("And who checks it?")
    result = await scene.instruct(take_up=asked, conversation_id="c1")
    assert (result.answers_message_id, scene.state.recorded[0].asked_by) == (asked, ALICE)
    await scene.aclose()


async def test_a_lively_audience_does_not_silence_a_room() -> None:
    scene = await in_room()

    async def spoken() -> None:
        await scene.hear("me too!", channel=THREAD)

    scene.answers(spoken)
    assert (await turn(scene, 1)).text == "Hello."
    await scene.aclose()


@pytest.mark.promise(172)
async def test_the_prompt_of_a_room_grows_at_its_end_alone() -> None:
    """Over a whole room: with an opening, an audience, an angle, somebody to take up, and a closing turn."""
    scene = await in_room()
    asked = 0
    for number in range(1, 13):
        more: dict[str, Any] = {"is_conversation_starter": number == 1}
        if number == 4:
            asked = await scene.hear("And who checks it?\n[msg:1] Grok: nobody", channel=THREAD)
            more["take_up"] = asked
        if number == 7:
            more["angle"] = "what it costs"
        await turn(scene, number, f"i{number}", about=brief(number, closing=number == 12), **more)
        (post,) = scene.channel(THREAD).sent[number - 1 :]
        scene.transcripts.of(THREAD).add(own(scene, post))
        scene.state.coordination.rooms.kept[THREAD] = room(number)
        scene.clock.now += 20
    prompts = scene.cog.asked
    assert len(prompts) == 12
    assert len({(prompt.system, repr(prompt.schema)) for prompt, _ in prompts}) == 1
    shown = ["\n".join(message.text for message in history) for _, history in prompts]
    assert all(after.startswith(before) for before, after in itertools.pairwise(shown))
    assert "\n[msg:1]" not in shown[-1]
    assert "Alice (audience): And who checks it?" in shown[-1]
    await scene.aclose()


def own(scene: Scene, post: Any) -> Entry:
    return Entry(post.id, Speaker(scene.me.id, "Claude", "agent", "claude"), post.text, scene.clock.now)


async def test_other_bots_and_the_channel_above_are_no_part_of_a_room() -> None:
    scene = await in_room()
    await scene.hear("above", channel=LOUNGE)
    await scene.hear("from a foreign bot", channel=THREAD, author=5555, bot=True, name="Poll")
    await scene.hear("from Alice", channel=THREAD)
    await turn(scene, 1)
    shown = "\n".join(scene.shown)
    assert "from Alice" in shown
    assert "foreign" not in shown
    assert "above" not in shown
    await scene.aclose()


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ("Ada Lovelace", "ada"),
        ("ada", "ada"),
        ("The Countess", "ada"),
        ("countess", "ada"),
        ("I give the floor to ada-lovelace.", "ada"),
        ("Claude", None),
        ("Claude hands over to Grok", "grok"),
        ("somebody", None),
        ("", None),
        (None, None),
    ],
)
def test_a_model_names_the_next_speaker_in_any_spelling(said: str | None, key: str | None) -> None:
    assert next_member(room(), said, "claude", {"ada": "The Countess"}) == key


def test_a_name_that_fits_two_members_names_nobody() -> None:
    members = (RoomMember(name="a", shown="The Sceptic"), RoomMember(name="b", shown="A Sceptic"))
    both = room().model_copy(update={"members": members})
    assert next_member(both, "sceptic", "claude", {}) is None
    assert next_member(both, "A Sceptic", "claude", {}) == "b"
