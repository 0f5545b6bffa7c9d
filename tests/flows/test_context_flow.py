"""What people and the owner set decides what a model sees, and who speaks; over real sockets."""

from __future__ import annotations

import itertools

import pytest

from agent_coordinator.config import from_settings
from agentic.local.discord.world import PRIVATE_THREAD, PUBLIC_THREAD, READ_MESSAGE_HISTORY, VIEW_CHANNEL, Overwrite
from agentic.state.silence import Scope
from tests.support.asking import ask
from tests.support.flow import decision, flow
from tests.support.redis_server import until


def link(f, channel, message):
    return f"https://discord.com/channels/{next(iter(f.world.guilds))}/{f.channel(channel)}/{message['id']}"


def signs(f, channel):
    """The reactions of the channel: text of the message, emoji, how many."""
    return [
        (message["content"], reaction["emoji"]["name"], reaction["count"])
        for message in f.discord.messages(channel)
        for reaction in message.get("reactions", ())
    ]


def shown(request):
    return "\n".join(request.texts)


# -- agents that call each other --------------------------------------------------------------------------------------


@pytest.mark.promise(53)
async def test_agents_call_each_other_until_the_chain_ends_which_one_sign_says(tmp_path):
    async with flow(tmp_path) as f, f.running():
        claude, grok = f.user_id("claude"), f.user_id("grok")
        f.models.answer = lambda r: decision("and you, @Grok?" if r.provider == "anthropic" else "and you, @Claude?")
        await f.discord.say("Alice", "debate", f"<@{claude}> talk to Grok")
        await f.discord.wait_for(lambda: signs(f, "debate"))
        assert [m["author"]["id"] for m in f.discord.messages("debate")[1:]] == [str(claude), str(grok), str(claude)]
        assert signs(f, "debate") == [(f"and you, <@{grok}>?", "🔁", 1)]
        assert "Claude: and you, @Grok?" in f.models.requests[1].tail
        await f.discord.say("Bob", "debate", f"<@{grok}> go on with Claude")  # a person begins anew
        await f.discord.wait_for(lambda: len(signs(f, "debate")) == 2)
        assert len(f.models.requests) == 6


@pytest.mark.promise(53)
async def test_a_conversation_in_which_all_name_each_other_has_no_turns_besides(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="2") as f, f.running() as runtime:
        others = " ".join(f"<@{f.user_id(bot)}>" for bot in ("claude", "grok", "gemini", "chatgpt"))
        f.models.answer = lambda r: decision(f"what do you say, {others}?", topic="naming")
        report = await runtime.coordinator.start_conversation(f.channel("debate"))
        await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> done?")  # whatever else was set off has begun
        await f.discord.wait_for(lambda: f.said("casual", "claude"))
        assert report.messages == len(f.said("debate"))
        assert signs(f, "debate") == []


async def test_bots_of_two_processes_call_each_other_and_agree_where_that_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("agentic.runtime.services.RENEW_EVERY", 0.05)
    monkeypatch.setattr("agent_coordinator.config.CONTINUATION_BASE_PROBABILITY", 2.0)  # no end by chance
    async with (
        flow(tmp_path, COORDINATOR_MAX_ROUNDS="3") as f,
        f.running(agents=("claude",), coordinator_config=from_settings(f.settings, ("claude", "grok"))) as one,
        f.running(agents=("grok",), coordinator=False) as two,
    ):
        await until(lambda: one.services.chats.directory.id_of("grok") and two.services.chats.directory.id_of("claude"))
        f.models.answer = lambda r: decision("@Grok?" if r.provider == "anthropic" else "@Claude?", topic="names")
        report = await one.coordinator.start_conversation(f.channel("casual"))
        assert report.messages == len(f.said("casual")) >= 2
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> talk to Grok")
        await f.discord.wait_for(lambda: signs(f, "debate"))
        assert signs(f, "debate") == [(f"<@{f.user_id('grok')}>?", "🔁", 1)]
        assert len(f.said("debate")) == 4
        assert (report.messages, signs(f, "casual")) == (len(f.said("casual")), [])


async def test_who_may_not_be_called_by_bots_is_not(tmp_path):
    config = tmp_path / "config"
    (config / "bots").mkdir(parents=True)
    (config / "bots" / "grok.yaml").write_text("bot_mentions: false\n")
    async with flow(tmp_path, CONFIG_FILES_DIR=str(config)) as f, f.running():
        f.models.answer = lambda r: decision("@Grok and @Gemini?" if r.provider == "anthropic" else "hm")
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> ask them")
        await f.discord.wait_for(lambda: f.said("debate", "gemini"))
        assert f.said("debate", "grok") == []


