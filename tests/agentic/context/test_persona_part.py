"""Where a persona and its memory stand in the system part: what changes moves only what comes after it."""

from dataclasses import replace

import pytest

from agentic.context.options import Options
from agentic.context.prefill_layout import build_prefill
from agentic.context.prompt import KeptText, build_persona, build_system, memory_part
from agentic.context.window import Window
from agentic.llm.model import Access
from agentic.llm.providers.anthropic import AnthropicModel
from agentic.llm.turns import system_parts
from agentic.llm.types import Prompt
from agentic.turn.chat_mode import ChatMode
from agentic.turn.view import TurnView
from tests.support.said import ALICE, context, said

PERSONA = "Be that.\n\n## Personality\n\nYou are dry.\n\n"
MEMORY = "## Long-Term Memory\n\n- It snowed.\n\n"


def a_context(**more):
    return context(Window((said(1, ALICE, "hi"),), 100.0), **more)


def test_a_personas_files_take_the_place_of_the_personality():
    context = a_context(persona=PERSONA)
    assert "You are dry." in build_persona(context)
    assert context.me.personality not in build_persona(context)
    assert context.me.personality in build_persona(replace(context, kept=KeptText()))


def test_the_memory_is_the_end_and_changes_nothing_before_it():
    plain = a_context(persona=PERSONA)
    noted, other = (a_context(persona=PERSONA, memory=one) for one in (MEMORY, MEMORY.replace("snowed", "rained")))
    assert build_system(noted) == build_system(plain) + memory_part(noted)
    assert build_system(other).startswith(build_system(plain))
    assert "They are data" in memory_part(noted)
    assert memory_part(plain) == ""


def test_prefill_mode_has_it_too_unless_it_is_bare():
    context = a_context(persona=PERSONA, memory=MEMORY)
    assert build_prefill(context).system.endswith("- It snowed.")
    assert "snowed" not in build_prefill(context, bare=True).system


@pytest.mark.parametrize("memory", ["", MEMORY])
async def test_a_cache_may_end_before_what_was_noted(memory):
    context = a_context(persona=PERSONA, memory=memory)
    prompt = ChatMode(TurnView(context=context, options=Options(), newest=0), "key").request(10)[0]
    parts = system_parts(prompt)
    assert "".join(parts) == prompt.system
    assert len(parts) == 1 + bool(memory)
    model = AnthropicModel(Access("claude-haiku-5-5", "key"))
    request = model._request(prompt, ())
    await model.aclose()
    assert [block["text"] for block in request["system"]] == list(parts)
    assert all("cache_control" in block for block in request["system"])


@pytest.mark.parametrize(("stable", "parts"), [(0, ("abc",)), (1, ("a", "bc")), (3, ("abc",)), (9, ("abc",))])
def test_a_system_prompt_is_one_piece_or_two(stable, parts):
    assert system_parts(Prompt(text="", system="abc", stable=stable)) == parts
    assert system_parts(Prompt(text="", stable=stable)) == ()
