"""STOP, resume and barge-in, as one process's agents see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import discord
import pytest

from agentic.agent.events import InstructionEvent
from agentic.chat.outlet import CannotPost, Post
from agentic.context.commands import Order, order_in
from agentic.inbox.stop_orders import answers
from agentic.state.silence import EVERYTHING, ChannelRef, Scope
from agentic.turn.progress import Cancellation
from agentic.turn.result import post_failure_reply
from agentic.wire.entries import ActionNote
from agentic.wire.messages import Instruction
from agentic.wire.reasons import TurnAborted
from tests.support.agent_scene import LOUNGE, MEMES, THREAD, Scene
from tests.support.doubles import ALICE, BOB, settle, until


@pytest.fixture
async def open_scene() -> AsyncIterator[Callable[..., Any]]:
    """`await open_scene(...)`: Alice may stop whole channels, Bob only what answers him."""
    scenes: list[Scene] = []

    async def open_one(*names: str, **env: str) -> Scene:
        scene = await Scene(*names, env={"MODERATOR_IDS": str(ALICE), **env}).start()
        scenes.append(scene)
        return scene

    yield open_one
    for scene in scenes:
        await scene.aclose()


class Thought:
    """A model that thinks until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.begun.set()
        await self.go_on.wait()


async def sign(scene: Scene, message_id: int, *, by: int = ALICE, author: int, emoji: str = "🛑", bot: bool = False):
    """Somebody reacts, and every bot hears of it."""
    data: Any = {"message_id": str(message_id), "channel_id": str(LOUNGE), "user_id": str(by), "guild_id": "7"}
    data["message_author_id"] = str(author)
    for cog in scene.cogs.values():
        event = discord.RawReactionActionEvent(data, discord.PartialEmoji(name=emoji), "REACTION_ADD")
        event.member = SimpleNamespace(id=by, bot=bot, display_name="someone")  # type: ignore[assignment]
        for name, method in cog.__cog_listeners__:  # as py-cord finds them
            if name == "on_raw_reaction_add":
                await getattr(cog, method)(event)
    await settle()


def signs(scene: Scene, name: str) -> list[tuple[int, str]]:
    return [reaction for reaction in scene.clients[name].channels[LOUNGE].reacted if reaction[1] == "✅"]


# -- what is an order, and who may give it ----------------------------------------------------------------------------


@pytest.mark.promise(510)
@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("<@21> stop", Order("stop")),
        ("Stop! <@!21>", Order("stop")),
        ("<@&5>   STOP.", Order("stop")),
        ("<@21> <@22> stop", Order("stop")),
        ("<@21> stop 30", Order("stop", 1800.0)),
        ("<@21> stop 30 min", Order("stop", 1800.0)),
        ("<@21> stop 2h", Order("stop", 7200.0)),
        ("<@21> stop 0", Order("stop")),
        ("<@21> stop?!", Order("stop")),
        ("STOP, stop", Order("stop")),
        ("**STOP**, <@21>", Order("stop")),
        ("/stop 30", Order("stop", 1800.0)),
        ("<a:siren:123456789012345678> STOP <:angry:123456789012345678>", Order("stop")),
        ("\u201eStop\u201c \U0001f64f", Order("stop")),
        ("\uff33\uff34\uff2f\uff30\u200b", Order("stop")),
        ("> stop", None),
        ("<@21> resume?", None),
        ("<@21> resume", Order("resume")),
        ("<@21> resume 5", None),
        ("<@21> stop it, please", None),
        ("<@21> don't stop", None),
        ("<@21> stop 5 times", None),
        ("<@21>", None),
        ("", None),
        ("stop" + " " * 300, None),
    ],
)
def test_what_is_an_order(text: str, order: Order | None):
    assert order_in(text) == order


# -- a stop -----------------------------------------------------------------------------------------------------------


async def test_a_stop_in_the_middle_of_a_model_call_cancels_it_and_nothing_is_posted(open_scene):
    scene, thought = await open_scene(), Thought()
    scene.answers(thought)
    await scene.ask("think hard")
    assert thought.begun.is_set()
    order = await scene.ask("stop")
    thought.go_on.set()
    await settle()
    assert scene.texts() == []
    assert scene.channel().reacted == [(order, "✅")], "one sign, and no excuse"


