"""Canaries in every secret setting, a whole run with errors, and a search through everything that left the process."""

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from contextlib import asynccontextmanager, closing, suppress

import aiohttp
import pytest
import redis.asyncio

from agent_config import AGENTS
from agentic.process.root import ROOT
from agentic.record.database import connect
from agentic.record.export.render import FORMATS, export
from agentic.record.export.story import Look
from agentic.record.queries.posts import last_conversation
from agentic.state.record_stream import unpack
from agentic.wire import keys
from agentic.wire.messages import Instruction
from tests.support.discord.faults import RestFault
from tests.support.flow import SHOWN, decision, flow
from tests.support.models.wire.values import Answer
from tests.support.ports import free_port
from tests.support.program import environment, program
from tests.support.redis_server import RedisServer, until

CANARY = "c4nary-"  # no secret below is without it but PASTED, nothing else has it
PASTED = "p4sted-by-a-person"  # a secret that somebody wrote into a channel, so that it is in prompts


class Redis:
    """Everything that is said and kept in a Redis, as one text."""

    def __init__(self, url):
        self.client = redis.asyncio.Redis.from_url(url, decode_responses=True, encoding_errors="replace")
        self.said = []

    @asynccontextmanager
    async def listening(self):
        async with self.client.pubsub() as pubsub:
            await pubsub.psubscribe("*")
            task = asyncio.create_task(self._listen(pubsub))
            try:
                yield self
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        await self.client.aclose()

    async def _listen(self, pubsub):
        async for message in pubsub.listen():
            self.said.append(f"{message['channel']} {message['data']}")

    async def instruct(self, agent, channel_id):
        """Return when there is a result; asks again as the coordinator does, since a message may be lost."""
        turn = Instruction(instruction_id="i1", channel_id=channel_id, channel_theme="casual")
        async with asyncio.timeout(30):
            while not self._answered(agent):
                await self.client.publish(keys.instructions(agent), turn.to_wire())
                with suppress(TimeoutError):
                    await until(lambda: self._answered(agent), within=3)

    def _answered(self, agent):
        return any(said.startswith(keys.results(agent)) and '"i1"' in said for said in self.said)

    async def kept(self):
        read = {
            "string": self.client.get,
            "hash": self.client.hgetall,
            "set": self.client.smembers,
            "list": lambda key: self.client.lrange(key, 0, -1),
            "zset": lambda key: self.client.zrange(key, 0, -1, withscores=True),
            "stream": self.client.xrange,
        }
        kinds = {key: await self.client.type(key) async for key in self.client.scan_iter()}
        # A key that has just ended is of no kind any more.
        return [f"{key} {await read[kind](key)}" for key, kind in kinds.items() if kind != "none"]


def leaking(secrets, request):
    """A model that was told every secret and tells it on, in each way that it has."""
    all_of_them = " ".join(secrets.values())
    path = f'Traceback (most recent call last):\n  File "{ROOT}/agent_runtime.py", line 1, in x\n{all_of_them}'
    text = f"said by {request.provider}: {all_of_them}\n{path}"
    return decision(
        text, topic=next(iter(secrets.values())), react_emoji=all_of_them, generate_image=True, image_prompt=all_of_them
    )


@pytest.mark.promise(13)
@pytest.mark.parametrize("style", ["plain", "json"])
async def test_no_secret_leaves_the_process_whatever_goes_wrong(tmp_path, style):
    secrets = {spec.key_setting: f"{CANARY}key-{name}" for name, spec in AGENTS.items()}
    secrets |= {spec.token_setting: f"{CANARY}token-{name}" for name, spec in AGENTS.items()}
    secrets["CONSOLE_TOKEN"] = f"{CANARY}console-token"
    others = ("TAVILY_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_BEARER_TOKEN_BEDROCK", "ENDPOINT_LAB_KEY", "OF_A_TOOL")
    secrets |= {key: f"{CANARY}{key.lower()}" for key in others}
    secrets["TAVILY_API_KEY"] = PASTED
    config = tmp_path / "config"
    config.mkdir()
    (config / "mcp.yaml").write_text("servers: {lab: {command: no-such-program, env: {KEY: '${OF_A_TOOL}'}}}")
    password = f"{CANARY}redis"
    with RedisServer() as server:
        async with redis.asyncio.Redis.from_url(server.url) as client:
            await client.config_set("requirepass", password)
        url = f"unix://:{password}@{server.socket}"
        async with flow(tmp_path, token=f"{CANARY}token-") as f, Redis(url).listening() as kept:
            wrong = {**secrets, "BOT_TOKEN_GROK": f"{CANARY}wrong"}
            told = {"LOG_LEVEL": "DEBUG", "LOG_FORMAT": style, "COORDINATOR_MAX_ROUNDS": "1"}
            shown = []
            told |= {"CONSOLE": "true", "CONSOLE_PORT": str(free_port())}
            async with program(tmp_path, f, **environment(f, url, wrong, **told)) as process:
                await f.discord.wait_for(lambda: len(f.discord.online) == 3, timeout=30)
                await a_bad_day(f, wrong)
                await kept.instruct("gemini", f.channel("casual"))
                if style == "json":  # once is enough
                    await until(lambda: process.says("no conversations planned"))  # the coordinator takes orders
                    address = f"http://127.0.0.1:{told['CONSOLE_PORT']}"
                    shown = await everything_shown(address, secrets["CONSOLE_TOKEN"], f.channel("casual"))
                left = [*await kept.kept(), *shown]
            log = process.stdout + process.stderr
            left += [*kept.said, log]
    left += [json.dumps(message) for name in ("casual", "debate") for message in f.discord.messages(name)]
    left += [f"{r.path} {r.payload}" for r in f.discord.requests]
    left += [f"{r.raw}" for r in f.models.requests]
    left += [file.read_text() for file in (tmp_path / "data").rglob("*.jsonl")]
    recorded = in_the_record(tmp_path / "data" / "record.db")
    recorded += await exported(tmp_path / "data" / "record.db") if shown else []
    left += recorded
    leaks = [text[max(0, text.find(CANARY) - 200) :][:400] for text in left if CANARY in text]
    assert leaks == []
    assert "Discord rejects its token: check BOT_TOKEN_GROK" in log
    assert all("[redacted]" in "\n".join(f.said("debate", name)) for name in ("chatgpt", "claude", "gemini"))
    assert not any(str(ROOT) in text for text in f.said("debate"))
    assert not any(PASTED in text for text in (*recorded, log))
    assert not shown or any("is [redacted] still valid?" in text for text in recorded)
    for looked_at in filter(None, (kept.said, shown, recorded)):
        assert any("said by google" in text for text in looked_at)


