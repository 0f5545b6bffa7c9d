"""docs/channel-options.md names every option, with its default and an example that can be read."""

import re

import yaml

from agentic.context.options import NOT_PINNABLE, Options, options_of, read_options
from agentic.process.root import ROOT

TEXT = (ROOT / "docs" / "channel-options.md").read_text(encoding="utf-8")
SHARED = (ROOT / "config" / "shared.example.yaml").read_text(encoding="utf-8")
ROWS = {row[0]: row[1:] for row in re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", TEXT, re.MULTILINE)}
(EXAMPLE,) = re.findall(r"^```yaml options\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_every_option_has_its_row_in_the_order_of_the_code():
    assert list(ROWS) == list(Options.model_fields)


def test_the_defaults_are_those_of_the_code():
    for name, info in Options.model_fields.items():
        default = info.get_default(call_default_factory=True)
        shown = ROWS[name][1]
        if shown.startswith("`"):
            told = default[0] if isinstance(default, tuple) else default
            assert shown.strip("`") == (str(told).lower() if isinstance(told, bool) else str(told)), name
        else:
            assert default in (None, (), {}), name


def test_what_pins_cannot_set_is_said():
    assert {name for name, row in ROWS.items() if "Not in pins" in row[2]} == NOT_PINNABLE


def test_every_option_has_an_example_that_can_be_read():
    layer, problems = read_options(yaml.safe_load(EXAMPLE))
    assert problems == []
    assert list(layer) == list(Options.model_fields)
    assert options_of([layer]).max_messages == 80


def test_the_example_of_an_option_file_sets_what_holds_without_it_and_names_nothing_unknown():
    layer, problems = read_options(yaml.safe_load(SHARED))
    assert problems == []
    assert options_of([layer]) == Options()
    hidden = "\n".join(re.findall(r"^# (\w+: .*)$", SHARED, re.MULTILINE))
    layer, problems = read_options(yaml.safe_load(hidden))
    assert (problems, len(layer)) == ([], hidden.count("\n") + 1)
