"""A debate that members propose, over the whole program: from a command or a reaction to a room, once."""

import pytest

from tests.flows.test_commands_flow import ready
from tests.flows.test_rooms_flow import thread_of, use
from tests.support.flow import flow
from tests.support.redis_server import RedisServer

TOPIC = "Should homework be banned?"


def proposals(f):
    return [message for message in f.discord.messages("debate") if "react with 🎤" in message["content"]]


async def proposed(f):
    """Wait for the proposal that people can react to, and return it."""
    await f.discord.wait_for(lambda: proposals(f) and proposals(f)[-1].get("reactions"))
    return proposals(f)[-1]


async def test_a_debate_begins_at_its_proposal_when_enough_people_want_it(tmp_path):
    async with flow(tmp_path, DEBATE_SUPPORTERS="2") as f, f.running() as runtime:
        await ready(f)
        await f.discord.add_person("Carol")
        assert "react with 🎤" in await use(f, "debate", {"topic": TOPIC, "personas": "Claude, Grok"}, "Bob")
        message = await proposed(f)
        assert message["content"].startswith(
            f"🫥 **{TOPIC}**: Claude and Grok could debate this in a thread. Bob proposed"
        )
        assert "already proposed a debate" in await use(f, "debate", {"topic": "And school?"}, "Bob")
        await f.discord.react("Bob", "debate", message["id"], "🎤")
        await f.discord.react("Carol", "debate", message["id"], "🎤")
        await f.discord.wait_for(lambda: thread_of(f))
        thread = thread_of(f)
        assert str(thread.id) == message["id"]
        await f.discord.wait_for(lambda: len(f.discord.messages(thread.id)) > 2)
        text = f.said("debate")[-1]
        assert text.startswith(f"**{TOPIC}**: Claude (for) and Grok (against)")
        assert "Bob proposed this debate, and 2 people wanted it." in text
        assert f"Proposed by <@{f.world.user('Bob').id}>" in await use(f, "room status", {}, channel=thread.id)
        room = await runtime.services.state.coordination.rooms.read(thread.id)
        assert (room.proposed, room.format, room.opened_by) == (True, "debate", f.world.user("Bob").id)
        assert [member.side for member in room.members] == ["for", "against"]
        assert await runtime.services.state.coordination.proposals.all() == []


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_reaction_to_a_bots_question_proposes_it_and_a_moderator_begins_it(tmp_path, restarts: bool):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            async with f.running():
                await ready(f)
                await f.discord.say("claude", "debate", "I drink tea. Is tea better than coffee?")
                asked = f.discord.messages("debate")[-1]["id"]
                await f.discord.react("Bob", "debate", asked, "🎤")
                message = await proposed(f)
                assert message["content"].startswith("🫥 **Is tea better than coffee?**: ")
                if not restarts:
                    await f.discord.react("Alice", "debate", message["id"], "🎤")
                    await f.discord.wait_for(lambda: thread_of(f))
            if restarts:
                await f.discord.react("Alice", "debate", message["id"], "🎤")
                async with f.running():
                    await f.discord.wait_for(lambda: thread_of(f))
            assert str(thread_of(f).id) == message["id"]
            assert len([text for text in f.said("debate") if "Is tea better" in text]) == 2
            assert "Bob proposed this debate, and a moderator began it." in f.said("debate")[-1]