async def a_bad_day(f, secrets: Mapping[str, str]):
    """Keys refused, servers that fail, posts that are refused, and in the end models that tell all they could know."""
    claude = f.user_id("claude")
    everything = " ".join(secrets.values())
    f.models.answer = lambda r: Answer(status=401, error_message=f"Incorrect API key provided: {everything}")
    await mention(f, claude)
    f.models.answer = lambda r: Answer(status=400, error_code="x", error_message=everything)
    await mention(f, claude)
    f.models.answer = lambda r: Answer(text=f"no decision but {everything}")
    await mention(f, claude)
    f.models.answer = lambda r: leaking(secrets, r)
    refused = f.discord.faults.add(
        RestFault("POST", "/messages$", status=403, body={"message": everything, "code": 50013})
    )
    await f.discord.say("Alice", "debate", f"<@{claude}> hello")
    await until(lambda: refused.hits)
    await f.discord.say("Alice", "debate", f"is {PASTED} still valid?")
    for name in ("chatgpt", "claude", "gemini"):
        await mention(f, f.user_id(name))


async def everything_shown(address, token, channel_id):
    """What the console and its metrics answer, after a conversation and a replay that it was asked for."""
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(address, headers=headers) as session:

        async def get(path):
            async with session.get(path) as response:
                assert response.status == 200, path
                return await response.text()

        async def post(path, **body):
            csrf = json.loads(await get("/api/me"))["csrf"]
            async with session.post(path, json=body, headers={"X-CSRF-Token": csrf}) as response:
                assert response.status == 200, await response.text()
                return await response.text()

        async def turns():
            return [f"/api/turns/{each['agent']}/{each['id']}" for each in json.loads(await get("/api/turns"))["items"]]

        async def recorded():
            """The newest conversation, and a turn, once both are there with their words."""
            talks = [each["id"] for each in json.loads(await get("/api/conversations"))["items"] if each["messages"]]
            said = [turn for turn in await turns() if "said by" in await get(turn)]
            return talks[:1] + said[:1] if talks and said else None

        shown = [await post("/api/actions/start", id="click-one", channel=str(channel_id), topic="secrets")]
        async with asyncio.timeout(30):
            while not (found := await recorded()):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
        talk, asked = found
        shown += [await post(f"{asked}/replay", estimate=True), await post(f"{asked}/replay")]
        assert "said by" in shown[-1]
        pages = ["me", "record", "costs", "budgets", "agents", "agents/claude", "actions", "turns", "replay"]
        live = ("live/channels", f"live/channels/{channel_id}", f"conversations/{talk}")
        shown += [
            await get(path) for path in ("/", "/metrics", *await turns(), *(f"/api/{page}" for page in (*pages, *live)))
        ]
        async with session.get("/api/live/events") as events:
            shown.append((await events.content.readany()).decode())
    return shown


def in_the_record(path):
    """Each row of the record, its words unpacked, and the bytes of its files."""
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [str(row) for table in tables for row in db.execute(f"SELECT * FROM {table}")]  # noqa: S608
        words = [unpack(data).to_json() for (data,) in db.execute("SELECT data FROM words")]
    return [*rows, *words, *(file.read_bytes().decode(errors="replace") for file in path.parent.glob(f"{path.name}*"))]


async def exported(path):
    db = await connect(path)
    try:
        talk = await last_conversation(db)
        return [(await export(db, talk.id, kind, Look())).text for kind in FORMATS]
    finally:
        await db.close()


async def mention(f, user_id):
    """Returns when it is answered, with words or with a sign at the message."""
    name = next(key for key in SHOWN if f.user_id(key) == user_id)
    before = len(f.said("debate", name))
    asked = await f.discord.say("Alice", "debate", f"<@{user_id}> hello")
    message = f.world.channel("debate").messages[int(asked["id"])]
    await f.discord.wait_for(lambda: len(f.said("debate", name)) > before or message.reactions, timeout=30)
