"""An agent comes back and finds what came while it was away."""

import asyncio
from types import SimpleNamespace

import discord
import pytest

from agentic.context.entries import Entry, Speaker
from agentic.inbox.catch_up import ROUND_SECONDS, choose_missed
from agentic.inbox.triggers import Call
from agentic.services.discord.messages import to_entry
from agentic.state.idle import ProactiveMessage
from agentic.state.silence import ChannelRef, Scope
from tests.support.agent_scene import BOTS_ROLE, LOUNGE, MEMES, THREAD, Scene
from tests.support.doubles import BOB, LoopTime, http_error, message, user, user_payload

CAROL, DAVE = 13, 14


class Return:
    """A bot that is back: `past` stands in its channels before it attends to anything."""

    def __init__(self, **env):
        self.scene = Scene(env=env)
        self.scene.state.coordination.presence.first["claude"] = self.scene.clock.now - 3600
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
        self.task = asyncio.create_task(self.scene.cog.host.run_catch_up())
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
    await back.passes(2 * ROUND_SECONDS)
    assert len(scene.texts()) == 1


@pytest.mark.promise(87)
async def test_a_mention_in_a_past_that_could_not_be_read_at_first_is_answered_when_it_was_read(back):
    back.asked()
    scene, channel = back.scene, back.scene.channel(LOUNGE)
    channel.wrong = [http_error(500), OSError(104, "reset"), http_error(502)]
    await back.comes()
    assert scene.texts() == []
    await back.passes(30)
    assert scene.texts() == ["Hello."]
    await back.passes(60)
    assert len(scene.texts()) == 1


@pytest.mark.promise(99)
async def test_what_an_earlier_run_answered_is_not_answered_again(back):
    asked = back.asked()
    scene = back.scene
    earlier = await Scene(state=scene.state).start()
    await earlier.ask(message_id=asked)
    assert len(earlier.texts()) == 1
    scene.state.bus = scene.bus
    await back.comes()
    assert (scene.texts(), scene.cog.asked) == ([], [])
    await earlier.aclose()


async def test_who_had_an_answer_in_one_channel_gets_one_to_what_was_missed_in_another(back):
    asked = back.asked(ago=90)
    scene = back.scene
    earlier = await Scene(state=scene.state).start()
    await earlier.ask(message_id=asked)
    await earlier.aclose()
    scene.state.bus = scene.bus
    back.asked("and here?", channel=MEMES)
    await back.comes()
    assert (scene.texts(), len(scene.texts(MEMES))) == ([], 1)


async def test_what_was_passed_over_for_a_newer_question_is_not_answered_in_the_next_session(back):
    for ago in (90, 60, 30):
        back.asked(f"asked {ago} s ago", ago=ago)
    scene = await back.comes()
    await scene.cog.on_ready()
    await back.passes(2 * ROUND_SECONDS)
    assert ["asked 30 s ago" in prompt.text for prompt, _ in scene.cog.asked] == [True]


async def test_missed_mentions_wait_for_a_redis_that_is_away(back):
    back.asked()
    back.scene.state.away = True
    scene = await back.comes()
    assert scene.texts() == []
    scene.state.away = False
    await back.passes(2 * ROUND_SECONDS)
    assert scene.texts() == ["Hello."]


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
    back.scene.state.coordination.presence.first.clear()
    back.asked()
    scene = await back.comes()
    back.scene.state.coordination.presence.first["claude"] = scene.clock.now
    await scene.cog.on_ready()
    await back.passes(2 * ROUND_SECONDS)
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
    await back.passes(2 * ROUND_SECONDS)
    assert scene.texts() == []
    await scene.ask("and now?", author=BOB)  # heard, and nobody acts
    scene.acts = True
    await back.passes(2 * ROUND_SECONDS)
    assert len(scene.texts()) == 2


