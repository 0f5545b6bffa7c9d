"""The tool by which an agent changes its memory: where entries come from, what it may not touch, how often."""

import asyncio
import threading
from dataclasses import replace

import pytest

from agentic.tools.call_runner import problem_with
from agentic.tools.own_tools import MEMORY_SPEC, MemoryTool, run_to_end
from tests.support.tools.tool_doubles import CONTEXT

OPEN, CLOSED, THREAD = 7, 8, 9


class Places:
    """The thread hangs on OPEN; CLOSED is read by few."""

    def may_see(self, here):
        return lambda channel: bool(here) and channel in (here, OPEN)

    def origin(self, here):
        return OPEN if here == THREAD else here


def memory_tool(folder, *, may_write=True):
    asked = []

    async def counted(context):
        asked.append(context.asked_by)
        return may_write

    tool = MemoryTool(folder, Places(), counted)
    return tool, asked


async def change(tool, action, text, *, channel=OPEN, section=None):
    arguments = {"action": action, "text": text, **({"section": section} if section else {})}
    assert problem_with(arguments, MEMORY_SPEC.parameters) is None
    return await tool.execute(arguments, replace(CONTEXT, channel_id=channel))


def memory(folder):
    return (folder / "memory.md").read_text(encoding="utf-8")


async def test_a_note_is_on_the_disk_with_its_place_and_who_asked_when_the_call_is_answered(tmp_path):
    tool, asked = memory_tool(tmp_path)
    output = await change(tool, "append", "Ann keeps bees", section="People")
    assert (output.text, output.is_error, asked) == ("noted", False, [42])
    assert "## People\n- Ann keeps bees <!-- channel:7 guild:1 by:42 -->" in memory(tmp_path)


async def test_what_is_learned_in_a_public_thread_comes_from_its_channel(tmp_path):
    tool, _ = memory_tool(tmp_path)
    await change(tool, "append", "The harvest is in May", channel=THREAD)
    assert "<!-- channel:7 guild:1 by:42 -->" in memory(tmp_path)


async def test_a_note_of_a_closed_channel_can_be_forgotten_there_alone(tmp_path):
    tool, _ = memory_tool(tmp_path)
    await change(tool, "append", "Bob is leaving", channel=CLOSED)
    refused = await change(tool, "forget", "Bob is leaving")
    assert refused.is_error
    assert "Bob is leaving" in memory(tmp_path)
    done = await change(tool, "forget", "bob is", channel=CLOSED)
    assert (done.is_error, "Bob" in memory(tmp_path)) == (False, False)


async def test_replacing_a_section_leaves_what_is_not_seen_from_here(tmp_path):
    tool, _ = memory_tool(tmp_path)
    await change(tool, "append", "A secret plan", channel=CLOSED, section="Plans")
    await change(tool, "append", "An open plan", section="Plans")
    await change(tool, "replace", "A better plan", section="Plans")
    kept = memory(tmp_path)
    assert "A secret plan <!-- channel:8" in kept
    assert "A better plan <!-- channel:7" in kept
    assert "An open plan" not in kept


@pytest.mark.parametrize(
    ("action", "text", "section", "why"),
    [
        ("replace", "x", None, "section is missing"),
        ("replace", "x", "Nothing", "that section doesn't exist"),
        ("forget", "bees", None, "no entry contains these words"),
        ("append", " \n ", None, "the entry is empty"),
        ("append", "x" * 1001, None, "at most 1,000 characters"),
    ],
)
async def test_what_cannot_be_done_is_an_answer_of_one_line(tmp_path, action, text, section, why):
    output = await change(memory_tool(tmp_path)[0], action, text, section=section)
    assert output.is_error
    assert why in output.text
    assert "\n" not in output.text
    assert str(tmp_path) not in output.text


async def test_a_change_too_many_changes_nothing(tmp_path):
    output = await change(memory_tool(tmp_path, may_write=False)[0], "append", "flood")
    assert output.is_error
    assert not (tmp_path / "memory.md").exists()


async def test_what_is_noted_nowhere_is_for_everywhere(tmp_path):
    await change(memory_tool(tmp_path)[0], "append", "Mondays are slow", channel=0)
    assert "- Mondays are slow\n" in memory(tmp_path)


async def test_an_event_does_not_count_as_done_while_its_change_is_being_written():
    go, ended = threading.Event(), []

    def write():
        go.wait(10)
        ended.append(True)
        return "noted"

    turn = asyncio.create_task(run_to_end(write))
    await asyncio.sleep(0)
    turn.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not turn.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ended == [True]
