"""The thread of a room under the hands of a bot: unpatched py-cord on the stand-in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from agentic.chat.directory import Directory
from agentic.chat.outlet import CannotPost
from agentic.local.discord.world import MANAGE_THREADS, SEND_POLLS
from agentic.process.redaction import Redactor
from agentic.rooms.room_bot import Poll, ThreadWords
from agentic.services.discord.channels import refusal_in
from agentic.services.discord.gate import Gate, OutboundShared
from agentic.services.discord.room_threads import DiscordRoomBot
from agentic.state.leases import ALWAYS_HELD
from tests.support.discord.discord_standin_bots import one_bot
from tests.support.discord.faults import RestFault
from tests.support.doubles import MemoryPosts
from tests.support.redis_server import until

SECRET = "sesame-open-1234"


@dataclass
class Scene:
    server: Any
    bot: Any
    channel: Any
    thread: Any
    posts: MemoryPosts
    upkeep: DiscordRoomBot

    @property
    def place(self) -> Any:
        return self.server.world.channel(self.thread.id)

    @property
    def texts(self) -> list[str]:
        return [message.content for message in self.place.messages.values()]

    async def say(self, text: str, key: str = "k", **more: Any) -> None:
        await self.upkeep.say(self.channel.id, self.thread.id, text, key, **more)

    def without_manage_threads(self) -> None:
        for role in self.server.world.guild.roles.values():
            role.permissions &= ~MANAGE_THREADS


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with one_bot() as (server, bot, channel):
        directory, posts = Directory(), MemoryPosts()
        directory.learn("claude", bot.user.id)
        message = await channel.send("Is P equal to NP?")
        thread = await message.create_thread(name="P and NP")
        gate = Gate(shared=OutboundShared(Redactor([SECRET])))
        upkeep = DiscordRoomBot("claude", bot, gate, directory, posts, ALWAYS_HELD)
        yield Scene(server, bot, channel, thread, posts, upkeep)


async def test_a_notice_is_posted_once_pings_nobody_and_has_no_secret():
    async with scene() as s:
        await s.say(f"🫥 @everyone {SECRET}")
        await s.say(f"🫥 @everyone {SECRET}")
        (message,) = [each for each in s.place.messages.values() if each.content.startswith("🫥")]
        assert not message.mention_everyone
        assert SECRET not in message.content


@pytest.mark.promise(230)
async def test_after_a_restart_a_notice_is_looked_for_by_its_first_line():
    async with scene() as s:
        await s.say("🫥 closed\none way", "before")
        await s.say("🫥 closed\nanother way", "after", since=s.thread.created_at.timestamp())
        assert [text for text in s.texts if text.startswith("🫥")] == ["🫥 closed\none way"]
        await s.say("🫥 closed\nanother way", "later", since=s.thread.created_at.timestamp() + 3600)
        assert len([text for text in s.texts if text.startswith("🫥")]) == 2


async def test_a_person_s_message_is_no_notice():
    async with scene() as s:
        await s.server.say("you", s.thread.id, "🫥 closed")
        await s.say("🫥 closed", since=0.0)
        assert s.texts.count("🫥 closed") == 2


async def test_a_notice_may_stand_in_the_channel_above():
    async with scene() as s:
        await s.upkeep.say(s.channel.id, None, "🫥 gone", "k")
        assert s.server.messages(s.channel.id)[-1]["content"] == "🫥 gone"


@pytest.mark.promise(231)
async def test_a_bot_that_manages_threads_locks_one_and_writes_in_it_all_the_same():
    async with scene() as s:
        assert s.upkeep.may_lock(s.channel.id)
        await s.upkeep.lock(s.channel.id, s.thread.id, locked=True)
        assert s.place.locked
        await until(lambda: s.bot.get_channel(s.thread.id).locked)
        assert refusal_in(s.bot.get_channel(s.thread.id)) == "not_permitted"
        assert refusal_in(s.bot.get_channel(s.thread.id), our_lock=True) is None
        await s.say("🫥 still here")
        await s.upkeep.lock(s.channel.id, s.thread.id, locked=False)
        assert not s.place.locked


async def test_without_manage_threads_nothing_is_locked():
    async with scene() as s:
        s.without_manage_threads()
        with pytest.raises(CannotPost, match="not_permitted"):
            await s.upkeep.lock(s.channel.id, s.thread.id, locked=True)
        assert not s.place.locked


async def test_an_archived_thread_is_found_and_brought_back():
    async with scene() as s:
        await s.upkeep.archive(s.channel.id, s.thread.id, archived=True)
        assert s.place.archived
        await until(lambda: s.bot.get_channel(s.thread.id) is None or s.bot.get_channel(s.thread.id).archived)
        await s.upkeep.archive(s.channel.id, s.thread.id, archived=False)
        assert not s.place.archived


async def test_a_vote_is_a_person_s_thumb_of_any_color_once_a_post():
    async with scene() as s:
        first = await s.thread.send("No.")
        second = await s.server.say_as_webhook("Clio", s.thread.id, "Yes, since 1971.")
        await s.posts.add(s.thread.id, int(second["id"]), "historian")
        await s.thread.send("🫥 The floor is yours")
        await s.server.say("you", s.thread.id, "I vote")
        for emoji in ("👍", "👍🏽"):
            await s.server.react("you", s.thread.id, first.id, emoji)
        await s.server.react("you", s.thread.id, int(second["id"]), "🔥")
        await first.add_reaction("👍")
        found = (await s.upkeep.words(s.channel.id, s.thread.id)).posts
        person = s.server.world.user("you").id
        assert [(each.agent, each.text, each.voters) for each in found] == [
            ("claude", "No.", frozenset({person})),
            ("historian", "Yes, since 1971.", frozenset()),
        ]


async def test_a_post_has_names_for_the_people_and_bots_that_it_mentions():
    async with scene() as s:
        person, claude = s.server.world.user("you"), s.server.world.user("claude")
        post = await s.server.say_as_webhook(
            "Clio", s.thread.id, f"<@{person.id}>, ask <@{claude.id}> in <#{s.channel.id}>"
        )
        await s.posts.add(s.thread.id, int(post["id"]), "historian")
        await s.server.say("you", s.thread.id, "I will")
        (found,) = (await s.upkeep.words(s.channel.id, s.thread.id)).posts
        assert found.text == f"@{person.display_name}, ask @Claude in #{s.channel.name}"


async def test_a_long_thread_is_read_page_by_page():
    async with scene() as s:
        for number in range(105):
            await s.server.say("claude", s.thread.id, f"point {number}")
        found = (await s.upkeep.words(s.channel.id, s.thread.id)).posts
        assert [each.text for each in found] == [f"point {number}" for number in range(105)]


# polls

POLL = Poll("Is P equal to NP? Where do you stand?", ("For", "Against", "Undecided"), 32 * 24)


async def asked(s: Scene, **more: Any) -> int:
    return await s.upkeep.ask(s.channel.id, s.thread.id, "🫥 say", POLL, "k", **{"since": None, **more})


async def test_a_poll_is_posted_once_and_looked_for_after_a_restart():
    async with scene() as s:
        first = await asked(s)
        assert await asked(s) == first
        assert await asked(s, since=s.thread.created_at.timestamp()) == first
        (message,) = [each for each in s.place.messages.values() if each.poll is not None]
        assert message.id == first
        assert message.poll.question == {"text": POLL.question}
        assert [each["poll_media"]["text"] for each in message.poll.answers] == ["For", "Against", "Undecided"]
        assert message.poll.ends - s.server.world.clock() == pytest.approx(32 * 86400, abs=60)


async def test_a_poll_s_question_has_no_secret():
    async with scene() as s:
        poll = Poll(f"Is {SECRET} safe?", ("For",), 1)
        made = await s.upkeep.ask(s.channel.id, s.thread.id, "🫥 say", poll, "k", since=None)
        assert SECRET not in s.place.messages[made].poll.question["text"]


async def test_people_s_answers_are_read_while_a_poll_is_open_and_after_it_ended():
    async with scene() as s:
        made = await asked(s)
        people = [await s.server.add_person(f"person {number}") for number in range(103)]
        for one in people:
            await s.server.vote(int(one["id"]), s.thread.id, made, "For")
        await s.server.vote("you", s.thread.id, made, "For")
        await s.server.vote("you", s.thread.id, made, "Undecided")
        expected = {int(one["id"]): "for" for one in people} | {s.server.world.user("you").id: "undecided"}
        assert await s.upkeep.stands(s.channel.id, s.thread.id, made) == expected
        for _ in range(2):  # a second end changes nothing
            await s.upkeep.end_poll(s.channel.id, s.thread.id, made)
        assert s.place.messages[made].poll.ended
        with pytest.raises(ValueError, match="Poll expired"):
            await s.server.vote("you", s.thread.id, made, "For")
        assert await s.upkeep.stands(s.channel.id, s.thread.id, made) == expected


async def test_a_poll_and_its_result_are_no_posts_of_the_room():
    async with scene() as s:
        made = await asked(s)
        await s.upkeep.end_poll(s.channel.id, s.thread.id, made)
        assert await s.upkeep.words(s.channel.id, s.thread.id) == ThreadWords()


async def test_only_its_author_ends_a_poll_and_a_deleted_one_is_gone():
    async with scene() as s:
        other = await s.server.say("you", s.thread.id, "mine")
        with pytest.raises(CannotPost, match="not_permitted"):
            await s.upkeep.end_poll(s.channel.id, s.thread.id, int(other["id"]))
        with pytest.raises(CannotPost, match="gone"):
            await s.upkeep.stands(s.channel.id, s.thread.id, 1)


async def test_without_create_polls_a_bot_may_not_ask():
    async with scene() as s:
        assert s.upkeep.may_ask(s.channel.id)
        for role in s.server.world.guild.roles.values():
            role.permissions &= ~SEND_POLLS
        with pytest.raises(CannotPost, match="not_permitted"):
            await asked(s)
        assert not any(each.poll for each in s.place.messages.values())


@pytest.mark.parametrize(("status", "reason"), [(404, "gone"), (403, "not_permitted")])
async def test_what_discord_refuses_has_its_reason(status, reason):
    async with scene() as s:
        s.server.faults.add(RestFault(method="POST", path=r"/messages$", status=status, times=5))
        with pytest.raises(CannotPost, match=reason):
            await s.say("🫥 hello")


async def test_a_channel_that_the_bot_does_not_see_yet_may_still_come():
    async with scene() as s:
        assert s.upkeep.sees(s.channel.id)
        assert not s.upkeep.sees(1)
        with pytest.raises(CannotPost, match="unknown_channel"):
            await s.upkeep.lock(1, s.thread.id, locked=True)