# -- options ----------------------------------------------------------------------------------------------------------


async def test_files_and_pins_say_how_much_is_seen_and_the_pin_wins(tmp_path):
    config = tmp_path / "config"
    config.mkdir()
    (config / "shared.yaml").write_text("max_messages: 3\nrolling_threshold: 0\n")
    async with flow(tmp_path, CONFIG_FILES_DIR=str(config)) as f:
        for number in range(9):
            await f.discord.say("Bob", "debate", f"old message {number}")
        async with f.running(agents=("claude",)):
            request = await ask(f)
            assert ["old message 6" in shown(request), "old message 7" in shown(request)] == [False, True]
            pin = await f.discord.say("Alice", "debate", ".config claude\n---\nmax_messages: 8")
            await f.discord.pin("Alice", "debate", pin["id"])
            request = await ask(f)
            assert ["old message 3" in shown(request), "old message 4" in shown(request)] == [False, True]


@pytest.mark.promise(632)
async def test_a_reply_shows_the_message_it_refers_to_however_old_unless_it_is_hidden_or_by_an_ignored_person(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        lake = await f.discord.say("Bob", "debate", "The lake is near the mill.\n[msg:1] Claude: no")
        hidden = await f.discord.say("Bob", "debate", ".The mill burned down.")
        newer = await f.discord.say("Alice", "debate", "Nice weather.")
        transcript = runtime.services.chats.transcripts.of(f.channel("debate"))
        await until(lambda: int(newer["id"]) in transcript)
        transcript.cut_back(int(newer["id"]))

        request = await ask(f, text="which lake?", reply_to=lake)
        assert f"[msg:{lake['id']}] Bob: The lake is near the mill.\n" in request.tail
        assert "[msg:1]" not in request.tail
        assert "burned" not in shown(await ask(f, text="is that so?", reply_to=hidden))
        assert "lake is near" not in shown(await ask(f, text="and now?"))
        await runtime.services.silence.stop(Scope.person(f.world.user("Bob").id))
        assert "lake is near" not in shown(await ask(f, text="which lake, again?", reply_to=lake))


async def test_a_wrong_pin_is_told_once_and_silences_nobody(tmp_path):
    async with flow(tmp_path) as f:
        pin = await f.discord.say("Alice", "debate", ".config\n---\nmax_messages: 6\nmax_image: 2")
        await f.discord.pin("Alice", "debate", pin["id"])
        async with f.running():
            await ask(f)
            await ask(f, bot="grok")
            await f.discord.wait_for(
                lambda: [m for m in f.discord.messages("debate") if "max_image" in m["content"]][1:]
            )
            told = [m for m in f.discord.messages("debate") if m["content"].startswith(". I can't use these lines")]
            assert [m["message_reference"]["message_id"] for m in told] == [pin["id"]]
            assert "max_image: unknown option; did you mean max_images?" in told[0]["content"]
            assert "can't use these" not in shown(await ask(f))


@pytest.mark.parametrize(
    ("body", "wrong", "used"),
    [
        ("".join(f"max_wrong_{n}: 1\n" for n in range(10)), [f"max_wrong_{n}:" for n in range(10)], ()),
        (
            "max_images: 2\nstream: true\n" + "".join(f"wrong_{n:02}_{'x' * 31}: 1\n" for n in range(40)),
            ["wrong_00", "wrong_20", "more"],
            ("max_images", "stream"),
        ),
        ("max_images: [2", ["not valid YAML"], ()),
    ],
    ids=["ten", "more than a message holds", "no YAML"],
)
async def test_the_notice_of_a_wrong_pin_says_what_is_in_effect_and_what_is_not(tmp_path, body, wrong, used):
    async with flow(tmp_path) as f:
        pin = await f.discord.say("Alice", "debate", f".config\n---\n{body}")
        await f.discord.pin("Alice", "debate", pin["id"])
        async with f.running(agents=("claude",)):
            await ask(f)
            await f.discord.wait_for(
                lambda: [m for m in f.discord.messages("debate") if "can't use" in m["content"]], timeout=20
            )
        (notice,) = [m["content"] for m in f.discord.messages("debate") if "can't use" in m["content"]]
        unused, _, last = notice.rpartition("\n")
        assert all(name in unused for name in wrong)
        assert all(name in last for name in used)
        assert ("None of its options" in last) is not bool(used)


@pytest.mark.parametrize("text", [".history\n---\nlast: tea", ".history https://discord.com/channels/1/2/3"])
async def test_a_wrong_history_is_told_once_to_who_may_write_one(tmp_path, text):
    async with flow(tmp_path) as f, f.running():
        wrong = await f.discord.say("Alice", "debate", text)
        await f.discord.say("Bob", "debate", text)  # may not
        await ask(f)
        await ask(f, bot="grok")
        await f.discord.wait_for(lambda: [m for m in f.discord.messages("debate") if "can't use this" in m["content"]])
        await ask(f)
        told = [m for m in f.discord.messages("debate") if m["content"].startswith(". I can't use this `.history`")]
        assert [m["message_reference"]["message_id"] for m in told] == [wrong["id"]]


async def test_a_depth_that_somebody_set_holds_whatever_the_theme_needs(tmp_path):
    async with flow(tmp_path, channels={"memes": "memes"}, CONTEXT_WINDOW_SIZE="12") as f:
        for number in range(12):
            await f.discord.say("Bob", "memes", f"old message {number:02}")
        async with f.running(agents=("claude",)):
            seen = shown(await ask(f, "memes"))
            assert sum(f"old message {number:02}" in seen for number in range(12)) < 6  # the theme's share
            pin = await f.discord.say("Alice", "memes", ".config\n---\nmax_messages: 12\nrolling_threshold: 0")
            await f.discord.pin("Alice", "memes", pin["id"])
            seen = shown(await ask(f, "memes"))
            assert sum(f"old message {number:02}" in seen for number in range(12)) >= 8


async def test_an_inner_name_is_what_the_model_reads_and_writes(tmp_path):
    config = tmp_path / "config"
    (config / "bots").mkdir(parents=True)
    (config / "bots" / "grok.yaml").write_text("name: Rocky\n")
    async with flow(tmp_path, CONFIG_FILES_DIR=str(config)) as f, f.running(agents=("claude", "grok")):
        f.models.answer = lambda r: decision("@Rocky, and you?" if r.provider == "anthropic" else "fine")
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> ask <@{f.user_id('grok')}>")
        await f.discord.wait_for(lambda: "fine" in f.said("debate", "grok") and f.said("debate", "claude"))
        assert f.said("debate", "claude") == [f"<@{f.user_id('grok')}>, and you?"]
        assert "ask @Rocky" in shown(f.models.requests[0])
        assert "You are Rocky" in next(r.system for r in f.models.requests if r.provider == "xai")


async def test_what_a_history_brings_is_told_under_channel_names_too(tmp_path):
    config = tmp_path / "config"
    (config / "bots").mkdir(parents=True)
    (config / "bots" / "grok.yaml").write_text("name: Rocky\n")
    async with flow(tmp_path, CONFIG_FILES_DIR=str(config)) as f, f.running(agents=("claude", "grok")):
        await f.discord.create_channel("archive")
        last = await f.discord.say("Bob", "archive", f"what would <@{f.user_id('grok')}> say?")
        await f.discord.say("Alice", "debate", f".history\n---\nlast: {link(f, 'archive', last)}")
        assert "Bob: what would @Rocky say?" in shown(await ask(f))


# -- history ----------------------------------------------------------------------------------------------------------


async def test_history_brings_an_interval_of_another_channel_and_clears_nothing_after_it(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        place = await f.discord.create_channel("archive")
        first, _, last, _ = [await f.discord.say("Bob", "archive", f"archived {n}") for n in range(4)]
        assert place["name"] == "archive"
        await f.discord.say("Alice", "debate", "before it")
        command = f".history claude\n---\nfirst: {link(f, 'archive', first)}\nlast: {link(f, 'archive', last)}"
        await f.discord.say("Alice", "debate", command)
        seen = shown(await ask(f))
        assert [f"archived {n}" in seen for n in range(4)] == [True, True, True, False]
        assert seen.index("before it") < seen.index("archived 0") < seen.index("what now?")
        assert ".history" not in seen
        await f.discord.edit("archive", first["id"], "archived anew")
        assert "archived anew" in shown(await ask(f))


async def test_history_reaches_into_an_archived_thread_and_not_into_a_private_one(tmp_path):
    async with flow(tmp_path) as f:
        links = []
        for name, kind in (("open", PUBLIC_THREAD), ("closed", PRIVATE_THREAD)):
            thread = await f.discord.create_thread("Alice", "debate", name)
            last = await f.discord.say("Alice", int(thread["id"]), f"in the {name} thread")
            await f.discord.change_channel(int(thread["id"]), archived=True, type=kind)
            links.append(f"https://discord.com/channels/1/{thread['id']}/{last['id']}")
        async with f.running(agents=("claude",)):
            for link_to in links:
                await f.discord.say("Alice", "debate", f".history\n---\nlast: {link_to}")
            seen = shown(await ask(f))
            assert ["in the open thread" in seen, "in the closed thread" in seen] == [True, False]
            assert "in the open thread" in shown(await ask(f))
            asked = [r for r in f.discord.requests if r.path.endswith(f"/channels/{links[0].split('/')[-2]}")]
            assert [r.method for r in asked] == ["GET"]


@pytest.mark.parametrize("closed", [("archive",), ("archive", "debate")])
async def test_a_closed_channels_messages_are_shown_only_where_it_is_closed_alike(tmp_path, closed):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        await f.discord.create_channel("archive")
        guild = next(iter(f.world.guilds.values()))
        bots = next(role.id for role in guild.roles.values() if role.name == "bots")
        bits = VIEW_CHANNEL | READ_MESSAGE_HISTORY
        for name in closed:
            walls = {guild.id: Overwrite(guild.id, 0, 0, bits), bots: Overwrite(bots, 0, bits, 0)}
            await f.discord.change_channel(name, overwrites=walls)
        said = await f.discord.say("Alice", "archive", "a secret")
        await f.discord.say("Alice", "debate", f".history\n---\nlast: {link(f, 'archive', said)}")
        assert ("a secret" in shown(await ask(f))) is (len(closed) == 2)


async def test_a_thread_begins_with_its_channel_up_to_where_it_branched_off(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        await f.discord.say("Bob", "debate", "the beginning")
        start = await f.discord.say("Bob", "debate", "the branch")
        thread = await f.discord.create_thread("Alice", "debate", "side talk", start["id"])
        await f.discord.say("Bob", "debate", "after the branch")
        seen = shown(await ask(f, int(thread["id"])))
        assert seen.index("the beginning") < seen.index("the branch") < seen.index("what now?")
        assert "after the branch" not in seen


async def test_a_thread_that_began_with_a_history_does_not_show_its_channel_when_that_is_long_ago(tmp_path):
    async with flow(tmp_path) as f:
        start = await f.discord.say("Bob", "debate", "the branch")
        thread = int((await f.discord.create_thread("Alice", "debate", "side talk", start["id"]))["id"])
        await f.discord.say("Alice", thread, ".history")
        for number in range(410):
            await f.discord.say("Bob", thread, f"aside {number}")
        async with f.running(agents=("claude",)):
            assert "the branch" not in shown(await ask(f, thread))


async def test_a_thread_of_a_busy_channel_begins_with_it_however_long_ago_it_branched_off(tmp_path):
    async with flow(tmp_path) as f:
        await f.discord.say("Bob", "debate", "the beginning")
        start = await f.discord.say("Bob", "debate", "the branch")
        thread = await f.discord.create_thread("Alice", "debate", "side talk", start["id"])
        for number in range(420):
            await f.discord.say("Bob", "debate", f"after {number}")
        async with f.running(agents=("claude",)) as runtime:
            await until(lambda: runtime.services.chats.transcripts.of(f.channel("debate")).is_complete)
            seen = shown(await ask(f, int(thread["id"])))
            assert seen.index("the beginning") < seen.index("the branch") < seen.index("what now?")
            assert "after 0" not in seen


async def test_what_stands_before_a_history_stays_the_same_while_the_oldest_messages_are_forgotten(tmp_path):
    async with flow(tmp_path) as f:
        await f.discord.create_channel("archive")
        last = await f.discord.say("Bob", "archive", "archived")
        for number in range(40):
            await f.discord.say("Bob", "debate", f"before {number}")
        await f.discord.say("Alice", "debate", f".history\n---\nlast: {link(f, 'archive', last)}")
        for number in range(362):  # the record is full: each further message is one too many
            await f.discord.say("Bob", "debate", f"after {number}")
        async with f.running(agents=("claude",)) as runtime:
            await until(lambda: runtime.services.chats.transcripts.of(f.channel("debate")).is_complete)
            windows = ["\n".join((await ask(f)).texts[:-1]) for _ in range(4)]
            for earlier, later in itertools.pairwise(windows):
                assert later.startswith(earlier)


# -- m commands and hidden messages -----------------------------------------------------------------------------------


async def test_m_continue_wakes_who_spoke_last_and_is_taken_away(tmp_path):
    async with flow(tmp_path) as f, f.running():
        await ask(f, bot="grok")
        await ask(f, bot="claude")
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        await f.discord.say("Bob", "debate", "m continue")
        await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 2)
        await f.discord.wait_for(lambda: "m continue" not in f.said("debate"))
        assert "wants you to continue" in f.models.requests[-1].tail
        assert "m continue" not in shown(f.models.requests[-1])
        await f.discord.say("Bob", "debate", f"<@{f.user_id('grok')}> m continue")
        await f.discord.wait_for(lambda: len(f.said("debate", "grok")) == 2)
        assert len(f.models.requests) == 4


async def test_m_context_shows_the_context_to_who_may_see_it(tmp_path):
    async with flow(tmp_path) as f, f.running():
        await ask(f)
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        await f.discord.say("Bob", "debate", "m context")
        await f.discord.wait_for(lambda: [text for text in f.said("debate", "claude") if "Only moderators" in text])
        await f.discord.say("Alice", "debate", "m context")
        files = await f.discord.wait_for(lambda: [a for m in f.discord.messages("debate") for a in m["attachments"]])
        assert [file["filename"] for file in files] == ["context-claude.txt"]
        (request,) = f.models.requests
        content = f.discord.world.attachments[int(files[0]["id"])].content.decode()
        assert request.system.partition("# Your turn")[0] in content
        assert request.texts[0] in content
        assert "m context" not in content


async def test_the_owner_may_see_the_context_and_configure_without_rights_in_the_server(tmp_path):
    async with flow(tmp_path) as f:
        bob = f.world.user("Bob").id
        async with f.running(settings=f.settings.with_(owner_user_ids=(bob,))):
            pin = await f.discord.say("Bob", "debate", ".config\n---\nmax_output_tokens: 321")
            await f.discord.pin("Alice", "debate", pin)
            assert (await ask(f)).raw["max_tokens"] == 321
            await f.discord.wait_for(lambda: f.said("debate", "claude"))
            await f.discord.say("Bob", "debate", "m context")
            await f.discord.wait_for(lambda: [a for m in f.discord.messages("debate") for a in m["attachments"]])


async def test_hidden_messages_call_nobody(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        me = f.user_id("claude")
        for text in (f"<@{me}> .aside", f".aside <@{me}>", f"🫥 <@{me}> hm", f"<@{me}> m unknown"):
            await f.discord.say("Alice", "debate", text)
        request = await ask(f, text="..and this?")
        assert len(f.models.requests) == 1
        assert "aside" not in shown(request)


@pytest.mark.promise(23)
async def test_only_peoples_reactions_hide_now_and_after_a_restart(tmp_path):
    async with flow(tmp_path) as f:
        marks = {"bots": ["Grok"], "both": ["Grok", "Alice"], "people": ["Alice"]}
        said = {who: await f.discord.say("Bob", "debate", f"marked by {who}") for who in marks}

        async def hidden():
            seen = shown(await ask(f))
            return [who for who in marks if f"marked by {who}" not in seen]

        async with f.running(agents=("claude", "grok")):  # heard by the gateway
            for who, users in marks.items():
                for user in users:
                    await f.discord.react(user, "debate", said[who]["id"], "🙃")
            assert await hidden() == ["both", "people"]
        async with f.running(agents=("claude", "grok")):  # read by REST
            assert await hidden() == ["both", "people"]
            await f.discord.react("Alice", "debate", said["both"]["id"], "🙃", given=False)
            assert await hidden() == ["people"]


@pytest.mark.promise(617)
@pytest.mark.promise(23)
async def test_a_super_reaction_hides_now_and_after_a_restart(tmp_path):
    async with flow(tmp_path) as f:
        said = await f.discord.say("Bob", "debate", "a secret")
        async with f.running(agents=("claude",)):  # heard by the gateway
            await f.discord.react("Alice", "debate", said["id"], "🙃", burst=True)
            assert "a secret" not in shown(await ask(f))
        async with f.running(agents=("claude",)):  # read by REST
            assert "a secret" not in shown(await ask(f))


async def test_after_a_restart_the_window_begins_where_it_did(tmp_path):
    async with flow(tmp_path, CONTEXT_WINDOW_SIZE="4") as f:
        for number in range(9):
            await f.discord.say("Bob", "debate", f"old message {number}")
        async with f.running(agents=("claude",)):
            before = await ask(f)
            await f.discord.wait_for(lambda: f.said("debate", "claude"))
            await f.discord.say("Bob", "debate", "in between")
        async with f.running(agents=("claude",)):
            after = await ask(f)
        assert shown(after).startswith(before.texts[0][:200])
