"""Properties 19, 20, 21 and 28 of the gateway's design: from files to a system prompt.

Deviations, for all of them: the tool that changes memory.md has a name of its own and is not "Write"; a content is
shown without what is not meant for a model (comments, front matter, the sections Cron Jobs and Hooks), and its headings
stand below the section's, so that no content can pose as a section. `shown` is that content. What is empty then is
empty.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from persona_strategies import CONFIGS, PROSE, SHOWN

from agent_personas.assembly import SECTIONS, assemble, laid_out, preamble, sections_of, shown
from agent_personas.files import FileCache, PersonaFiles, read_persona

HEADERS = {"identity": "Identity", "soul": "Personality", "agents": "Operating Rules"} | {
    "user": "User Context",
    "memory": "Long-Term Memory",
    "tools": "Tool Configuration",
}


def visible(configs: dict[str, str | None]) -> dict[str, str]:
    """Section → content of what has any, in the order that the design fixes."""
    contents = {header: shown(f"{name}.md", configs[name]) for name, header in HEADERS.items()}
    return {header: content for header, content in contents.items() if content}


# Feature: discord-claude-gateway, Property 19: For any set of MarkdownConfigs where at least one field is non-null, the assembled system prompt should: (a) wrap each non-null config in a section with the format ## [Section Name]\n\n[content], (b) order sections as Identity, Personality, Operating Rules, User Context, Long-Term Memory, Tool Configuration, and (c) include a preamble instructing the agent it may update memory.md using the Write tool.  # noqa: E501
@settings(max_examples=200)
@given(CONFIGS)
def test_property_19_sections_are_wrapped_in_order_after_a_preamble(configs: dict[str, str | None]) -> None:
    text, contents = assemble(PersonaFiles(**configs), "note_down"), visible(configs)
    wrapped = "".join(f"## {header}\n\n{content}\n\n" for header, content in contents.items())
    assert text == (preamble("note_down") + wrapped if contents else "")
    assert "may update memory.md" in preamble("note_down")
    assert "`note_down` tool" in preamble("note_down")
    assert list(HEADERS.values()) == list(SECTIONS)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(SHOWN), PROSE, min_size=1))
def test_property_19_plain_content_is_shown_to_the_letter(configs: dict[str, str]) -> None:
    text = assemble(PersonaFiles(**configs))
    for name, content in configs.items():
        assert f"## {HEADERS[name]}\n\n{content}\n\n" in text


# Feature: discord-claude-gateway, Property 20: For any set of MarkdownConfigs where some fields are null or empty strings, the assembled system prompt should not contain section headers for those missing/empty configs, and the number of section headers in the output should equal the number of non-null, non-empty config fields.  # noqa: E501
@settings(max_examples=200)
@given(CONFIGS)
def test_property_20_what_is_empty_has_no_section(configs: dict[str, str | None]) -> None:
    lines = assemble(PersonaFiles(**configs)).split("\n")
    contents = visible(configs)
    for name, header in HEADERS.items():
        if not (configs[name] or "").strip():
            assert f"## {header}" not in lines
    assert len(sections_of("\n".join(lines))) == len(contents)


# Feature: discord-claude-gateway, Property 21: For any valid set of MarkdownConfigs (with non-null, non-empty values), assembling the system prompt and then parsing the section headers from the output should produce the same set of section names as the non-null input config fields.  # noqa: E501
@settings(max_examples=200)
@given(CONFIGS)
def test_property_21_the_sections_of_a_prompt_are_those_of_its_files(configs: dict[str, str | None]) -> None:
    assert sections_of(assemble(PersonaFiles(**configs))) == tuple(visible(configs))


@settings(max_examples=100)
@given(CONFIGS)
def test_the_form_for_caches_says_the_same_and_a_memory_moves_nothing_before_it(configs: dict[str, str | None]) -> None:
    files = PersonaFiles(**configs)
    prompt, whole = laid_out(files), assemble(files)
    assert sorted((prompt.stable + prompt.memory).split("\n")) == sorted(whole.split("\n"))
    learned = laid_out(PersonaFiles(**{**configs, "memory": "Ann keeps bees."}))
    if prompt.stable:
        assert learned.stable == prompt.stable
    assert learned.memory == "## Long-Term Memory\n\nAnn keeps bees.\n\n"


# Feature: discord-claude-gateway, Property 28: For any set of markdown configuration files in CONFIG_DIR, reading all configs and assembling the system prompt should produce the same result regardless of whether it's the first read or a subsequent read after a simulated restart (i.e., the markdown files are the complete source of truth with no in-memory state dependency).  # noqa: E501
@settings(max_examples=100, deadline=None)
@given(CONFIGS, CONFIGS)
def test_property_28_a_restart_changes_nothing(before: dict[str, str | None], configs: dict[str, str | None]) -> None:
    """Read by a process that knew other files in their place, once more by the same, and by a new one."""
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name), FileCache()
        for files in (before, configs):
            for stem, text in files.items():
                (folder / f"{stem}.md").unlink(missing_ok=True)
                if text is not None:
                    (folder / f"{stem}.md").write_bytes(text.encode())
            first = read_persona(folder, cache)
        again, restarted = read_persona(folder, cache), read_persona(folder)
    assert first == again == restarted
    assert assemble(first) == assemble(again) == assemble(restarted)
    assert {stem: first.text(f"{stem}.md") is None for stem in SHOWN} == {
        stem: text is None for stem, text in configs.items()
    }
