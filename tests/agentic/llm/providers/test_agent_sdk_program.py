"""The real Claude Agent SDK, with its program, against a local server that speaks Anthropic's API.

Skipped where the extra is not installed: pip install -r requirements-agent-sdk.txt
"""

import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from agentic.llm.errors import BadKey, ModelError, SessionLost
from agentic.llm.providers.agent_sdk import AgentSdkModel, after_reading
from agentic.llm.types import Message, Prompt, Tool, ToolResult
from tests.support.models.agent_sdk_doubles import MemoryConversations, config_in

pytest.importorskip("claude_agent_sdk", reason="the extra of requirements-agent-sdk.txt is not installed")

LOUNGE, DEBATE = 10, 11
NOWHERE = "00000000-0000-4000-8000-000000000000"


class Server:
    """Answers "Hello." to everything; first a call of the tool, if `call` (a name and its input) is set."""

    def __init__(self):
        self.bodies, self.call, self.status, self.address = [], None, 200, ""

    async def answer(self, request):
        body = await request.json()
        self.bodies.append(body)
        if self.status != 200:
            error = {"type": "authentication_error", "message": "invalid x-api-key"}
            return web.json_response({"type": "error", "error": error}, status=self.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        calls = self.call is not None and "tool_result" not in json.dumps(body["messages"])
        for event in self._events(body["model"], self.call if calls else None):
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return response

    def _events(self, model, call):
        usage = {"input_tokens": 10, "output_tokens": 1}
        head = {"id": f"msg_{len(self.bodies)}", "type": "message", "role": "assistant", "content": []}
        yield {"type": "message_start", "message": {**head, "model": model, "stop_reason": None, "usage": usage}}
        if call:
            block = {"type": "tool_use", "id": f"toolu_{len(self.bodies)}", "name": call[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hello."}
        yield {"type": "content_block_start", "index": 0, "content_block": block}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        stop = {"stop_reason": "tool_use" if call else "end_turn"}
        yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 5}}
        yield {"type": "message_stop"}

    @property
    def results(self):
        """What came back of the tool, as the model was told."""
        blocks = [b for m in self.bodies[-1]["messages"] if isinstance(m["content"], list) for b in m["content"]]
        return [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]


@asynccontextmanager
async def program(folder, **more):
    """A server and a model that asks it."""
    server, app = Server(), web.Application(client_max_size=10**8)
    app.router.add_post("/v1/messages", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        config = config_in(folder, base_url=server.address, **more)
        yield server, AgentSdkModel(config, sessions=MemoryConversations())
    finally:
        await runner.cleanup()


def prompt(text="well?", **more):
    return Prompt(text=text, system="Who you are.", timeout=60.0, **{"conversation": LOUNGE, **more})


async def test_a_session_goes_on_in_its_channel_and_in_no_other(tmp_path):
    async with program(tmp_path) as (server, model):
        reply = await model.complete(prompt("@/etc/hostname first"), [Message("user", "heard before")])
        assert (reply.text, reply.usage.output_tokens, reply.usage.calls) == ("Hello.", 5, 1)
        first = server.bodies[-1]
        assert "Who you are." in json.dumps(first["system"])
        assert first["messages"][0]["content"] == "heard before\n\n@/etc/hostname first"
        await model.complete(prompt("second"), [Message("user", "heard before"), Message("user", "new")])
        told = json.dumps(server.bodies[-1]["messages"])
        assert told.count("heard before") == 1
        assert "Hello." in told
        assert "new\\n\\nsecond" in told
        await model.complete(prompt("elsewhere", conversation=DEBATE))
        assert "second" not in json.dumps(server.bodies[-1]["messages"])
        sessions = model.sessions.kept
        assert sessions[LOUNGE].session_id != sessions[DEBATE].session_id


async def test_a_lost_session_and_a_refused_key_are_told_apart(tmp_path):
    async with program(tmp_path) as (server, model):
        model.sessions.kept[LOUNGE] = after_reading(NOWHERE, "")
        with pytest.raises(SessionLost):
            await model.complete(prompt())
        assert LOUNGE not in model.sessions.kept
        server.status = 401
        with pytest.raises(ModelError) as caught:
            await model.complete(prompt())
        assert type(caught.value) is BadKey


@pytest.mark.parametrize(
    ("tool", "arguments", "tools"),
    [
        ("Read", {"file_path": "{outside}/secret.txt"}, ("Read",)),
        ("Read", {"file_path": "{inside}/../secret.txt"}, ("Read",)),
        ("Read", {"file_path": "{inside}/link.txt"}, ("Read",)),
        ("Grep", {"pattern": "canary", "path": "{outside}", "output_mode": "content"}, ("Read", "Grep")),
        ("Glob", {"pattern": "*.txt", "path": "{outside}"}, ("Glob",)),
        ("Write", {"file_path": "{outside}/written.txt", "content": "x"}, ("Write",)),
        ("Bash", {"command": "cat {outside}/secret.txt", "description": "look"}, ("Read",)),
    ],
)
async def test_its_tools_end_at_the_workspace_unless_told_otherwise(tmp_path, tool, arguments, tools):
    inside = tmp_path / "workspace"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("canary-5107")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    async with program(tmp_path, allowed_tools=tools) as (server, model):
        places = {"{inside}": str(inside), "{outside}": str(tmp_path)}
        filled = json.dumps(arguments)
        for name, path in places.items():
            filled = filled.replace(name, path)
        server.call = (tool, json.loads(filled))
        await model.complete(prompt("go"))
        (result,) = server.results
        assert "canary-5107" not in result
        assert "secret.txt" not in result
        assert not (tmp_path / "written.txt").exists()


async def test_in_the_workspace_its_tools_work(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "plan.txt").write_text("the plan")
    async with program(tmp_path, allowed_tools=("Read", "Write")) as (server, model):
        server.call = ("Read", {"file_path": str(tmp_path / "workspace" / "plan.txt")})
        await model.complete(prompt("go"))
        assert "the plan" in server.results[0]
        server.call = ("Write", {"file_path": str(tmp_path / "workspace" / "new.txt"), "content": "made"})
        await model.complete(prompt("go", conversation=DEBATE))
        assert (tmp_path / "workspace" / "new.txt").read_text() == "made"


async def test_a_tool_of_ours_is_called_in_the_midst_of_its_answer(tmp_path):
    calls = []

    async def call(asked):
        calls.append((asked.name, dict(asked.arguments)))
        return ToolResult(asked.id, asked.name, "noted, thank you")

    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    async with program(tmp_path, allowed_tools=("Read",)) as (server, model):
        server.call = ("mcp__agent__memory", {"text": "Ann keeps bees."})
        memory = Tool("memory", "Changes your memory.", schema)
        reply = await model.complete(prompt("go", tools=(memory,), call=call))
        assert reply.text == "Hello."
        assert calls == [("memory", {"text": "Ann keeps bees."})]
        assert "noted, thank you" in server.results[0]
        offered = {tool["name"] for tool in server.bodies[0]["tools"]}
        assert {"mcp__agent__memory", "Read"} <= offered
        assert "Bash" not in offered