async def test_open_turns_wait_for_a_redis_that_is_away(back):
    scene = back.scene
    earlier = await Scene(state=scene.state).start()
    earlier.answers(asyncio.Event().wait)
    await earlier.instruct()
    await earlier.aclose()
    scene.state.crash()
    scene.state.bus = scene.bus
    scene.state.away = True
    await back.comes()
    assert scene.texts() == []
    scene.state.away = False
    await back.passes(2 * ROUND_SECONDS)
    assert scene.texts() == ["Hello."]


# -- orders that were given while it was away --------------------------------------------------------------------------

RIGHTS = {"MODERATOR_IDS": "11"}  # Alice


def signed(back, *, ago, author=None, givers=(11,), emoji="🛑"):
    """A post of the bot's own (or of `author`) that people put a sign at, while it was away."""
    me, place = back.scene.me, back.scene.channel()
    users = [user(giver, f"user{giver}") for giver in givers]
    message_id = back.wrote("as I said", ago=ago, author=author or me.id, bot=author is None)
    given = SimpleNamespace(
        emoji=emoji,
        count=len(users),
        count_details=SimpleNamespace(burst=0),
        users=lambda **_: SimpleNamespace(flatten=_answering(users)),
    )
    place.past[0].reactions = [given]
    place.fetch_message = lambda wanted: _answering(next(one for one in place.past if one.id == wanted))()
    return message_id


def _answering(value):
    async def answer():
        return value

    return answer


@pytest.mark.promise(108)
@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_a_stop_that_came_while_it_was_away_holds_and_is_not_answered(back):
    asked = back.asked("are you there?", ago=90, author=BOB)
    order = back.asked("stop", ago=60)
    scene = await back.comes()
    assert scene.silence.check(ChannelRef(LOUNGE))
    assert (scene.texts(), scene.cog.asked) == ([], [])
    assert scene.channel().reacted == [(order, "✅")]
    await scene.silence.resume(Scope.channel(LOUNGE))
    await scene.cog.on_ready()
    await back.passes(2 * ROUND_SECONDS)
    assert scene.texts() == [], f"{asked} was said before the stop"
    assert scene.channel().reacted == [(order, "✅")]


@pytest.mark.parametrize("back", [{**RIGHTS, "MENTION_CATCHUP_SECONDS": "0"}], indirect=True)
async def test_orders_are_looked_for_further_back_than_questions_and_also_by_a_new_installation(back):
    back.scene.state.coordination.presence.first.clear()
    back.asked("stop", ago=5 * 3600)
    scene = await back.comes()
    assert scene.silence.check(ChannelRef(LOUNGE))


@pytest.mark.promise(108)
@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_what_a_person_said_last_counts_and_what_was_asked_after_it_is_answered(back):
    back.asked("into the silence?", ago=70, author=CAROL)
    back.asked("stop", ago=80)
    back.asked("resume", ago=60)
    back.asked("and now?", ago=50, author=BOB)
    scene = await back.comes()
    assert not scene.silence.check(ChannelRef(LOUNGE))
    assert [prompt.text.count("and now?") > 0 for prompt, _ in scene.cog.asked] == [True]
    assert scene.texts() == ["Hello."]


@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_a_resume_that_was_said_since_by_a_command_is_not_undone(back):
    back.asked("stop", ago=60)
    back.scene.clock.now -= 30
    await back.scene.silence.resume(Scope.channel(LOUNGE))
    back.scene.clock.now += 30
    scene = await back.comes()
    assert not scene.silence.check(ChannelRef(LOUNGE))


@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_a_stop_with_a_time_counts_from_when_it_was_said(back):
    back.asked("stop 30", ago=60)
    scene = await back.comes()
    assert scene.silence.stopped_channels() == {LOUNGE: pytest.approx(scene.clock.now - 60 + 1800, abs=0.01)}


async def test_a_stop_of_somebody_without_the_right_ends_the_answers_to_them_and_no_others(back):
    back.asked("one?", ago=90, author=BOB)
    back.asked("and me?", ago=80, author=CAROL)
    back.asked("stop", ago=60, author=BOB)
    back.asked("resume", ago=50, author=DAVE)
    scene = await back.comes()
    assert not scene.silence.check(ChannelRef(LOUNGE))
    assert [("and me?" in prompt.text) for prompt, _ in scene.cog.asked] == [True], "no order is answered as a question"


