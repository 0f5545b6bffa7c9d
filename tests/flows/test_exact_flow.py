"""Exactly what a model sees, tried as people in the channel would try it; over real sockets."""

from __future__ import annotations

import json
import re

import pytest
from flow import decision, flow

TEXT_FILE = "text/plain"


def link(f, channel, message):
    return f"https://discord.com/channels/{f.world.guild.id}/{f.channel(channel)}/{message['id']}"


def shown(request):
    return "\n".join(request.texts)


def config(folder, **files):
    """Option files: "shared" or "bots/claude" → their YAML."""
    for name, text in files.items():
        path = folder / "config" / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"CONFIG_FILES_DIR": str(folder / "config")}


async def ask(f, channel="debate", text="what now?", bot="claude", **more):
    """Alice asks a bot; what its model was shown, when the answer is there."""
    before, said = len(f.models.requests), len(f.said(channel, bot))
    await f.discord.say("Alice", channel, f"<@{f.user_id(bot)}> {text}", **more)
    await f.models.wait_for(before + 1)
    await f.discord.wait_for(lambda: len(f.said(channel, bot)) > said)
    return f.models.requests[before]


async def context_file(f, channel="debate"):
    """What `m context` hands out."""
    before = [a for m in f.discord.messages(channel) for a in m["attachments"]]
    await f.discord.say("Alice", channel, "m context")
    files = await f.discord.wait_for(
        lambda: [a for m in f.discord.messages(channel) for a in m["attachments"] if a not in before]
    )
    return f.discord.backend.attachments[int(files[0]["id"])].content.decode()


def parts_of(content):
    """The parts of that file: what each is, and its text."""
    return re.findall(r"^-{20} ([^\n]*)\n(.*?)(?=\n\n-{20} |\Z)", content, re.DOTALL | re.MULTILINE)


async def test_m_context_is_what_the_model_is_sent_next_to_the_byte_up_to_the_tail(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        for number in range(11):
            await f.discord.say("Bob", "debate", f"remark {number}\nin two lines")
        await ask(f)
        sections = parts_of(await context_file(f))
        f.models.answer = lambda r: decision("Again.")
        request = await ask(f, text="and now?")
        assert sections[0] == ("system", request.system)
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
        await f.discord.unreact("Alice", "debate", said[0], "🙃")
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


async def test_a_context_is_bounded_by_characters(tmp_path):
    async with flow(tmp_path, **config(tmp_path, shared="max_characters: 1000\n")) as f:
        for number in range(20):
            await f.discord.say("Bob", "debate", f"remark {number} " + "x" * 190)
        async with f.running(agents=("claude",)):
            seen = shown(await ask(f))
            assert [f"remark {n} " in seen for n in (15, 16, 17, 19)] == [False, False, True, True]


async def test_late_edits_and_reactions_are_notes_until_the_cut(tmp_path):
    async with flow(tmp_path, **config(tmp_path, shared="max_messages: 6\nrolling_threshold: 4\n")) as f:
        said = [await f.discord.say("Bob", "debate", f"remark {n}") for n in range(4)]
        async with f.running(agents=("claude",)):
            first = await ask(f)
            await f.discord.edit("debate", said[1], "remark one")
            await f.discord.react("Alice", "debate", said[2], "🔥")
            second = await ask(f)
            assert f"[note: msg:{said[1]['id']} by Bob now reads] remark one" in shown(second)
            assert f"[note: msg:{said[2]['id']} by Bob now has] 🔥" in shown(second)
            assert "Bob: remark 1" in shown(second)
            window = "\n".join(first.texts[:-1])
            assert shown(second).startswith(window)
            for _ in range(3):
                last = await ask(f)
            assert "[note:" not in shown(last)


async def test_what_is_left_of_the_room_for_files_is_kept(tmp_path):
    async with (
        flow(tmp_path, **config(tmp_path, shared="max_file_characters: 1000\n")) as f,
        f.running(agents=("claude",)),
    ):

        def file(letter):
            return (f"{letter}.txt", (letter * 20 + "\n").encode() * 38, TEXT_FILE)

        for number in range(6):
            await f.discord.say("Bob", "debate", f"remark {number}")
        await f.discord.say("Bob", "debate", "see", attachments=[file("a")])
        first = shown(await ask(f))
        assert first.count("a" * 20) == 38
        for number in range(8):
            await f.discord.say("Bob", "debate", f"remark {number}")
        second = shown(await ask(f))
        assert second.count("a" * 20) == 38
        await f.discord.say("Bob", "debate", "and see", attachments=[file("b")])
        third = shown(await ask(f))
        assert (third.count("b" * 20), third.count("a" * 20)) == (38, 0)


async def test_two_posts_of_one_bot_are_one_message(tmp_path):
    async with flow(tmp_path, **config(tmp_path, shared="split_at: 200\n")) as f, f.running(agents=("claude",)):
        words = " ".join(f"word{number}" for number in range(60))
        f.models.answer = lambda r: decision(words)
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> talk")
        await f.discord.wait_for(lambda: "word59" in "".join(f.said("debate", "claude")))
        assert len(f.said("debate", "claude")) > 1
        assert max(map(len, f.said("debate", "claude"))) <= 200
        f.models.answer = lambda r: decision("ok")
        seen = shown(await ask(f))
        assert words in seen


@pytest.mark.parametrize("pinned", [True, False])
async def test_a_pinned_config_reaches_the_request_and_one_that_is_not_pinned_does_not(tmp_path, pinned):
    async with flow(tmp_path) as f, f.running(agents=("claude", "gemini")):
        text = ".config\n---\nmax_output_tokens: 321\ntemperature: 0.3\ncache_ttl: 1h\ntools: []"
        pin = await f.discord.say("Alice", "debate", text)
        if pinned:
            await f.discord.pin("Alice", "debate", pin)
        request = await ask(f)
        assert (request.raw["max_tokens"] == 321) is pinned
        assert (request.tools == ()) is pinned
        assert ('"ttl": "1h"' in json.dumps(request.raw)) is pinned
        other = await ask(f, bot="gemini")
        assert (other.raw["generationConfig"].get("temperature") == 0.3) is pinned


async def test_a_threads_config_is_its_parents_and_then_its_own(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        for place, text in (("debate", "max_messages: 3"), (None, "rolling_threshold: 0")):
            if place is None:
                start = await f.discord.say("Bob", "debate", "the branch")
                thread = int((await f.discord.create_thread("Alice", "debate", "side", start["id"]))["id"])
                place = thread
            pin = await f.discord.say("Alice", place, f".config claude\n---\n{text}")
            await f.discord.pin("Alice", place, pin)
        for number in range(6):
            await f.discord.say("Bob", thread, f"remark {number}")
        seen = shown(await ask(f, thread))
        assert [f"remark {n}" in seen for n in (2, 3, 4, 5)] == [False, False, True, True]
