"""An agent comes back and finds what came while it was away."""

import asyncio

import pytest

from agent_cogs.arrears import TAKE_UP_EVERY, missed
from agent_cogs.triggers import Call
from agent_context.entries import Entry, Speaker
from tests.agent_scene import BOTS_ROLE, LOUNGE, MEMES, THREAD, Scene
from tests.doubles import BOB, LoopTime, message

CAROL, DAVE = 13, 14


class Return:
    """A bot that is back: `past` stands in its channels before it attends to anything."""

    def __init__(self, **env):
        self.scene = Scene(env=env)
        self.scene.ledger.presence.first["claude"] = self.scene.clock.now - 3600
        self.task = None

    def wrote(self, text, *, author=11, ago=60.0, channel=LOUNGE, **more):
        """Somebody wrote while the bot was away; the message's id."""
        scene = self.scene
        scene.clock.now -= ago
        message_id = scene.ids()
        scene.clock.now += ago
        place = scene.channel(channel)
        place.past.insert(0, message(place, message_id, text, author=author, **more))
        place.last_message_id = max(place.last_message_id or 0, message_id)
        return message_id

    def asked(self, text="are you there?", **more):
        me = self.scene.me
        return self.wrote(f"<@{me.id}> {text}", mentions=[me], **more)

    async def comes(self):
        self.time = LoopTime()
        await self.scene.start()
        self.task = asyncio.create_task(self.scene.cog.attend())
        await self.passes(2)
        return self.scene

    async def passes(self, seconds):
        await self.time.run(seconds)

    async def ends(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.scene.aclose()


@pytest.fixture
async def back(request):
    made = Return(**getattr(request, "param", {}))
    yield made
    await made.ends()


async def test_a_mention_that_came_while_it_was_away_is_answered_once(back):
    message_id = back.asked()
    scene = await back.comes()
    assert scene.texts() == ["Hello."]
    await scene.cog.on_ready()  # a new session
    await scene.hear("again", message_id=message_id, mentions=[scene.me])
    await back.passes(2 * TAKE_UP_EVERY)
    assert len(scene.texts()) == 1


async def test_what_an_earlier_run_answered_is_not_answered_again(back):
    asked = back.asked()
    scene = back.scene
    earlier = await Scene(ledger=scene.ledger).start()
    await earlier.ask(message_id=asked)
    assert len(earlier.texts()) == 1
    scene.ledger.bus = scene.bus
    await back.comes()
    assert (scene.texts(), scene.cog.asked) == ([], [])
    await earlier.aclose()


async def test_a_mention_by_role_or_reply_counts_and_chatter_does_not(back):
    me = back.scene.me
    mine = message(back.scene.channel(), 5, "hi", author=me.id, name=me.name, bot=True)
    payload = {
        "id": "5",
        "channel_id": str(LOUNGE),
        "author": {"id": str(me.id), "username": me.name, "discriminator": "0", "avatar": None, "bot": True},
        "content": mine.content,
        **{name: [] for name in ("mentions", "attachments", "embeds", "mention_roles")},
        **dict.fromkeys(("pinned", "mention_everyone", "tts"), False),
        "edited_timestamp": None,
        "type": 0,
    }
    reference = {"message_id": "5", "channel_id": str(LOUNGE)}
    back.wrote("just talking")
    back.wrote("and you?", author=BOB, message_reference=reference, referenced_message=payload)
    back.wrote(f"<@&{BOTS_ROLE}> hello all", author=CAROL, mention_roles=[str(BOTS_ROLE)])
    back.wrote(f"<@{me.id}> beep", author=99, bot=True, mentions=[me])
    scene = await back.comes()
    assert len(scene.cog.asked) == 2


async def test_at_most_three_a_channel_and_one_of_each_person_newest_first(back):
    for ago, author in ((70, DAVE), (60, 15), (50, CAROL), (40, BOB), (30, 11), (20, BOB)):
        back.asked(f"asked {ago} s ago", ago=ago, author=author)
    scene = await back.comes()
    prompts = [prompt.text for prompt, _ in scene.cog.asked]
    asked = [next(ago for ago in (70, 60, 50, 40, 30, 20) if f"asked {ago} s ago" in text) for text in prompts]
    assert asked == [20, 30, 50]


async def test_a_person_is_answered_in_one_channel(back):
    back.asked(channel=LOUNGE)
    back.asked(channel=MEMES)
    scene = await back.comes()
    assert len(scene.cog.asked) == 1


@pytest.mark.parametrize(
    ("back", "ago", "answers"),
    [({}, 590, 1), ({}, 610, 0), ({"MENTION_CATCHUP_SECONDS": "0"}, 60, 0), ({"MENTION_CATCHUP_SECONDS": "30"}, 60, 0)],
    indirect=["back"],
)
async def test_only_what_is_young_enough_is_answered(back, ago, answers):
    back.asked(ago=ago)
    scene = await back.comes()
    assert len(scene.texts()) == answers


async def test_a_fresh_install_never_answers_old_messages(back):
    back.scene.ledger.presence.first.clear()
    back.asked()
    scene = await back.comes()
    back.scene.ledger.presence.first["claude"] = scene.clock.now
    await scene.cog.on_ready()
    await back.passes(2 * TAKE_UP_EVERY)
    assert scene.texts() == []


async def test_the_cooldown_does_not_stand_between_those_who_waited():
    back = Return(AGENT_COOLDOWN_SECONDS="15")
    back.asked(author=11)
    back.asked(author=BOB)
    scene = await back.comes()
    assert len(scene.texts()) == 2
    await back.ends()


async def test_who_stands_by_answers_nothing_and_who_takes_over_what_came_meanwhile(back):
    back.asked()
    back.scene.acts = False
    scene = await back.comes()
    await back.passes(2 * TAKE_UP_EVERY)
    assert scene.texts() == []
    await scene.ask("and now?", author=BOB)  # heard, and nobody acts
    scene.acts = True
    await back.passes(2 * TAKE_UP_EVERY)
    assert len(scene.texts()) == 2


async def test_open_turns_wait_for_a_redis_that_is_away(back):
    scene = back.scene
    earlier = await Scene(ledger=scene.ledger).start()
    earlier.answers(asyncio.Event().wait)
    await earlier.instruct()
    await earlier.aclose()
    scene.ledger.turns.crash()
    scene.ledger.bus = scene.bus
    scene.ledger.turns.away = True
    await back.comes()
    assert scene.texts() == []
    scene.ledger.turns.away = False
    await back.passes(2 * TAKE_UP_EVERY)
    assert scene.texts() == ["Hello."]


def entry(number, person):
    return Entry(number, Speaker(person, "x", "person"), "", float(number))


async def test_a_mention_in_a_thread_that_came_while_it_was_away_is_answered_there(back):
    back.asked(channel=THREAD)
    scene = await back.comes()
    assert (scene.texts(THREAD), scene.texts()) == (["Hello."], [])


async def test_a_thread_that_was_silent_for_long_or_is_archived_is_not_read(back):
    back.asked(channel=THREAD, ago=601)
    scene = await back.comes()
    assert scene.channel(THREAD).reads == []
    back.asked(channel=THREAD)
    scene.channel(THREAD).archived = True
    await scene.cog.on_ready()
    await back.passes(2)
    assert (scene.channel(THREAD).reads, scene.texts(THREAD)) == ([], [])


async def test_what_was_said_in_a_known_thread_during_a_new_session_is_read(back):
    scene = await back.comes()
    await scene.hear("a first word", channel=THREAD)
    scene.house.transcripts.of(THREAD).whole = True
    gap = back.wrote("unheard", channel=THREAD, ago=0)
    scene.clock.now += 3600
    await scene.cog.on_ready()
    await back.passes(2)
    assert gap in scene.house.transcripts.of(THREAD)


def test_people_who_had_theirs_are_passed_over():
    found = missed([entry(1, 1), entry(2, 2), entry(3, 3)], lambda _: Call.MENTION, 2.0, people := {3})
    assert ([each.id for each, _ in found], people) == ([2], {2, 3})