@pytest.mark.parametrize(("asked_before", "answers"), [(True, []), (False, ["Hello."])])
async def test_a_stop_without_the_right_that_was_missed_ends_what_answers_earlier_words_of_that_person(
    back, asked_before, answers
):
    scene, go_on = await back.comes(), asyncio.Event()
    scene.answers(go_on.wait)
    if not asked_before:
        back.asked("stop", ago=0, author=BOB)
    scene.clock.now += 5
    await scene.ask("think hard", author=BOB)
    scene.clock.now += 5
    if asked_before:
        back.asked("stop", ago=0, author=BOB)
    scene.services.chats.transcripts.of(LOUNGE).note_gap()
    await scene.cog.on_ready()
    await back.passes(2)
    go_on.set()
    await back.passes(2)
    assert scene.texts() == answers


@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_a_stop_of_a_channel_that_came_meanwhile_covers_its_threads_until_the_channel_is_resumed(back):
    back.asked("stop", ago=90, channel=THREAD)
    back.asked("resume", ago=60, channel=LOUNGE)
    scene = await back.comes()
    assert (bool(scene.silence.check(ChannelRef(THREAD))), bool(scene.silence.check(ChannelRef(LOUNGE)))) == (
        False,
        False,
    )
    gap = back.asked("stop", ago=0, channel=LOUNGE)
    back.asked("hello?", ago=0, channel=THREAD, author=BOB)
    await scene.cog.on_ready()
    await back.passes(2 * ROUND_SECONDS)
    assert scene.silence.check(ChannelRef(LOUNGE))
    assert (scene.texts(THREAD), scene.channel().reacted[-1]) == ([], (gap, "✅"))


@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_who_stands_by_keeps_a_stop_that_came_meanwhile(back):
    back.asked("stop")
    back.scene.acts = False
    scene = await back.comes()
    assert scene.silence.check(ChannelRef(LOUNGE))


async def test_rights_of_a_role_or_to_manage_messages_are_looked_up_for_an_order_that_is_found(back):
    guild = back.scene.client.guild
    guild.members[11] = member(guild, 11)
    back.scene.channel().permissions.update(manage_messages=True)
    back.asked("stop")
    scene = await back.comes()
    assert scene.silence.check(ChannelRef(LOUNGE))


@pytest.mark.promise(108)
@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_the_stop_sign_at_a_post_of_its_own_is_found_when_it_comes_back(back):
    post = signed(back, ago=60)
    back.asked("hello?", ago=30, author=BOB)
    scene = await back.comes()
    assert scene.silence.check(ChannelRef(LOUNGE))
    assert (scene.texts(), scene.channel().reacted) == ([], [(post, "✅")])


@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
@pytest.mark.parametrize("how", ["undone", "no right", "a person's post", "another sign", "old"])
async def test_a_sign_that_is_no_order_any_more_or_never_was_stops_nothing(back, how):
    given = {"no right": {"givers": (BOB,)}, "a person's post": {"author": CAROL}, "another sign": {"emoji": "👍"}}
    signed(back, **{"ago": 90000 if how == "old" else 90, **given.get(how, {})})
    if how == "undone":
        back.asked("resume", ago=30)
    scene = await back.comes()
    assert not scene.silence.check(ChannelRef(LOUNGE))


@pytest.mark.promise(108)
@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_a_sign_that_was_put_there_during_a_gap_in_which_nobody_wrote_is_found(back):
    scene = await back.comes()
    post = signed(back, ago=0)
    transcript = scene.services.chats.transcripts.of(LOUNGE)
    transcript.add(Entry(post, Speaker(scene.me.id, "Claude", "agent", "claude"), "as I said", scene.clock.now))
    assert not scene.silence.check(ChannelRef(LOUNGE))
    await scene.cog.on_ready()
    await back.passes(2)
    assert scene.silence.check(ChannelRef(LOUNGE))


async def unasked(back, message_id):
    await back.scene.state.posts.proactive.note((message_id,), ProactiveMessage(11, "claude", "discover"))


