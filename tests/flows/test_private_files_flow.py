"""What is written on a plain start, by a user whose files everybody can read (umask 022)."""

import json
import os
import subprocess
import sys

import pytest

from agentic.process.root import ROOT
from tests.support.flow import QUICK, decision, flow
from tests.support.models.wire.values import Answer
from tests.support.program import Program, at, environment
from tests.support.redis_server import RedisServer, until
from tests.support.signal_flow import signal_flow

pytestmark = pytest.mark.usefixtures("warm")

# Nobody watches: voices think and wait no longer than they must.
AT_ONCE = (
    "from agentic.local import mode; from agentic.local.settings import Pace; "
    "mode.ONCE = mode.WATCHING = Pace((0, 0), (0, 0.01), max_rounds=2)"
)
AS_USUAL = "import os; os.umask(0o022)"


def readable_by_others(folder):
    """The files that others can reach and read, and the folders that they can list, below this one."""
    found = []
    for path, folders, files in os.walk(folder):
        if os.stat(path).st_mode & 0o077 == 0 and path != str(folder):
            folders.clear()  # nobody else gets in
            continue
        found += [name for name in (f"{path}/{file}" for file in files) if os.lstat(name).st_mode & 0o077]
    return found


def noting(request):
    """The model notes something in its memory, then answers."""
    if "memory" in request.tools and not request.results:
        return Answer(text="", calls=(("memory", json.dumps({"action": "append", "text": "Alice likes yew trees"})),))
    return decision("noted", topic="trees")


@pytest.mark.promise(523)
async def test_what_the_program_writes_is_its_owners_alone_to_read(tmp_path):
    tmp_path.chmod(0o755)
    persona = tmp_path / "personas" / "claude"
    persona.mkdir(parents=True)
    for folder in (persona, persona.parent):
        folder.chmod(0o755)
    for name in ("soul.md", "memory.md"):  # of an earlier start
        (persona / name).write_text(f"# {name}\n")
        (persona / name).chmod(0o644)
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            f.models.answer = noting
            settings = {**QUICK, **environment(f, redis.url)}
            code = f"{AS_USUAL}; {at(f.discord)}"
            with Program(tmp_path, "--only", "claude,grok", before=code, environment=settings):
                await f.discord.wait_for(lambda: f.discord.online >= {"claude", "grok"}, timeout=60)
                for name in ("claude", "grok"):
                    await f.discord.say("Alice", "casual", f"<@{f.user_id(name)}> I like yew trees")
                    await f.discord.wait_for(lambda name=name: f.said("casual", name), timeout=30)
                memories = [tmp_path / "personas" / name / "memory.md" for name in ("claude", "grok")]
                await until(lambda: all("yew" in memory.read_text() for memory in memories))
                await until(lambda: (tmp_path / "data" / "record.db").exists())
            assert readable_by_others(tmp_path) == [str(persona / "soul.md")]


async def test_an_agent_without_a_bot_hides_what_it_noted_in_earlier_starts(tmp_path):
    memory = tmp_path / "personas" / "claude" / "memory.md"
    memory.parent.mkdir(parents=True)
    memory.write_text("- Anna likes yew trees\n")
    memory.chmod(0o644)
    async with signal_flow(tmp_path) as f, f.running(personas=True):
        await f.say("why is the sky blue?")
        assert await f.answered()
        assert memory.stat().st_mode & 0o077 == 0


@pytest.mark.promise(523)
def test_local_mode_and_an_export_are_their_owners_alone_to_read(tmp_path):
    tmp_path.chmod(0o755)
    with Program(
        tmp_path, "--local", "--once", before=f"{AS_USUAL}; {AT_ONCE}", environment={"TIMEZONE": "UTC"}
    ) as local:
        assert local.wait(within=60) == 0, local.stderr
    command = [sys.executable, "-m", "agentic.record", "export", "--last", "--local", "--output", "page.html"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TIMEZONE": "UTC"}
    subprocess.run(command, cwd=tmp_path, env=environment, umask=0o022, check=True, capture_output=True)  # noqa: S603
    assert (tmp_path / "page.html").stat().st_size
    assert readable_by_others(tmp_path) == []
