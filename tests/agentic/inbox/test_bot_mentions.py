"""Another agent calls, people command: what an agent makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentic.chat.outlet import UNFINISHED
from agentic.context.entries import Addressees
from agentic.context.options import Options
from agentic.inbox.triggers import CHAIN_END
from agentic.state.silence import Scope
from agentic.tools.call_log import ToolRecords
from tests.support.agent_scene import LOUNGE, Scene
from tests.support.doubles import message, settle, until
from tests.support.thinking_scene import ThinkingScene, calls, let
from tests.support.tools.tool_doubles import FakeTool


@pytest.fixture
async def scene():
    made = await ThinkingScene("claude", "grok").start()
    yield made
    await made.aclose()


def grok(scene):
    return scene.clients["grok"].user


async def from_grok(scene, text=None, **more):
    """Grok writes, Claude hears of it."""
    text = f"<@{scene.me.id}> and you?" if text is None else text
    message_id = await scene.hear(text, author=grok(scene).id, name="Grok", bot=True, **more)
    await settle()
    return message_id


def entering(scene):
    """The events that are to be taken, from now on; none of them is."""
    entered = []
    for cog in scene.cogs.values():
        cog.host.queue.enqueue = lambda event: entered.append(event) or True
    return entered


async def test_another_agents_mention_is_answered_without_a_ping_and_may_be_passed_over(scene):
    await from_grok(scene)
    assert scene.texts() == ["Hello."]
    assert scene.channel().sent[0].pinged == []
    assert "Another AI is talking to you" in scene.prompt.text
    assert scene.notices == []
    scene.answers({"skip": True})
    await from_grok(scene)
    assert scene.texts() == ["Hello."]
    assert [record.trigger for record in scene.state.recorded] == ["call", "call"]


async def test_a_reply_to_it_is_a_call_too(scene):
    spoken = await scene.hear("I am here.", author=scene.me.id, name="Claude", bot=True)
    reply = {
        "message_reference": {"message_id": str(spoken), "channel_id": str(LOUNGE)},
        "referenced_message": {
            "id": str(spoken),
            "author": {"id": str(scene.me.id), "username": "Claude", "bot": True, "discriminator": "0", "avatar": None},
            "content": "I am here.",
            "mentions": [],
            "attachments": [],
            "embeds": [],
            "edited_timestamp": None,
            "type": 0,
            "pinned": False,
            "mention_everyone": False,
            "mention_roles": [],
            "tts": False,
            "channel_id": str(LOUNGE),
            "timestamp": "2026-01-01T00:00:00+00:00",
        },
        "type": 19,
    }
    await from_grok(scene, "and?", **reply)
    assert scene.texts() == ["Hello."]


@pytest.mark.parametrize("who", [{"author": 77, "name": "Grok"}, {"webhook_id": "5", "author": 22, "name": "Grok"}])
async def test_foreign_bots_and_webhooks_call_nobody_under_whatever_name(scene, who):
    await scene.hear(f"<@{scene.me.id}> hi", bot=True, **who)
    await settle()
    assert scene.cog.asked == []


async def test_a_turn_of_a_conversation_calls_nobody_and_one_that_joins_in_does(scene):
    scene.state.posts.instructed.note(LOUNGE, [4])
    scene.state.posts.instructed.note(LOUNGE, [5], joining=True)
    await from_grok(scene, message_id=4)
    assert scene.cog.asked == []
    await from_grok(scene, message_id=5)
    assert len(scene.cog.asked) == 1


async def test_a_turn_that_is_still_open_tells_by_its_record_where_its_post_came_from(scene):
    heard = []

    async def speaks_meanwhile():
        heard.append(await from_grok(scene))

    scene.cogs["grok"].answers[:] = [speaks_meanwhile]
    claude, scene.cog = scene.cog, scene.cogs["grok"]
    await scene.instruct()
    scene.cog = claude
    await settle()
    assert heard
    assert claude.asked == []


async def test_a_turn_that_ends_while_it_is_looked_for_is_known_by_its_mark(scene):
    marks, looks = scene.state.posts.instructed, []

    async def ends_between(agent):
        looks.append(agent)
        marks.note(LOUNGE, [4])
        return []

    scene.state.turns.open_ids = ends_between
    await from_grok(scene, message_id=4)
    assert (looks, scene.cog.asked) == (["grok"], [])


async def test_posts_by_instruction_are_noted_before_the_result_is_told(scene):
    await scene.instruct()
    await scene.hear("so?")
    await scene.instruct("i2", trigger_message_id=scene.transcripts.of(LOUNGE).newest)
    first, second = (sent.id for sent in scene.channel().sent)
    assert await scene.state.posts.instructed.read(LOUNGE) == {first: False, second: True}


async def test_the_end_of_a_chain_is_shown_once_by_whoever_would_have_been_called(scene):
    await scene.hear("talk")
    names = f"<@{scene.me.id}> <@{grok(scene).id}>"
    for number in range(3):
        author, name = ((scene.me.id, "Claude"), (grok(scene).id, "Grok"))[number % 2]
        for cog in scene.cogs.values():
            cog.answers[:] = [{"skip": True}]
        last = await scene.hear(f"{names} {number}", author=author, name=name, bot=True)
        await settle()
    reacted = [one for client in scene.clients.values() for one in client.channels[LOUNGE].reacted]
    assert reacted == [(last, CHAIN_END)]
    assert [len(cog.asked) for cog in scene.cogs.values()] == [1, 1]


async def test_a_post_that_grows_calls_once_when_it_is_whole(scene):
    entered = entering(scene)
    text = f"<@{scene.me.id}> what do"
    message_id = await from_grok(scene, f"{text}{UNFINISHED}")
    assert entered == []
    for content in (f"{text} you say{UNFINISHED}", f"{text} you say?", f"{text} you say!"):
        whole = message(scene.channel(), message_id, content, author=grok(scene).id, name="Grok", bot=True)
        event = type(
            "Edit",
            (),
            {"channel_id": LOUNGE, "message_id": message_id, "data": {"content": content}, "new_message": whole},
        )()
        await scene.cog.on_raw_message_edit(event)
        await scene.cog.on_edited_words(event)
        await settle()
    assert [event.asked.text for event in entered] == ["@Claude what do you say?"]


async def test_where_silence_is_wanted_nobody_is_called(scene):
    entered = entering(scene)
    await scene.silence.stop(Scope.channel(LOUNGE), source="x")
    await from_grok(scene)
    assert (entered, scene.cog.asked) == ([], [])


async def test_who_may_not_be_called_by_bots_is_not(scene):
    let(scene, options=Options(bot_mentions=False))
    await from_grok(scene)
    assert scene.cog.asked == []
    await scene.ask()
    assert len(scene.cog.asked) == 1, "people may call it"


async def test_what_came_before_a_call_must_be_known_for_it_may_be_the_end_of_a_chain(scene, monkeypatch):
    async def unread(*_):
        transcript.is_complete = transcript.begins = False

    transcript = scene.transcripts.of(LOUNGE)
    monkeypatch.setattr(scene.discord.fetcher, "ensure_complete", unread)
    await from_grok(scene)
    assert scene.cog.asked == []
    await scene.hear("talk to each other")
    await from_grok(scene)
    assert len(scene.cog.asked) == 1, "a person's message begins a new one, whatever was before"


async def test_where_silence_is_wanted_no_end_of_a_chain_is_shown_either(scene):
    await scene.hear("talk")
    names = f"<@{scene.me.id}> <@{grok(scene).id}>"
    await scene.silence.stop(Scope.channel(LOUNGE), source="x")
    for number in range(4):
        author, name = ((scene.me.id, "Claude"), (grok(scene).id, "Grok"))[number % 2]
        await scene.hear(f"{names} {number}", author=author, name=name, bot=True)
        await settle()
    assert [one for client in scene.clients.values() for one in client.channels[LOUNGE].reacted] == []


async def test_who_set_off_the_chain_pays_for_it_and_it_is_for_them_that_tools_run(scene, tmp_path):
    async with ToolRecords(tmp_path) as records:
        let(scene, FakeTool("clock", lambda _: "noon"), records=records)
        scene.answers(calls(("clock", {})), {"text": "It is noon."})
        await scene.hear("talk to each other")
        await from_grok(scene)
        await until(lambda: scene.state.recorded)
        assert [record.asked_by for record in scene.state.recorded] == [11]
        assert [record.asked_by for record in records.for_channel("claude", LOUNGE)] == [11]


# -- what people command ----------------------------------------------------------------------------------------------


async def test_m_continue_is_for_who_spoke_last_and_no_answer_to_anybody(scene):
    await scene.hear("hi", author=grok(scene).id, name="Grok", bot=True)
    await scene.hear("hello", author=scene.me.id, name="Claude", bot=True)
    scene.channel().permissions.update(manage_messages=True)
    command = await scene.hear("m continue")
    await settle()
    assert (scene.texts(), scene.channel().sent[0].pinged) == (["Hello."], [])
    assert scene.channel().deleted == [command]
    assert scene.cogs["grok"].asked == []
    assert "wants you to continue" in scene.prompt.text
    assert scene.notices == []


async def test_m_continue_with_a_mention_is_for_that_one_alone(scene):
    await scene.hear("hello", author=scene.me.id, name="Claude", bot=True)
    await scene.hear(f"<@{grok(scene).id}> m continue", mentions=[grok(scene)])
    await settle()
    assert scene.cog.asked == []
    assert len(scene.cogs["grok"].asked) == 1


async def test_m_continue_goes_on_where_the_command_cannot_be_deleted(scene):
    await scene.hear("hello", author=scene.me.id, name="Claude", bot=True)
    await scene.hear("m continue")
    await settle()
    assert scene.texts() == ["Hello."]
    assert scene.channel().deleted == []
    assert not any("m continue" in text for text in scene.shown)


@pytest.mark.parametrize("text", ["m continue {}", "m continue {}!", "{} m continue"])
async def test_m_continue_takes_its_mention_before_or_behind(scene, text):
    await scene.hear("hello", author=scene.me.id, name="Claude", bot=True)
    await scene.hear(text.format(f"<@{grok(scene).id}>"), mentions=[grok(scene)])
    await settle()
    assert scene.cog.asked == []
    assert len(scene.cogs["grok"].asked) == 1


async def test_m_context_takes_its_mention_behind_it_too(scene):
    await scene.hear("hello", author=scene.me.id, name="Claude", bot=True)
    scene.channel().permissions.update(manage_messages=True)
    await scene.hear(f"m context <@{scene.me.id}>", mentions=[scene.me])
    await settle()
    assert ["Only moderators can use" in text for text in scene.texts()] == [True]


async def test_right_after_an_answer_m_continue_is_carried_out():
    scene = await Scene("claude", env={"AGENT_COOLDOWN_SECONDS": "15"}).start()
    await scene.ask()
    await scene.hear("m continue")
    await settle()
    assert scene.texts() == ["Hello.", "Hello."]
    await scene.aclose()


@pytest.mark.parametrize("deleted", [True, False])
async def test_why_m_continue_is_not_carried_out_is_shown_where_it_can_be_seen(deleted):
    scene = await Scene("claude", env={"AGENT_MAX_DAILY": "1"}).start()
    scene.channel().permissions.update(manage_messages=deleted)
    await scene.ask()
    said = scene.channel().sent[0].id
    command = await scene.hear("m continue")
    await settle()
    assert scene.channel().deleted == ([command] if deleted else [])
    assert scene.channel().reacted == [(said if deleted else command, "⏳")]
    await scene.aclose()


async def test_in_a_stopped_channel_m_continue_shows_that_it_is_stopped(scene):
    await scene.hear("hello", author=scene.me.id, name="Claude", bot=True)
    await scene.silence.stop(Scope.channel(LOUNGE), source="x")
    command = await scene.hear("m continue")
    await settle()
    reacted = [one for client in scene.clients.values() for one in client.channels[LOUNGE].reacted]
    assert (reacted, scene.cog.asked) == ([(command, "🛑")], [])


async def test_every_way_to_speak_to_an_agent_has_the_time_that_the_owner_gives():
    scene = await Scene("claude", "grok", env={"TURN_TIMEOUT_SECONDS": "30"}).start()
    entered = entering(scene)
    await scene.ask()
    await from_grok(scene)
    await scene.hear("hello", author=scene.me.id, name="Claude", bot=True)
    await scene.hear("m continue")
    await settle()
    assert [(event.continues, event.by_person, event.deadline - scene.clock()) for event in entered] == [
        (False, True, 30),
        (False, False, 30),
        (True, True, 30),
    ]
    await scene.aclose()


async def test_m_context_of_who_may_not_is_answered_in_a_line(scene):
    await scene.hear("hello", author=scene.me.id, name="Claude", bot=True)
    await scene.hear("m context")
    await settle()
    assert scene.cog.asked == []
    assert ["Only moderators can use" in text for text in scene.texts()] == [True]


@pytest.mark.parametrize("text", [".note <@21>", "<@21> .note", "🙃 <@21>", "<@21> m think", "m x <@21>"])
async def test_hidden_messages_call_nobody(scene, text):
    await scene.hear(text, mentions=[scene.me])
    await settle()
    assert scene.cog.asked == []
    assert scene.channel().reacted == []


async def test_an_edit_of_what_was_complete_already_calls_nobody(scene):
    message_id = await from_grok(scene, "nothing for anybody")
    entry = scene.transcripts.of(LOUNGE).get(message_id)
    scene.transcripts.of(LOUNGE).revise(
        replace(entry, text="@Claude?", addressees=Addressees(frozenset({scene.me.id})))
    )
    await scene.cog.host.bot_mentions.heard(LOUNGE, message_id, "casual", edited=True)
    await settle()
    assert scene.cog.asked == []
