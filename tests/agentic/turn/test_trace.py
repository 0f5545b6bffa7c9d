from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from agentic.context.blocks import Block, ToolLine
from agentic.context.window import Window
from agentic.llm.errors import RateLimited
from agentic.llm.types import Picture, Prompt, Reply
from agentic.process.redaction import Redactor
from agentic.record.notes import TurnWatchers
from agentic.state.record_stream import pack, unpack
from agentic.state.silence import Scope
from agentic.tools.call_log import ToolRecord
from agentic.tools.call_runner import ToolEvent
from agentic.turn.trace import RecordedWords, Sources, TurnTrace, quoted_in, shrink
from tests.support.agent_scene import CALL, LOUNGE, Scene, Watcher
from tests.support.doubles import ALICE, BOB, Clock, settle
from tests.support.recording import turn
from tests.support.said import context


@pytest.fixture
async def scene():
    made = await Scene("claude").start()
    yield made
    await made.aclose()


def words(scene) -> RecordedWords:
    return scene.watcher.ended_turns[-1][1]


async def test_the_words_of_a_call_are_its_prompt_to_the_byte_and_what_came_of_it(scene):
    await scene.hear("Tea first.", author=BOB)
    scene.answers({"text": "Milk first.", "react_emoji": "🔥"})
    await scene.ask("tea or milk?")
    prompt, history = scene.cog.asked[-1]
    (made,) = words(scene).calls()
    kept = unpack(pack(made).words)
    assert (kept.system, kept.stable, kept.text, kept.prefill) == (prompt.system, prompt.stable, prompt.text, None)
    assert [(each.role, each.text, each.cache) for each in kept.history] == [
        (each.role, each.text, each.cache) for each in history
    ]
    assert kept.persona in kept.system
    assert scene.settings.personality_of("claude").strip() in kept.persona
    options = dict(kept.options)
    assert options.pop("labels") == prompt.labels
    assert replace(Prompt(text="", **options), on_text=None) == Prompt(
        text="", **{name: getattr(prompt, name) for name in options}
    )
    assert set(options) >= {"schema", "timeout", "cache_key", "conversation"}
    assert '"Milk first."' in kept.completion
    assert kept.decision is not None
    assert (kept.decision["text"], kept.decision["react_emoji"]) == ("Milk first.", "🔥")
    assert (kept.model, kept.asked_by, kept.channel_id) == (CALL.model, ALICE, LOUNGE)


async def test_everybody_whose_words_a_prompt_has_is_named_with_it(scene):
    heard = await scene.hear("I like tea.", author=BOB)
    await scene.ask("and you?")
    own = scene.channel().sent[-1].id
    asked = await scene.ask("why?")
    (made,) = words(scene).calls()
    assert {(heard, BOB), (asked, ALICE), (own, None)} < set(made.quoted.items())


async def test_a_repair_a_failed_call_and_a_stopped_one_are_calls_of_their_turn(scene):
    scene.answers("{", RateLimited())
    await scene.ask("one")
    (record, said) = scene.watcher.ended_turns[-1]
    assert [(call.error, call.cost_usd) for call in record.calls] == [(None, 0.01), ("RateLimited", 0.0)]
    assert record.outcome == "failed"
    assert [(call.completion, call.error) for call in said.calls()] == [("{", None), ("", "RateLimited")]
    assert [post.text for post in said.posts()] == scene.texts()  # the line that says why there is no answer

    scene.answers(asyncio.Event().wait)
    await scene.ask("two")
    await scene.silence.stop(Scope.channel(LOUNGE))
    await settle()
    (record, said) = scene.watcher.ended_turns[-1]
    assert (record.reason, record.outcome) == ("stopped", "skipped")
    assert [call.error for call in record.calls] == ["cancelled"]


async def test_a_post_is_kept_in_all_its_parts_with_its_picture_scaled_down(scene):
    scene.answers({"text": "word " * 900, "generate_image": True, "image_prompt": "a cat"})
    await scene.ask()
    (record, said) = scene.watcher.ended_turns[-1]
    posts = said.posts()
    assert [post.message_id for post in posts] == list(record.posted)
    assert " ".join(post.text for post in posts).split() == ["word"] * 900
    assert [post.picture is not None for post in posts] == [False, False, True]
    assert [call.kind for call in record.calls] == ["text", "picture"]
    assert len(said.calls()) == 1


async def test_a_turn_begins_for_those_who_watch_once_no_limit_forbids_it(scene):
    await scene.instruct("i1", conversation_id="talk")
    await scene.instruct("i2", deadline=scene.clock() - 1)
    began = [(each.turn_id, each.conversation_id, each.state) for each in scene.watcher.began_turns]
    assert began == [("i1", "talk", "began")]
    assert [record.id for record, _ in scene.watcher.ended_turns] == ["i1", "i2"]