async def test_what_waited_and_what_comes_later_gets_no_answer_and_no_model_call(open_scene):
    scene, thought = await open_scene(), Thought()
    scene.answers(thought)
    await scene.ask("think hard")
    await scene.ask("and this?", author=BOB)
    await scene.ask("stop")
    await scene.ask("hello?", author=BOB)
    assert (scene.texts(), len(scene.cog.asked)) == ([], 1)


async def test_every_instruction_of_a_stopped_channel_gets_one_result_with_the_reason(open_scene):
    scene, thought = await open_scene(), Thought()
    scene.answers(thought)
    await scene.instruct("running")
    await scene.instruct("waiting")
    assert scene.results == []
    await scene.ask("stop")
    await scene.instruct("later")
    await scene.instruct("later")
    found = [(result.instruction_id, result.skipped, result.reason) for result in scene.results]
    assert sorted(set(found)) == [(name, True, "stopped") for name in ("later", "running", "waiting")]
    assert sorted(name for name, *_ in found) == ["later", "later", "running", "waiting"], "asked again, answered again"


async def test_a_stop_in_one_channel_leaves_the_others_alone(open_scene):
    scene, thought = await open_scene(), Thought()
    scene.answers(thought)
    await scene.ask("think hard", channel=MEMES)
    await scene.ask("stop")
    thought.go_on.set()
    await settle()
    assert len(scene.texts(MEMES)) == 1


@pytest.mark.promise(106)
async def test_the_rest_of_a_long_answer_is_not_posted(open_scene):
    scene, channel = await open_scene(), None

    async def stop_at_the_second() -> None:
        if channel.sent:
            await scene.silence.stop(Scope.channel(LOUNGE), source="m1")
            await asyncio.sleep(0)

    scene.answers({"text": "one. " * 900})
    channel = scene.channel()
    channel.hold = SimpleNamespace(wait=stop_at_the_second)
    await scene.instruct()
    assert len(channel.sent) == 1
    (result,) = scene.results
    assert (result.message_id, result.skipped, result.reason) == (channel.sent[0].id, False, "stopped")


@pytest.mark.promise(106)
async def test_nothing_at_all_is_posted_into_a_stopped_channel(open_scene):
    """Also what belongs to no running turn, such as the line that there is too much to do."""
    scene = await open_scene()
    outlet = scene.cog.channels.outlet(scene.channel())
    await scene.silence.stop(Scope.channel(LOUNGE), source="m1")
    with pytest.raises(CannotPost):
        await outlet.sink.post(Post(text="I have too many requests right now."), "m2:excuse")
    assert scene.texts() == []


async def test_it_stays_silent_until_somebody_with_the_right_says_resume(open_scene):
    scene = await open_scene()
    await scene.ask("stop")
    await scene.ask("resume", author=BOB)
    await scene.ask("still there?")
    assert scene.texts() == []
    order = await scene.ask("resume")
    assert scene.channel().reacted[-1] == (order, "✅")
    await scene.ask("and now?")
    assert scene.texts() == ["Hello."]


async def test_a_stop_with_a_time_ends_with_it(open_scene):
    scene = await open_scene()
    await scene.ask("stop 30")
    scene.clock.now += 29 * 60
    await scene.ask("now?")
    assert scene.texts() == []
    scene.clock.now += 2 * 60
    await scene.ask("now?")
    assert scene.texts() == ["Hello."]


@pytest.mark.promise(17)
async def test_resume_of_somebody_without_the_right_is_a_message_like_any_other(open_scene):
    scene = await open_scene()
    await scene.ask("resume", author=BOB)
    assert scene.texts() == ["Hello."]


