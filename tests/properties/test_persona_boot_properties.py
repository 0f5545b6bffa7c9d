"""Property 27 of the gateway's design: what is missing is made."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.personas.files import read_persona
from agentic.personas.store import DEFAULTS, bootstrap
from tests.support.persona_strategies import PERSONA_NAMES, PROSE


# Feature: discord-claude-gateway, Property 27: For any set of required files specified in BootConfig where some files are missing from CONFIG_DIR, the bootstrap process should create each missing file with its default content, and after bootstrap all required files should exist.  # noqa: E501
@settings(max_examples=100, deadline=None)
@given(PERSONA_NAMES, PERSONA_NAMES, PERSONA_NAMES, st.dictionaries(st.sampled_from(sorted(DEFAULTS)), PROSE), PROSE)
def test_property_27_missing_files_are_made_with_their_defaults(
    required: list[str], optional: list[str], there: list[str], given_: dict[str, str], text: str
) -> None:
    """The default is what boot.md says, else what the caller gives, else what is built in, else a heading."""
    boot = ["## Required", *(f"- {name}" for name in required), "## Optional", *(f"- `{name}`" for name in optional)]
    wanted = list(dict.fromkeys((*required, *optional)))
    if wanted:
        boot += ["## Defaults", f"### {wanted[0]}", "```", "# Of boot.md", text.replace("`", ""), "```"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "new"
        folder.mkdir()
        (folder / "boot.md").write_text("\n".join(boot), encoding="utf-8")
        for file in there:
            (folder / file).write_text("mine", encoding="utf-8")
        report = bootstrap(folder, given_)
        assert set(report.loaded) == set(wanted) & set(there)
        assert set(report.made) == set(wanted) - set(there)
        assert report.problems == ()
        for file in wanted:
            found = (folder / file).read_text(encoding="utf-8")
            if file in there:
                assert found == "mine"
            elif file == wanted[0]:
                assert found == f"# Of boot.md\n{text.replace('`', '')}\n"
            else:
                fallback = DEFAULTS.get(file, f"# {file[:-3].replace('_', ' ').capitalize()}\n")
                assert found == given_.get(file, fallback)
        assert bootstrap(folder).made == ()
        assert not [problem for problem in read_persona(folder).problems if problem.split(":")[0] in wanted]
