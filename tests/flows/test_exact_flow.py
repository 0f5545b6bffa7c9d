"""Exactly what a model sees, tried as people in the channel would try it; over real sockets."""

from __future__ import annotations

import asyncio
import json
import re

from tests.support.asking import ask, context_file, link, parts_of, shown
from tests.support.flow import decision, flow
from tests.support.redis_server import until


async def test_m_context_is_what_the_model_is_sent_next_to_the_byte_up_to_the_tail(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        for number in range(11):
            await f.discord.say("Bob", "debate", f"remark {number}\nin two lines")
        await ask(f)
        sections = parts_of(await context_file(f))
        f.models.answer = lambda r: decision("Again.")
        request = await ask(f, text="and now?")
        assert sections[0][1].partition("# Your turn")[0] == request.system.partition("# Your turn")[0]
        users = [text for head, text in sections if head.startswith("user")]
        window, now = "\n".join(users[:-1]), "\n".join(request.texts[:-1])
        assert re.fullmatch(r"\n\[msg:\d+( \+\d+s)?\] Alice: @Claude and now\?", now.removeprefix(window))
        assert {"web_search", *(tool["name"] for tool in json.loads(sections[-1][1]))} == set(request.tools)
        assert sections[-2][0] == "search"
        assert json.loads(sections[-1][1])[0]["parameters"]["properties"].keys() == {"url", "offset"}


async def test_the_file_of_m_context_is_no_context(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        await ask(f)
        await context_file(f)
        seen = shown(await ask(f))
        assert "context-claude" not in seen
        assert "what Claude sees" not in seen


async def test_reactions_hide_and_show_and_an_edit_hides(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        said = [await f.discord.say("Bob", "debate", text) for text in ("one", ".two", "three", "four", "...five")]
        await f.discord.react("Alice", "debate", said[0], "🙃")
        await f.discord.react("Alice", "debate", said[1], "👁️‍🗨️")
        await f.discord.edit("debate", said[2], ".three")
        seen = shown(await ask(f))
        assert [f"Bob: {text}" in seen for text in ("one", ".two", "three", ".three", "four", "...five")] == [
            False, True, False, False, True, True,
        ]  # fmt: skip
        await f.discord.react("Alice", "debate", said[0], "🙃", given=False)
        await f.discord.react("Alice", "debate", said[3], "🫥")
        await f.discord.edit("debate", said[2], "three")
        own = next(m for m in f.discord.messages("debate") if m["author"].get("bot"))
        await f.discord.react("Alice", "debate", own, "🫥")
        seen = shown(await ask(f))
        assert [text in seen for text in (": one", ": three", ": four", own["content"])] == [True, True, False, False]


async def test_histories_nest_six_levels_of_which_five_are_followed_and_cycles_end(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        for level in range(7):
            await f.discord.create_channel(f"level-{level}")
        last = await f.discord.say("Bob", "level-6", "words of 6")
        for level in range(5, -1, -1):
            await f.discord.say(
                "Alice", f"level-{level}", f".history\n---\nlast: {link(f, f'level-{level + 1}', last)}"
            )
            last = await f.discord.say("Bob", f"level-{level}", f"words of {level}")
        await f.discord.say("Alice", "debate", f".history\n---\nlast: {link(f, 'level-0', last)}")
        seen = shown(await ask(f))
        assert [f"words of {n}" in seen for n in range(7)] == [True, True, True, True, True, False, False]


async def test_a_history_that_contains_itself_ends(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        await f.discord.create_channel("other")
        here = await f.discord.say("Bob", "debate", "said here")
        await f.discord.say("Alice", "other", f".history\n---\nlast: {link(f, 'debate', here)}")
        there = await f.discord.say("Bob", "other", "said there")
        command = await f.discord.say("Alice", "debate", f".history\n---\nlast: {link(f, 'other', there)}")
        await f.discord.edit("other", there, f"said there, before {command['id']}")
        await f.discord.say("Alice", "other", f".history\n---\nlast: {link(f, 'debate', command)}")
        seen = shown(await ask(f))
        assert seen.count("said here") == 1
        assert seen.count("said there") == 1


async def test_history_of_an_unauthorised_person_is_nothing_and_of_a_role_counts(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        await f.discord.create_channel("archive")
        said = await f.discord.say("Bob", "archive", "archived")
        await f.discord.say("Bob", "debate", "present words")
        await f.discord.say("Bob", "debate", f".history\n---\nlast: {link(f, 'archive', said)}")
        await f.discord.say("Bob", "debate", ".history")
        seen = shown(await ask(f))
        assert ("archived" in seen, "present words" in seen) == (False, True)


async def test_a_history_written_before_the_start_counts(tmp_path):
    async with flow(tmp_path) as f:
        await f.discord.create_channel("archive")
        said = await f.discord.say("Bob", "archive", "archived")
        await f.discord.say("Alice", "debate", f".history\n---\nlast: {link(f, 'archive', said)}")
        await f.discord.say("Bob", "debate", "x")
        await f.discord.say("Bob", "debate", f".history\n---\nlast: {link(f, 'archive', said)}")
        async with f.running(agents=("claude",)):
            seen = shown(await ask(f))
            assert seen.count("archived") == 1


async def test_a_thread_that_begins_with_a_history_has_that_alone(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        early = await f.discord.say("Bob", "debate", "early words")
        await f.discord.say("Bob", "debate", "middle words")
        start = await f.discord.say("Bob", "debate", "the branch")
        thread = await f.discord.create_thread("Alice", "debate", "side talk", start["id"])
        await f.discord.say("Alice", int(thread["id"]), f".history\n---\nlast: {link(f, 'debate', early)}")
        seen = shown(await ask(f, int(thread["id"])))
        assert [text in seen for text in ("early words", "middle words", "the branch")] == [True, False, False]


async def test_a_thread_on_a_bots_message_calls_nobody_and_its_first_line_is_no_message(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        await ask(f)
        own = next(m for m in f.discord.messages("debate") if m["author"].get("bot"))
        thread = int((await f.discord.create_thread("Bob", "debate", "side talk", own["id"]))["id"])
        seen = shown(await ask(f, thread))
        assert len(f.models.requests) == 2
        assert "(no text)" not in seen
        assert seen.count(own["content"]) == 1


async def test_m_continue_as_a_reply_and_where_it_may_not_be_deleted(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude", "grok")):
        await ask(f)
        await ask(f, bot="grok")
        own = next(m for m in f.discord.messages("debate") if m["author"]["username"] == "Claude")
        for role in f.world.guild.roles.values():
            if role.name == "bots":
                await f.discord.change_role(role.id, permissions=role.permissions & ~(1 << 13))
        await f.discord.say("Bob", "debate", "m continue", reply_to=own)
        await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 2)
        assert len(f.models.requests) == 3
        assert "m continue" not in shown(f.models.requests[-1])


def marks(request):
    """Where the cache marks stand: the beginning of each marked text."""
    parts = (part for message in request.raw["messages"] for part in message["content"])
    return [part["text"][:60] for part in parts if "cache_control" in part]


async def test_a_restart_sends_the_same_bytes_and_the_same_marks_again(tmp_path):
    async with flow(tmp_path, CONTEXT_WINDOW_SIZE="12") as f:
        for number in range(20):
            await f.discord.say("Bob", "debate", f"remark {number}")
        async with f.running(agents=("claude",)):
            await ask(f)
            for number in range(3):
                await f.discord.say("Bob", "debate", f"later {number}")
            before = await ask(f)
        async with f.running(agents=("claude",)):
            after = await ask(f)
        window = "\n".join(before.texts[:-1])
        assert "\n".join(after.texts[:-1]).startswith(window)
        assert after.system == before.system
        assert marks(after)[:1] == marks(before)[:1] != []


async def test_what_is_unpinned_or_edited_holds_at_once(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        pin = await f.discord.say("Alice", "debate", ".config\n---\nmax_output_tokens: 100")
        await f.discord.pin("Alice", "debate", pin)
        found = [(await ask(f)).raw["max_tokens"]]
        await f.discord.edit("debate", pin, ".config\n---\nmax_output_tokens: 200")
        found.append((await ask(f)).raw["max_tokens"])
        second = await f.discord.say("Alice", "debate", ".config grok\n---\nmax_output_tokens: 300")
        await f.discord.pin("Alice", "debate", second)
        found.append((await ask(f)).raw["max_tokens"])
        await f.discord.delete("debate", pin)
        found.append((await ask(f)).raw["max_tokens"])
        assert found == [100, 200, 200, 4000]


async def test_a_question_that_is_hidden_while_it_waits_is_neither_read_nor_answered(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        go_on = asyncio.Event()

        async def answer(_):
            await go_on.wait()
            return decision("here")

        f.models.answer = answer
        me = f.user_id("claude")
        await f.discord.say("Alice", "debate", f"<@{me}> first")
        await f.models.wait_for(1)
        second = await f.discord.say("Bob", "debate", f"<@{me}> a secret")
        await f.discord.react("Bob", "debate", second, "🫥")
        transcript = runtime.services.chats.transcripts.of(f.channel("debate"))
        await until(lambda: any(entry.reactions for entry in transcript.entries()))
        await f.discord.say("Alice", "debate", f"<@{me}> last")
        go_on.set()
        await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 2)
        assert len(f.models.requests) == 2
        assert all("a secret" not in shown(request) for request in f.models.requests)