@pytest.mark.parametrize("stopped", [True, False])
async def test_of_several_bots_that_are_told_to_resume_one_shows_it_and_none_answers(open_scene, stopped: bool):
    scene = await open_scene("claude", "gemini", "grok")
    if stopped:
        await scene.silence.stop(Scope.channel(LOUNGE), source="m1")
    me, other = scene.clients["gemini"].user, scene.clients["grok"].user
    order = await scene.hear(f"<@{me.id}> <@{other.id}> resume", mentions=[me, other])
    await settle()
    assert not scene.silence.check(ChannelRef(LOUNGE))
    assert (signs(scene, "claude"), signs(scene, "gemini"), signs(scene, "grok")) == ([], [(order, "✅")], [])
    assert all(client.channels[LOUNGE].sent == [] for client in scene.clients.values())


async def test_words_that_mention_no_bot_stop_nothing(open_scene):
    scene = await open_scene()
    await scene.hear("stop")
    await settle()
    assert not scene.silence.check(ChannelRef(LOUNGE))


async def test_of_several_bots_that_are_told_to_stop_one_shows_it(open_scene):
    scene = await open_scene("claude", "gemini", "grok")
    me, other = scene.clients["gemini"].user, scene.clients["grok"].user
    order = await scene.hear(f"<@{me.id}> <@{other.id}> stop", mentions=[me, other])
    await settle()
    assert scene.silence.check(ChannelRef(LOUNGE))
    shown = [name for name in scene.cogs for _ in signs(scene, name)]
    assert len(shown) == 1
    assert shown[0] in ("gemini", "grok")
    assert signs(scene, shown[0]) == [(order, "✅")]


# -- the stop sign ----------------------------------------------------------------------------------------------------


async def test_the_stop_sign_at_a_bots_message_ends_every_bots_turn_and_that_bot_shows_it(open_scene):
    scene = await open_scene("claude", "gemini")
    mine = await scene.hear("as I said", author=scene.me.id, name="Claude", bot=True)
    thought = Thought()
    scene.cogs["gemini"].answers[:] = [thought]
    gemini = scene.clients["gemini"].user
    await scene.hear(f"<@{gemini.id}> hm?", mentions=[gemini], author=BOB)
    await until(thought.begun.is_set)
    await sign(scene, mine, author=scene.me.id)
    thought.go_on.set()
    await settle()
    assert scene.silence.check(ChannelRef(LOUNGE))
    assert (signs(scene, "claude"), signs(scene, "gemini")) == ([(mine, "✅")], [])
    assert scene.clients["gemini"].channels[LOUNGE].sent == []


@pytest.mark.parametrize(
    "what", [{"emoji": "👍"}, {"bot": True}, {"author": BOB}], ids=["another sign", "a bot's", "a person's message"]
)
async def test_other_reactions_stop_nothing(open_scene, what: dict[str, Any]):
    scene = await open_scene()
    mine = await scene.hear("as I said", author=scene.me.id, name="Claude", bot=True)
    await sign(scene, mine, **{"author": scene.me.id, **what})
    assert not scene.silence.check(ChannelRef(LOUNGE))
    assert signs(scene, "claude") == []


# -- without the right ------------------------------------------------------------------------------------------------


async def test_without_the_right_only_the_answers_to_that_person_are_given_up(open_scene):
    scene, thought = await open_scene(), Thought()
    scene.answers(thought)
    await scene.ask("think hard", author=BOB)
    await scene.ask("and I?")
    await scene.ask("and this?", author=BOB)
    order = await scene.ask("stop", author=BOB)
    await settle()
    assert not scene.silence.check(ChannelRef(LOUNGE))
    assert scene.texts() == ["Hello."]
    assert "and I?" in scene.prompt.text
    assert scene.channel().reacted == [(order, "✅")]


async def test_without_the_right_the_sign_ends_the_answers_of_all_bots_to_that_person(open_scene):
    scene = await open_scene("claude", "gemini")
    mine = await scene.hear("as I said", author=scene.me.id, name="Claude", bot=True)
    thoughts = {name: Thought() for name in scene.cogs}
    for name, cog in scene.cogs.items():
        cog.answers[:] = [thoughts[name]]
    both = [client.user for client in scene.clients.values()]
    await scene.hear("<@21> <@22> hm?", mentions=both, author=BOB)
    await until(lambda: all(thought.begun.is_set() for thought in thoughts.values()))
    await sign(scene, mine, by=BOB, author=scene.me.id)
    for thought in thoughts.values():
        thought.go_on.set()
    await settle()
    assert [client.channels[LOUNGE].sent for client in scene.clients.values()] == [[], []]
    assert (signs(scene, "claude"), signs(scene, "gemini")) == ([(mine, "✅")], [])