@pytest.mark.promise(493)
@pytest.mark.parametrize(("days", "counts"), [(0.1, True), (6.9, True), (7.1, False)])
async def test_a_mute_sign_of_the_last_week_is_found_when_it_comes_back(back, days, counts):
    await unasked(back, signed(back, ago=days * 86400, emoji="🔕"))
    scene = await back.comes()
    assert await scene.state.posts.proactive.is_unwanted(11) == counts


@pytest.mark.promise(493)
async def test_a_mute_sign_that_was_put_there_during_a_gap_in_which_nobody_wrote_is_found(back):
    scene = await back.comes()
    await unasked(back, post := signed(back, ago=0, emoji="🔕"))
    transcript = scene.services.chats.transcripts.of(LOUNGE)
    transcript.add(Entry(post, Speaker(scene.me.id, "Claude", "agent", "claude"), "as I said", scene.clock.now))
    await scene.cog.on_ready()
    await back.passes(2)
    assert await scene.state.posts.proactive.is_unwanted(11)
    assert scene.channel().reacted == [(post, "✅")]
    await scene.services.record.consents.allow(11, because="command")
    await scene.cog.on_ready()
    await back.passes(2)
    assert not await scene.state.posts.proactive.is_unwanted(11), "an old sign, and a newer word"


async def test_a_mention_that_came_while_it_was_not_certain_who_acts_is_answered_when_it_is(back):
    scene = await back.comes()
    await back.passes(2 * ROUND_SECONDS)
    scene.acts = False
    await scene.ask("are you there?")
    scene.acts = True  # before it was looked at
    await back.passes(2 * ROUND_SECONDS)
    assert scene.texts() == ["Hello."]


async def test_who_takes_over_looks_for_what_came_although_it_was_never_away(back):
    scene = await back.comes()
    scene.acts = False
    await back.passes(2 * ROUND_SECONDS)
    asked = back.asked(ago=0)
    place = scene.channel()
    scene.services.chats.transcripts.of(LOUNGE).add(to_entry(place.past[0], scene.directory))
    scene.acts = True
    await back.passes(2 * ROUND_SECONDS)
    assert scene.texts() == ["Hello."], asked


def member(guild, user_id):
    """A member of the guild without roles of their own."""
    data = {"user": user_payload(user_id, f"user{user_id}"), "roles": [], "joined_at": None, "flags": 0}
    made = discord.Member(data={**data, "deaf": False, "mute": False}, guild=guild, state=user(1, "x")._state)
    return made


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
    scene.services.chats.transcripts.of(THREAD).is_complete = True
    gap = back.wrote("unheard", channel=THREAD, ago=0)
    scene.clock.now += 3600
    await scene.cog.on_ready()
    await back.passes(2)
    assert gap in scene.services.chats.transcripts.of(THREAD)


def test_people_who_had_theirs_are_passed_over():
    calls = [(entry(number, number), Call.MENTION) for number in (3, 2, 1)]
    found = choose_missed(calls, people := {3})
    assert ([each.id for each, _ in found], people) == ([2, 1], {1, 2, 3})


@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_an_order_to_a_bot_that_comes_later_is_obeyed_when_it_is_known(back):
    grok = user(22, "Grok", bot=True)
    back.wrote("<@22> stop", mentions=[grok], ago=60)
    scene = await back.comes()
    assert not scene.silence.check(ChannelRef(LOUNGE)), "nobody knows yet whom it is for"
    scene.directory.learn("grok", 22)
    await back.passes(2 * ROUND_SECONDS)
    assert scene.silence.check(ChannelRef(LOUNGE))


@pytest.mark.parametrize("back", [RIGHTS], indirect=True)
async def test_a_sign_at_another_bots_post_is_shown_to_be_heard_by_whichever_found_it(back):
    back.scene.directory.learn("grok", 22)
    post = signed(back, ago=60, author=22)
    scene = await back.comes()
    assert scene.silence.check(ChannelRef(LOUNGE))
    assert scene.channel().reacted == [(post, "✅")]
