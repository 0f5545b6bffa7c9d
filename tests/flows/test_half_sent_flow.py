"""Strangers hold hundreds of connections to a port of the program, which has 1,024 file descriptors in all."""

import errno

import pytest

from agentic.agent import options as option_files
from agentic.agent.options import OptionFiles
from tests.support.flow import QUICK, flow
from tests.support.half_sent import PORTS, free_ports, half_sent, honest_answer, settings_of
from tests.support.program import Program, at, environment
from tests.support.redis_server import RedisServer, until

pytestmark = pytest.mark.usefixtures("warm")

FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))"


@pytest.mark.promise(522)
async def test_half_sent_requests_end_nothing_and_lock_nobody_out(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            ports, said = free_ports(), 0
            settings = {**QUICK, **environment(f, redis.url, **settings_of(ports))}
            code = f"{at(f.discord)}; {FEW_FILES}"
            with Program(tmp_path, "--only", "claude", before=code, environment=settings) as process:
                await f.discord.wait_for(lambda: "claude" in f.discord.online, timeout=60)
                for attacked, data in PORTS.items():
                    async with half_sent(ports[attacked], 980, data):
                        for setting, port in ports.items():
                            await honest_answer(setting, port)
                        (tmp_path / "config" / "shared.yaml").parent.mkdir(exist_ok=True)
                        (tmp_path / "config" / "shared.yaml").write_text(f"max_messages: {50 + said}\n")
                        await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> hello")
                        said += 1
                        await f.discord.wait_for(lambda said=said: len(f.said("casual", "claude")) == said, timeout=30)
                        assert process.poll() is None, process.stderr
                assert not process.says("Traceback"), process.stderr


@pytest.mark.promise(530)
async def test_a_watcher_that_fails_ends_no_bot_and_starts_again(tmp_path, monkeypatch, caplog):
    refresh = OptionFiles.refresh

    def fail(_):
        raise OSError(errno.EMFILE, "Too many open files")

    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        monkeypatch.setattr(option_files, "CHECK_EVERY", 0.01)
        monkeypatch.setattr(OptionFiles, "refresh", fail)
        await until(lambda: runtime.health().failing == ("options",), 30)
        assert "options failed" in caplog.text
        await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> hello")
        await f.discord.wait_for(lambda: f.said("casual", "claude"), timeout=30)
        monkeypatch.setattr(OptionFiles, "refresh", refresh)
        await until(lambda: not runtime.health().failing, 30)
        assert not runtime.stop.is_set()