async def test_without_the_right_those_who_would_join_in_on_that_persons_answer_give_up_too(open_scene):
    scene, thought = await open_scene(), Thought()
    asked = await scene.hear("what do you all think?", author=BOB)
    scene.answers(thought)
    await scene.instruct("joins", trigger_message_id=asked)
    await scene.instruct("talks")
    await scene.ask("stop", author=BOB)
    await settle()
    reasons = {result.instruction_id: result.reason for result in scene.results}
    assert reasons == {"joins": "stopped", "talks": None}


async def test_without_the_right_who_joins_in_on_an_answer_to_somebody_else_goes_on(open_scene):
    scene, thought = await open_scene(), Thought()
    asked = await scene.hear("what do you all think?", author=ALICE)
    scene.answers(thought)
    await scene.instruct("joins", trigger_message_id=asked)
    await scene.ask("stop", author=BOB)
    thought.go_on.set()
    await settle()
    assert [(result.instruction_id, result.reason) for result in scene.results] == [("joins", None)]


async def test_who_joins_in_on_what_a_person_said_after_their_stop_goes_on(open_scene):
    scene = await open_scene()
    asked = await scene.hear("what do you all think?", author=BOB)
    said = scene.transcripts.of(LOUNGE).get(asked).created_at
    joining = Instruction(instruction_id="joins", channel_id=LOUNGE, channel_theme="casual", trigger_message_id=asked)
    event = InstructionEvent.of(joining, scene.clock.now)
    assert [answers(event, BOB, scene.transcripts, before) for before in (said - 1, said)] == [False, True]


# -- barge-in ---------------------------------------------------------------------------------------------------------


def conversation(message_id: int) -> dict[str, Any]:
    return {"round_number": 2, "conversation_history": [{"agent": "grok", "text": "Hot.", "message_id": message_id}]}


async def barged_in(open_scene, mode: str, *, speaker: dict[str, Any], before: bool = False) -> Scene:
    """A turn of a conversation, and somebody who speaks while the model thinks (or `before` too)."""
    scene, thought = await open_scene(BARGE_IN=mode), Thought()
    first = scene.ids()
    if before:
        await scene.hear("what about spaces?", author=BOB)
    scene.answers(thought)
    await scene.instruct("i1", **conversation(first))
    await until(thought.begun.is_set)
    await scene.hear("wait, listen!", **speaker)
    thought.go_on.set()
    await settle()
    return scene


@pytest.mark.parametrize(("mode", "reason"), [("yield", "overtaken"), ("finish", None), ("ignore", None)])
async def test_a_reply_that_a_person_overtook_is_dropped_where_bots_yield(open_scene, mode: str, reason: str | None):
    scene = await barged_in(open_scene, mode, speaker={"author": BOB})
    (result,) = scene.results
    assert result.reason == reason
    assert scene.texts() == ([] if reason else ["Hello."])
    assert result.usage is not None, "the thought was paid for"


async def test_another_bots_message_overtakes_nobody(open_scene):
    scene = await barged_in(open_scene, "yield", speaker={"author": 77, "name": "Bot", "bot": True})
    assert scene.texts() == ["Hello."]


async def test_a_reply_that_turns_to_a_person_is_not_dropped_for_another(open_scene):
    scene = await barged_in(open_scene, "yield", speaker={"author": ALICE}, before=True)
    assert "what about spaces?" in scene.prompt.text
    assert scene.texts() == ["Hello."]


async def test_an_answer_to_a_mention_is_not_dropped(open_scene):
    scene, thought = await open_scene(), Thought()
    scene.answers(thought)
    await scene.ask("think hard", author=BOB)
    await scene.hear("me too", author=ALICE)
    thought.go_on.set()
    await settle()
    assert scene.texts() == ["Hello."]


