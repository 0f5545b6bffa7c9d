"""A person is forgotten by the whole program: by bots in two processes, each with files of its own."""

import json
import re

import pytest

from tests.flows.test_commands_flow import ready, use
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.program import environment, program, secrets_of
from tests.support.redis_server import RedisServer, until

pytestmark = pytest.mark.usefixtures("warm")

HOOK = "## Hooks\n### agent_stop\n- when: message\n\nNOTE what was said.\n"


def noting(request):
    """The hook behind an answer notes the channel's last question; nobody else notes anything."""
    if "NOTE what was said." in request.tail and not request.results:
        said = re.findall(r"says-\w+", "\n".join(request.texts))[-1]
        return Answer(text="", calls=(("memory", json.dumps({"action": "append", "text": said})),))
    return decision("I see")


async def test_who_wants_to_be_forgotten_is_in_both_processes_and_in_one_that_was_away(tmp_path):
    apart = tmp_path / "apart" / "personas" / "claude"
    apart.mkdir(parents=True)
    (apart / "agents.md").write_text(HOOK)
    memory = lambda: (apart / "memory.md").read_text()  # noqa: E731
    with RedisServer() as redis:
        async with flow(tmp_path / "here", redis_url=redis.url) as f:
            f.models.answer = noting
            secrets = {name: secrets_of(f)[name] for name in ("BOT_TOKEN_CLAUDE", "ANTHROPIC_API_KEY")}
            there = environment(f, redis.url, secrets)

            async def says(who, word):
                await f.discord.say(who, "debate", f"<@{f.user_id('claude')}> says-{word}")
                await until(lambda: f"says-{word}" in memory())

            async with f.running(agents=("chatgpt",), coordinator=False, personas=True):
                await ready(f)
                async with program(tmp_path / "apart", f, **there):
                    await f.discord.wait_for(lambda: "claude" in f.discord.online, timeout=30)
                    await says("Bob", "bees")
                    await says("Alice", "boats")
                    assert f" by:{f.world.user('Bob').id} -->" in memory()
                    assert "Done" in await use(f, "forget me", "Bob")
                    await until(lambda: "bees" not in memory())
                    await says("Bob", "again")
                    assert "boats" in memory()
                await use(f, "forget me", "Alice")
                assert "boats" in memory(), "nobody was there to do it"
                async with program(tmp_path / "apart", f, **there):
                    await until(lambda: "boats" not in memory())
                assert "again" in memory(), "said after Bob's wish"
                kept = "".join(path.read_text() for path in (apart / ".history").iterdir())
                assert "bees" not in kept
                assert "boats" not in kept
