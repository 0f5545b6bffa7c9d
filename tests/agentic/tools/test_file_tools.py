"""The tools for an agent's own folder: what they do there, and that nothing else is reachable."""

import tracemalloc

import pytest

from agentic.personas.memory import everywhere
from agentic.personas.workspace import MAX_FILE_BYTES, Workspace
from agentic.tools.call_runner import problem_with
from agentic.tools.own_tools import CLOSED, file_tools
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


@pytest.mark.promise(40)
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


@pytest.mark.promise(526)
@pytest.mark.parametrize("new", ["x" * 4_000, "ü" * 4_000, "x" * MAX_FILE_BYTES * 2], ids=["many", "wide", "long"])
async def test_an_edit_that_would_make_a_file_too_large_costs_no_memory(tmp_path, new):
    before = "a" * MAX_FILE_BYTES
    await use(tmp_path, "files_write", path="notes.md", text=before)
    tracemalloc.start()
    try:
        output = await use(tmp_path, "files_edit", path="notes.md", old="a", new=new, everywhere=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (output.is_error, output.text) == (True, f"a file has at most {MAX_FILE_BYTES:,} bytes")
    assert peak < 10 * MAX_FILE_BYTES
    assert (tmp_path / "workspace/notes.md").read_text() == before


async def test_an_edit_may_fill_a_file_to_its_limit(tmp_path):
    await use(tmp_path, "files_write", path="notes.md", text="ab" * 1_000)
    wide = "ü" * (MAX_FILE_BYTES // 2_000 // 2 - 1)
    output = await use(tmp_path, "files_edit", path="notes.md", old="a", new=wide, everywhere=True)
    assert (output.is_error, output.text) == (False, "changed 1000 times")