@pytest.mark.parametrize(("mode", "heard"), [("yield", True), ("finish", True), ("ignore", False)])
async def test_the_next_turn_turns_to_the_person_unless_people_are_ignored(open_scene, mode: str, heard: bool):
    scene = await open_scene(BARGE_IN=mode)
    first = scene.ids()
    await scene.hear("what about spaces?", author=BOB)
    await scene.instruct("i1", **conversation(first))
    assert ("what about spaces?" in scene.prompt.text) is heard
    assert "what about spaces?" in "\n".join(scene.shown), "what was said is in the transcript in any case"


# -- cancellation ----------------------------------------------------------------------------------------------


async def test_a_turn_is_cancelled_before_during_and_after_its_work():
    cancellation = Cancellation()

    async def work() -> None:
        async with cancellation.within(60.0):
            cancellation.cancel("stopped")
            cancellation.cancel("again")
            await asyncio.Event().wait()

    with pytest.raises(TurnAborted, match="stopped"):
        await work()
    assert cancellation.reason == "stopped"
    with pytest.raises(TurnAborted, match="stopped"):
        async with cancellation.within(60.0):
            raise AssertionError("its work was begun")
    late = Cancellation()
    async with late.within(60.0):
        pass
    late.cancel("stopped")
    assert late.reason == "stopped"


async def test_only_the_turns_own_end_is_its_deadline():
    with pytest.raises(TurnAborted, match="deadline"):
        async with Cancellation().within(0.0):
            await asyncio.Event().wait()
    with pytest.raises(TimeoutError, match="a socket"):
        async with Cancellation().within(60.0):
            raise TimeoutError("a socket")


# -- threads ----------------------------------------------------------------------------------------------------------


async def test_a_stop_of_a_channel_ends_what_waits_and_runs_in_its_threads(open_scene):
    scene, thought = await open_scene(), Thought()
    scene.answers(thought)
    await scene.ask("think hard", channel=THREAD, author=BOB)
    await scene.instruct("waiting", channel=THREAD)
    await scene.ask("stop")
    await settle()
    assert [result.reason for result in scene.results] == ["stopped"], "at once, not when the model has answered"
    assert scene.cog.host.queue.channels == ()
    thought.go_on.set()
    await settle()
    assert scene.texts(THREAD) == []
    assert [(result.instruction_id, result.reason) for result in scene.results] == [("waiting", "stopped")]
    await scene.ask("hello?", channel=THREAD, author=BOB)
    await scene.instruct("later", channel=THREAD)
    assert (scene.texts(THREAD), len(scene.cog.asked), scene.results[-1].reason) == ([], 1, "stopped")


async def test_a_stop_in_a_thread_is_the_threads_alone(open_scene):
    scene = await open_scene()
    await scene.ask("stop", channel=THREAD)
    await scene.ask("hello?", channel=THREAD)
    await scene.ask("hello?")
    assert (scene.texts(THREAD), scene.texts()) == ([], ["Hello."])


async def test_resume_of_a_channel_covers_its_threads_and_one_in_a_thread_lifts_no_channel(open_scene):
    scene = await open_scene()
    await scene.ask("stop", channel=THREAD)
    await scene.ask("stop")
    order = await scene.ask("resume", channel=THREAD)
    assert scene.channel(THREAD).reacted[-1] == (order, "🛑"), "it is still silent there"
    assert [bool(scene.silence.check(ChannelRef(LOUNGE))), bool(scene.silence.check(ChannelRef(THREAD)))] == [
        True,
        False,
    ]
    await scene.ask("stop", channel=THREAD)
    await scene.ask("resume")
    assert scene.silence.stopped_channels() == {}
    await scene.ask("hello?", channel=THREAD)
    assert scene.texts(THREAD) == ["Hello."]


# -- calls into a silent channel --------------------------------------------------------------------------------------


def stop_signs(scene: Scene, name: str = "claude", channel: int = LOUNGE) -> list[int]:
    return [message_id for message_id, emoji in scene.clients[name].channels[channel].reacted if emoji == "🛑"]


