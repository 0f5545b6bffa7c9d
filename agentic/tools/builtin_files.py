"""files_*: an agent reads, writes, edits and searches files in its own folder.

agentic.personas.workspace refuses paths that lead out of it. What a file holds may have been written after strangers'
words, so it is data like every output of a tool. A file does not record where its text was learned and can be read in
every channel, so nothing is written in a channel that not everybody can read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentic.llm.types import Tool
from agentic.personas.files import PersonaError
from agentic.personas.workspace import MAX_PATH, MAX_PATTERN, Workspace
from agentic.tools.memory import to_its_end
from agentic.tools.protocol import RunnableTool, ToolContext, ToolOutput

WRITING = ("files_write", "files_edit")
LINES = 200  # read at once by default
MAX_LINES = 2_000

_PATH = {"type": "string", "maxLength": MAX_PATH, "description": "relative to your folder, with / between folders"}
_PATTERN = {"type": "string", "maxLength": MAX_PATTERN, "description": "such as **/*.md; default: all files"}
_TEXT = {"type": "string"}

FILE_TOOLS = ("files_read", "files_glob", "files_grep", "files_write", "files_edit")

CLOSED = (
    "nothing was written: your folder can be read in every channel, but not everybody can read this one. Use the memory"
    " tool for what belongs to a channel"
)

Do = Callable[[Workspace, Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class FileTool:
    """One of these tools, for one agent's folder. `may_share`: whether a channel's messages may be repeated in all
    others."""

    spec: Tool
    workspace: Workspace
    do: Do
    may_share: Callable[[int], bool]

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        if self.spec.name in WRITING and not self.may_share(context.channel_id):
            return ToolOutput.failed(CLOSED)
        try:
            return ToolOutput(await to_its_end(lambda: self.do(self.workspace, arguments)))
        except PersonaError as error:
            return ToolOutput.failed(str(error))


def file_tools(workspace: Workspace, may_share: Callable[[int], bool]) -> tuple[RunnableTool, ...]:
    """Return all of them. The caller decides which an agent has."""
    return tuple(FileTool(spec, workspace, do, may_share) for spec, do in _tools())


def _tools() -> Iterator[tuple[Tool, Do]]:
    lines = {
        "first_line": {"type": "integer", "minimum": 1},
        "lines": {"type": "integer", "minimum": 1, "maximum": MAX_LINES},
    }
    yield _tool("files_read", "Reads a file in your own folder.", {"path": _PATH, **lines}, ("path",)), _read
    yield _tool("files_glob", "Lists the files in your own folder.", {"pattern": _PATTERN}), _glob
    words = {"words": {"type": "string", "maxLength": MAX_PATTERN}, "pattern": _PATTERN}
    yield _tool("files_grep", "Finds lines with these words in your own folder.", words, ("words",)), _grep
    written = {"path": _PATH, "text": _TEXT}
    yield _tool("files_write", "Creates or replaces a file in your own folder.", written, ("path", "text")), _write
    edited = {"path": _PATH, "old": _TEXT, "new": _TEXT, "everywhere": {"type": "boolean"}}
    description = "Replaces old text, which must be in the file exactly once unless everywhere is true, with new text."
    yield _tool("files_edit", description, edited, ("path", "old", "new")), _edit


def _tool(name: str, description: str, properties: Mapping[str, Any], required: tuple[str, ...] = ()) -> Tool:
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return Tool(name, description, {**schema, "additionalProperties": False})


def _read(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    first, lines = int(arguments.get("first_line") or 1), int(arguments.get("lines") or LINES)
    text = workspace.read(str(arguments["path"]), first, lines)
    return text or "(these lines are empty)"


def _glob(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    return "\n".join(workspace.glob(str(arguments.get("pattern") or "**"))) or "(no files)"


def _grep(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    hits = workspace.grep(str(arguments["words"]), str(arguments.get("pattern") or "**"))
    return "\n".join(f"{hit.path}:{hit.line}: {hit.text}" for hit in hits) or "(no line contains these words)"


def _write(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    workspace.write(str(arguments["path"]), str(arguments["text"]))
    return "written"


def _edit(workspace: Workspace, arguments: Mapping[str, Any]) -> str:
    everywhere = bool(arguments.get("everywhere"))
    times = workspace.edit(str(arguments["path"]), str(arguments["old"]), str(arguments["new"]), everywhere=everywhere)
    return "changed" if times == 1 else f"changed {times} times"
