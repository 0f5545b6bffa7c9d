from __future__ import annotations

from agentic.console.api.agents import changes_of, memory_entries
from agentic.console.json_values import MAX_LINES
from agentic.personas.store import Version

OLD = "# Memory\n\n- The owner's own line.\n"
MIDDLE = f"{OLD}\n## People\n- Ann keeps bees. <!-- channel:123 guild:4 by:7 -->\n"
NOW = f"{MIDDLE}- Bob is loud. <!-- channel:124 by:0,8 -->\n- Odd. <!-- channel:x -->\n"
VERSIONS = [Version(100.0, OLD), Version(200.0, MIDDLE)]


def test_each_change_is_shown_line_by_line_the_newest_first() -> None:
    last, first = changes_of(VERSIONS, NOW)
    assert (last["at"], last["added"], last["removed"]) == (200.0, 2, 0)
    assert [line["text"] for line in last["lines"] if line["sign"] == "+"] == NOW.splitlines()[-2:]
    assert (first["at"], first["added"], first["removed"]) == (100.0, 3, 0)


def test_an_entry_of_memory_names_where_when_and_through_whom_it_was_learned() -> None:
    own, ann, bob, odd = memory_entries(VERSIONS, NOW)
    assert (own.text, own.channels, own.people, own.others, own.added_at) == (
        "- The owner's own line.",
        (),
        (),
        False,
        None,
    )
    assert (ann.text, ann.section, ann.channels, ann.people) == ("- Ann keeps bees.", "People", (123,), (7,))
    assert (ann.others, ann.added_at) == (False, 100.0)
    assert (bob.people, bob.others, bob.added_at) == ((8,), True, 200.0)
    assert not odd.readable


def test_versions_that_would_take_long_to_compare_are_only_counted() -> None:
    (change,) = changes_of([Version(1.0, "a\n" * (MAX_LINES + 5))], "b\n")
    assert (change["lines"], change["added"], change["removed"]) == (None, 0, MAX_LINES + 4)
