"""The examples of docs/persona-files.md, read by the parsers that they explain."""

from __future__ import annotations

import re

from agentic.personas.files import PERSONA_FILES
from agentic.personas.identity import IdentityCard, parse_identity
from agentic.personas.memory import visible_memory
from agentic.personas.schedules import EVENT_TYPES, parse_cron, parse_heartbeat, parse_hooks
from agentic.personas.schedules import HEARTBEAT_FIELDS as FIELDS
from agentic.personas.store import BootConfig, parse_boot
from agentic.process.root import ROOT

TEXT = (ROOT / "docs" / "persona-files.md").read_text(encoding="utf-8")


def example(heading: str) -> str:
    below = TEXT.split(f"# {heading}\n", 1)[1]
    match = re.search(r"^```markdown\n(.*?)^```$", below, re.DOTALL | re.MULTILINE)
    assert match
    return match[1]


def test_every_file_has_its_chapter() -> None:
    assert set(re.findall(r"^## (\w+\.md)$", TEXT, re.MULTILINE)) == set(PERSONA_FILES)


def test_the_card_has_every_field() -> None:
    card, problems = parse_identity(example("identity.md"))
    assert problems == ()
    assert card.model_dump(exclude_none=True).keys() == IdentityCard.model_fields.keys()


def test_the_check_the_job_and_the_hooks_can_be_read() -> None:
    checks, problems = parse_heartbeat(example("heartbeat.md"))
    assert [(check.name, check.interval_seconds, check.channel) for check in checks] == [("Build", 900, "lab")]
    assert problems == ()
    assert all(f"`{field.replace('_', ' ')}`" in TEXT for field in FIELDS)
    jobs, problems = parse_cron(example("Cron jobs"))
    assert [(job.name, job.expression, job.catch_up) for job in jobs] == [("Monday question", "0 9 * * 1", True)]
    assert problems == ()
    hooks, problems = parse_hooks(example("Hooks"))
    assert "startup" in hooks
    assert hooks["agent_stop"].when == {"message", "webhook"}
    assert problems == ()
    assert all(f"`{kind}`" in TEXT for kind in EVENT_TYPES)


def test_the_memory_is_recalled_as_the_document_says() -> None:
    assert "Ann" not in visible_memory(example("memory.md"), lambda channel: False)
    assert "Ann" in visible_memory(example("memory.md"), lambda channel: channel == 123456789012345678)


def test_the_boot_file_can_be_read() -> None:
    config = BootConfig(("soul.md", "identity.md"), ("agents.md", "memory.md"), {"memory.md": "# Memory\n"})
    assert parse_boot(example("boot.md")) == (config, ())