async def test_who_calls_a_bot_that_is_to_be_silent_sees_the_sign_once_a_minute(open_scene):
    scene = await open_scene()
    await scene.ask("stop")
    bob, alice = await scene.ask("hello?", author=BOB), await scene.ask("hello?")
    await scene.ask("hello??", author=BOB)
    assert stop_signs(scene) == [bob, alice]
    scene.clock.now += 61
    again = await scene.ask("hello???", author=BOB)
    assert stop_signs(scene) == [bob, alice, again]
    assert scene.texts() == []


async def test_no_sign_is_shown_for_a_stop_for_chatter_or_to_who_is_ignored(open_scene):
    scene = await open_scene("claude", "gemini", IGNORE_USER_IDS="13")
    await scene.ask("stop")
    await scene.ask("stop")
    await scene.hear("what a silence", author=BOB)
    await scene.ask("hello?", author=13)
    await settle()
    assert (stop_signs(scene), stop_signs(scene, "gemini")) == ([], [])
    called = await scene.ask("hello?", author=BOB)
    assert (stop_signs(scene), stop_signs(scene, "gemini")) == ([called], []), "only the one that was called"


# -- after it nothing leaves -------------------------------------------------------------------------------------------


async def test_no_reaction_that_a_model_decided_on_is_given_after_the_stop(open_scene):
    scene = await open_scene()
    seen = await scene.hear("what a day", author=BOB)
    scene.answers({"text": None, "react_emoji": "🔥", "react_to_message_id": str(seen)})
    scene.channel().hold_reactions = asyncio.Event()
    outlet = scene.cog.channels.outlet(scene.channel())
    await scene.silence.stop(Scope.channel(LOUNGE), source="m1")
    scene.channel().hold_reactions.set()
    assert not await outlet.sink.react(seen, "🔥")
    assert scene.channel().reacted == []


@pytest.mark.promise(106)
async def test_no_sign_stands_for_an_excuse_after_the_stop(open_scene):
    scene = await open_scene(AGENT_DAILY_MAX="1")
    asked = await scene.hear("hello", author=BOB)
    entry = scene.services.chats.transcripts.of(LOUNGE).get(asked)
    event = scene.services.mention(entry, LOUNGE, "casual", to_all=False)
    outlet = scene.cog.channels.outlet(scene.channel())
    await scene.silence.stop(Scope.channel(LOUNGE), source="m1")
    assert await post_failure_reply(outlet.sink, event, "daily_limit") is None
    assert await post_failure_reply(outlet.sink, event, "busy") is None
    assert (scene.channel().reacted, scene.texts()) == ([], [])


# -- who hears of it ---------------------------------------------------------------------------------------------------


@pytest.mark.promise(109)
@pytest.mark.parametrize("by", ["word", "sign"])
async def test_a_stop_needs_no_lease(open_scene, by: str):
    """A process that was paused, or stands by, may be the only one that hears of it."""
    scene = await open_scene()
    mine = await scene.hear("as I said", author=scene.me.id, name="Claude", bot=True)
    scene.acts = False
    order = await scene.ask("stop") if by == "word" else mine
    if by == "sign":
        await sign(scene, mine, author=scene.me.id)
    assert scene.silence.check(ChannelRef(LOUNGE))
    assert scene.channel().reacted == [(order, "✅")]
    scene.acts = True
    await scene.ask("hello?")
    assert scene.texts() == []


@pytest.mark.promise(109)
async def test_an_order_that_is_heard_by_who_does_not_act_does_not_undo_a_later_one(open_scene):
    scene = await open_scene()
    order = scene.ids()
    scene.clock.now += 10
    await scene.ask("resume")
    scene.acts = False
    await scene.ask("stop", message_id=order)
    assert not scene.silence.check(ChannelRef(LOUNGE))
    scene.acts = True


async def test_a_stop_is_heard_while_the_program_ends_its_last_turns(open_scene):
    scene, thought = await open_scene(), Thought()
    scene.answers(thought)
    await scene.ask("think hard")
    scene.cog.host.stop_listening()
    await scene.ask("stop")
    thought.go_on.set()
    await settle()
    assert (bool(scene.silence.check(ChannelRef(LOUNGE))), scene.texts()) == (True, [])