@pytest.mark.promise(145)
def test_a_watcher_that_fails_affects_no_other(caplog):
    class Broken:
        began = ended = None

    kept: Any = Watcher()
    watchers = TurnWatchers(Broken(), kept)  # type: ignore[arg-type]
    watchers.began(None)  # type: ignore[arg-type]
    watchers.ended(None, None)  # type: ignore[arg-type]
    assert (kept.began_turns, kept.ended_turns) == ([None], [(None, None)])
    assert caplog.text.count("Broken failed at the start or the end of a turn") == 2


def tool_event(kind: str, number: int, clock: Clock, output: str | None = None) -> ToolEvent:
    return ToolEvent(
        kind,
        ToolRecord(
            id=f"m1:{number}",
            agent="claude",
            channel_id=1,
            turn_id="m1",
            after_message_id=5,
            name=f"tool{number}",
            arguments={},
            at=clock(),
            output=output,
        ),
    )


def test_each_second_of_a_turn_counts_for_one_phase():
    clock = Clock()
    trace = TurnTrace(clock)
    trace.add("waiting", 3.0)
    with trace.phase("waiting"):
        clock.now += 1
    with trace.call("scripted/one", Prompt(text=""), ()) as call:
        clock.now += 10
        call.reply, call.usage = Reply(text="", usage=CALL), CALL
    first = clock.now
    trace.note_tool(tool_event("call", 1, clock))
    clock.now += 1
    trace.note_tool(tool_event("call", 2, clock))
    clock.now += 1
    trace.note_tool(tool_event("result", 1, clock, "found"))
    clock.now += 1
    trace.note_tool(tool_event("result", 2, clock, "found it"))
    clock.now += 100  # of none
    with trace.phase("posting"):
        clock.now += 2
        with trace.call("scripted/brush", Prompt(text="a cat"), kind="picture"):
            clock.now += 5
    with trace.phase("context"):
        clock.now -= 1000  # a clock that was set back
    assert trace.phases.model_dump() == {"waiting": 4, "context": 0, "model": 10, "tools": 3, "posting": 7}
    one, two = trace.tool_records
    assert (one.name, one.n, one.at, one.seconds, one.characters, one.error) == ("tool1", 0, first, 2, 5, False)
    assert (two.n, two.at, two.seconds, two.characters) == (1, first + 1, 2, 8)
    assert [(call.kind, call.seconds, call.input_tokens) for call in trace.call_records] == [
        ("text", 10, 100),
        ("picture", 5, 0),
    ]


def test_a_tool_that_its_turn_cut_off_is_an_error_and_takes_no_more_time():
    clock = Clock()
    trace = TurnTrace(clock)
    with trace.phase("model"):
        trace.note_tool(tool_event("call", 1, clock))
        clock.now += 4
    with trace.phase("posting"):
        clock.now += 1
    assert (trace.phases.tools, trace.phases.posting) == (4, 1)
    assert [record.error for record in trace.tool_records] == [True]


def test_a_large_picture_is_recorded_small_and_a_broken_one_not_at_all(caplog):
    large = io.BytesIO()
    Image.new("RGB", (3000, 1500), "red").save(large, "PNG")
    found = shrink(Picture(large.getvalue(), "image/png"))
    assert found is not None
    assert Image.open(io.BytesIO(found.data)).size == (1024, 512)
    assert shrink(Picture(b"no picture", "image/png")) is None
    assert "cannot record a posted picture" in caplog.text


def test_reasoning_is_kept_beside_the_answer_up_to_a_length_and_without_secrets():
    trace = TurnTrace()
    with trace.call("anthropic/m", Prompt(text="tea?")) as call:
        call.reply = Reply(text="Yes.", reasoning="The key is sk-1234567890. " + "Hm. " * 10_000)
    made = RecordedWords(turn("m1"), trace, (), None)
    (kept,) = made.calls()
    assert (kept.completion, len(kept.reasoning)) == ("Yes.", 16_000)
    assert 16_000 < made.size < 20_000
    stored = unpack(pack(kept, Redactor(["sk-1234567890"])).words)
    assert stored.reasoning.startswith("The key is [redacted]. Hm.")


def test_people_are_named_whose_words_are_in_notes_and_in_results_of_tools():
    window = Window((), 0.0, (Block((ToolLine(5, "web_search: tea", asked_by=ALICE), ToolLine(6, "of nobody"))),))
    sources = Sources(context=context(window), quoted={7: BOB, 8: None}, people=frozenset({BOB}))
    assert set(quoted_in(sources).items()) == {
        (7, BOB),
        (8, None),
        (-BOB, BOB),
        (-ALICE, ALICE),
    }
