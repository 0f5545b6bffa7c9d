"""The tools for an agent's own folder: what they do there, and that nothing else is reachable."""

import pytest

from agent_personas.memory import everywhere
from agent_personas.workspace import Workspace
from agent_tools.arguments import problem_with
from agent_tools.builtin.files import CLOSED, file_tools
from tests.support.tools.tool_doubles import CONTEXT


def tools_of(folder):
    return {tool.spec.name: tool for tool in file_tools(Workspace(folder / "workspace"), everywhere)}


async def use(folder, name, **arguments):
    tool = tools_of(folder)[name]
    assert problem_with(arguments, tool.spec.parameters) is None
    return await tool.execute(arguments, CONTEXT)


async def test_files_are_written_found_read_and_edited(tmp_path):
    assert (await use(tmp_path, "files_write", path="notes/week.md", text="one\ntwo\nthree")).text == "written"
    assert (await use(tmp_path, "files_glob", pattern="**/*.md")).text == "notes/week.md"
    assert (await use(tmp_path, "files_read", path="notes/week.md", first_line=2, lines=1)).text == "two"
    assert (await use(tmp_path, "files_grep", words="THR")).text == "notes/week.md:3: three"
    assert (await use(tmp_path, "files_edit", path="notes/week.md", old="two", new="2")).text == "changed"
    assert (tmp_path / "workspace/notes/week.md").read_text() == "one\n2\nthree"


@pytest.mark.parametrize(
    "path", ["../soul.md", "/etc/passwd", "a/../../soul.md", ".history/x", "link.md", "out/soul.md"]
)
async def test_nothing_outside_is_read_or_written(tmp_path, path):
    (tmp_path / "soul.md").write_text("secret")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/link.md").symlink_to(tmp_path / "soul.md")
    (tmp_path / "workspace/out").symlink_to(tmp_path)
    for name, more in (
        ("files_read", {}),
        ("files_write", {"text": "x"}),
        ("files_edit", {"old": "secret", "new": "x"}),
    ):
        output = await use(tmp_path, name, path=path, **more)
        if name != "files_write" or path != "link.md":  # a link's name may be taken by a file of the folder's own
            assert output.is_error, name
        assert "secret" not in output.text
        assert str(tmp_path) not in output.text
    assert (tmp_path / "soul.md").read_text() == "secret"


async def test_in_a_channel_that_not_everybody_reads_files_are_read_and_not_written(tmp_path):
    assert (await use(tmp_path, "files_write", path="week.md", text="one")).text == "written"
    tools = {tool.spec.name: tool for tool in file_tools(Workspace(tmp_path / "workspace"), lambda _: False)}
    for name, more in (("files_write", {"text": "two"}), ("files_edit", {"old": "one", "new": "two"})):
        output = await tools[name].execute({"path": "week.md", **more}, CONTEXT)
        assert output.is_error
        assert output.text == CLOSED
    assert (await tools["files_read"].execute({"path": "week.md"}, CONTEXT)).text == "one"


async def test_an_empty_folder_says_so(tmp_path):
    assert (await use(tmp_path, "files_glob")).text == "(no files)"
    assert (await use(tmp_path, "files_read", path="a.md")).is_error