async def test_the_sign_is_kept_under_the_message_and_the_person_so_that_each_gives_an_order_of_their_own(open_scene):
    scene = await open_scene()
    first, second = [await scene.hear("so", author=scene.me.id, name="Claude", bot=True) for _ in range(2)]
    await sign(scene, first, author=scene.me.id)
    assert [order.source for order in scene.silence.active()] == [f"{first}:{ALICE}"]
    await scene.silence.resume(Scope.channel(LOUNGE))
    await sign(scene, second, author=scene.me.id)
    assert scene.silence.check(ChannelRef(LOUNGE))
    assert [order.source for order in scene.silence.active()] == [f"{second}:{ALICE}"]


# -- turns that an earlier run began ----------------------------------------------------------------------------------


async def killed_while_posting(open_scene) -> tuple[Scene, Scene]:
    """A run whose model has answered, and the next one, which has not looked yet."""
    first = await open_scene()
    first.channel().hold = asyncio.Event()
    await first.instruct("i1")
    await first.aclose()
    first.state.crash()
    return first, await Scene(state=first.state, env={"MODERATOR_IDS": str(ALICE)}).start()


def settled(scene: Scene) -> tuple[list[Any], float, list[Any]]:
    results = [(result.instruction_id, result.reason) for result in scene.results]
    return results, scene.spent().get("ai_calls", 0), scene.cog.asked


@pytest.mark.parametrize("asked_again", [True, False])
async def test_a_turn_that_is_resumed_in_a_stopped_channel_is_settled_with_its_costs(open_scene, asked_again: bool):
    _, scene = await killed_while_posting(open_scene)
    await scene.silence.stop(Scope.channel(LOUNGE), source="m1")
    await (scene.instruct("i1") if asked_again else scene.cog.host.catch_up.resume_open_turns())
    await settle()
    assert settled(scene) == ([("i1", "stopped")], 1, [])
    assert await scene.state.turns.open_ids("claude") == []
    await scene.aclose()


async def test_a_turn_that_waits_to_be_resumed_is_settled_when_the_channel_is_stopped(open_scene):
    _, scene = await killed_while_posting(open_scene)
    thought = Thought()
    scene.answers(thought)
    await scene.ask("think hard")
    await scene.cog.host.catch_up.resume_open_turns()
    await scene.silence.stop(Scope.channel(LOUNGE), source="m1")
    await settle()
    results, calls, _ = settled(scene)
    assert (results, calls) == ([("i1", "stopped")], 2), "the call that was cut off costs too"
    assert await scene.state.turns.open_ids("claude") == []
    await scene.aclose()


async def test_a_turn_whose_channel_is_gone_is_settled_with_its_costs_too(open_scene):
    _, scene = await killed_while_posting(open_scene)
    del scene.client.channels[LOUNGE]
    await scene.cog.host.catch_up.resume_open_turns()
    await settle()
    assert settled(scene) == ([("i1", "unknown_channel")], 1, [])
    await scene.aclose()


async def test_who_stopped_and_resumed_is_noted_once_and_who_may_not_is_not(open_scene):
    scene = await open_scene("claude", "grok")
    await scene.ask("stop", author=BOB)
    await scene.ask("stop")
    await scene.ask("resume")
    noted = [(note.by, note.action, note.channel_id) for note in scene.record if isinstance(note, ActionNote)]
    assert noted == [(str(ALICE), "stop", LOUNGE), (str(ALICE), "resume", LOUNGE)]


async def test_a_pause_of_all_cancels_what_runs_and_waits_everywhere(open_scene):
    scene, thought = await open_scene(), Thought()
    scene.answers(thought, thought)
    await scene.instruct("running")
    await scene.instruct("elsewhere", channel=MEMES)
    await scene.silence.stop(EVERYTHING, source="console")
    thought.go_on.set()
    await settle()
    assert scene.texts() == []
    assert {(result.instruction_id, result.reason) for result in scene.results} == {
        ("running", "stopped"),
        ("elsewhere", "stopped"),
    }
