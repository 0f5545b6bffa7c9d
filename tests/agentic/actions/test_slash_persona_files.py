"""A persona's files as who manages a server sees and changes them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentic.actions.base import (
    FIELD_CHARACTERS,
    MAX_FIELDS,
    REPLY_CHARACTERS,
    ActionContext,
    ActionRequest,
    Form,
    Place,
    read_text,
    text_form,
)
from agentic.actions.personas import MAX_BACK, SAVE_FILE, problems_of
from agentic.actions.registry import Actions
from agentic.actions.texts import TEXTS
from agentic.chat.service import Person
from agentic.chat.splitting import length
from agentic.personas.files import PERSONA_FILES
from agentic.personas.memory import Origin, append
from agentic.personas.store import VERSIONS, versions_of
from agentic.state.silence import ChannelRef
from tests.support.slash_scene import Reply, shown

NAMES = {"claude": "Claude"}
HERE, ELSEWHERE = 100, 200
OWNER = Person(1, manages_guild=True)


class Desk:
    """The owner at the persona files below a folder; a channel's readers may see what was noted in it alone."""

    def __init__(self, folder: Path) -> None:
        settings = SimpleNamespace(persona_folder=lambda agent: folder / agent, owner_user_ids={OWNER.user_id})
        scope, roster = SimpleNamespace(theme=lambda *_: "casual"), SimpleNamespace(names=NAMES)
        services: Any = SimpleNamespace(
            settings=settings,
            agents=SimpleNamespace(names=NAMES, roster=roster),
            chats=SimpleNamespace(scope=scope),
            clock=float,
            record=SimpleNamespace(note=print),
        )
        self._actions = Actions(ActionContext(services, Place()))

    async def _use(self, name: str, here: int, **values: Any) -> Any:
        place = ChannelRef(here, guild_id=1)
        request = ActionRequest(id=1, name=name, who=OWNER, place=place, values=values)
        return shown(await self._actions.perform(request))

    async def show(self, agent: str, name: str, here: int, back: int = 0) -> Any:
        return await self._use("agent-file show", here, agent=agent, file=name, back=back)

    async def form(self, agent: str, name: str, here: int) -> Any:
        return await self._use("agent-file edit", here, agent=agent, file=name)

    async def save(self, form_id: str, text: str) -> Any:
        return await self._use(SAVE_FILE, HERE, id=form_id, part1=text)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "claude").mkdir()
    return Desk(tmp_path)


def put(tmp_path, name, text):
    (tmp_path / "claude" / name).write_text(text, encoding="utf-8")


async def test_a_file_is_shown_and_a_long_one_goes_along(desk, tmp_path):
    put(tmp_path, "soul.md", "# Soul\nDry humour.")
    put(tmp_path, "user.md", "word " * 1000)
    put(tmp_path, "tools.md", "```\ncode\n```")
    assert "Dry humour." in await desk.show("claude", "soul.md", HERE)
    assert await desk.show("claude", "user.md", HERE) == Reply("Claude's user.md:", file=("user.md", "word " * 1000))
    assert isinstance(await desk.show("claude", "tools.md", HERE), Reply)
    for size in range(1900, 2000):  # around the most that Discord takes
        put(tmp_path, "agents.md", "🐝" * (size // 2))
        shown = await desk.show("claude", "agents.md", HERE)
        assert isinstance(shown, Reply) or length(shown) <= REPLY_CHARACTERS
    assert "can't be shown" in await desk.show("claude", "memory.md", HERE)


@pytest.mark.parametrize("name", ["../../.env", "notes.md", ".history", ""])
async def test_nothing_else_is_shown_or_changed(desk, tmp_path, name):
    (tmp_path / "claude" / "notes.md").write_text("mine")
    assert "There's no file called" in await desk.show("claude", name, HERE)
    assert "There's no bot called" in await desk.show("hal", "soul.md", HERE)
    assert await desk.save(f"agent-file:claude:{name}:x", "text") == TEXTS["no_such_file"]
    assert await desk.save("agent-file:../claude:soul.md:x", "text") == TEXTS["no_such_file"]
    assert await desk.save("somebody else's form", "text") == TEXTS["no_such_file"]
    assert (tmp_path / "claude" / "notes.md").read_text() == "mine"


async def test_a_change_is_kept_and_what_it_was_is_in_the_history(desk, tmp_path):
    put(tmp_path, "soul.md", "old")
    form = await desk.form("claude", "soul.md", HERE)
    assert [field.text for field in form.fields] == ["old"]
    assert len(form.id) <= 100
    assert "Saved" in await desk.save(form.id, "new")
    folder = tmp_path / "claude"
    assert (folder / "soul.md").read_text() == "new\n"
    assert versions_of(folder, "soul.md")[-1].text == "old"


async def test_what_a_file_was_before_is_shown(desk, tmp_path):
    put(tmp_path, "soul.md", "nothing")
    for text in ("first", "second", "third"):
        await desk.save((await desk.form("claude", "soul.md", HERE)).id, text)
    assert await desk.show("claude", "soul.md", HERE, 1) == (
        "Claude's soul.md, before the last change:\n```md\nsecond\n\n```"
    )
    assert "first" in await desk.show("claude", "soul.md", HERE, 2)
    assert "before the last 3 changes:\n```md\nnothing" in await desk.show("claude", "soul.md", HERE, 3)
    assert "its history has only 3 changes" in await desk.show("claude", "soul.md", HERE, 4)
    assert "its history has only 0 changes" in await desk.show("claude", "user.md", HERE, 1)


def test_the_command_goes_as_far_back_as_the_history() -> None:
    assert MAX_BACK == VERSIONS


async def test_of_a_memorys_history_too_only_what_may_be_told_is_shown(desk, tmp_path):
    folder = tmp_path / "claude"
    append(folder, "Bob is ill.", Origin(channel=ELSEWHERE, guild=2))
    append(folder, "Ann keeps bees.", Origin(channel=HERE, guild=1))
    append(folder, "Eve sings.", Origin(channel=HERE, guild=1))
    shown = await desk.show("claude", "memory.md", HERE, 1)
    assert "Ann keeps bees." in shown
    assert "Bob is ill." not in shown
    assert "Eve sings." not in shown


@pytest.mark.promise(39)
@pytest.mark.parametrize(
    "mark", ["<!-- channel:#staff -->", "<!-- channel: -->", "<!-- channel:123", "<!-- Channel=12 -->"]
)
async def test_what_a_mark_hides_that_cannot_be_understood_is_never_shown_raw(desk, tmp_path, mark):
    put(tmp_path, "memory.md", f"# Memory\n\n- Ann keeps bees.\n- Bob is ill. {mark}\n")
    shown = await desk.show("claude", "memory.md", HERE)
    assert "Ann keeps bees." in shown
    assert "Bob is ill." not in shown
    assert "without notes from channels" in shown
    assert "Edit it on disk" in await desk.form("claude", "memory.md", HERE)


async def test_what_stands_below_a_heading_with_such_a_mark_is_not_shown_either(desk, tmp_path):
    put(
        tmp_path,
        "memory.md",
        "# Memory\n\n## Staff <!-- channel:#staff -->\n- Bob is ill.\n\n## All\n- Ann keeps bees.\n",
    )
    shown = await desk.show("claude", "memory.md", HERE)
    assert "Ann keeps bees." in shown
    assert "Bob is ill." not in shown


async def test_a_file_that_is_missing_can_be_written(desk, tmp_path):
    form = await desk.form("claude", "user.md", HERE)
    assert "Saved" in await desk.save(form.id, "People who like tea.")
    assert (tmp_path / "claude" / "user.md").read_text() == "People who like tea.\n"


async def test_nobody_writes_over_what_was_changed_meanwhile(desk, tmp_path):
    put(tmp_path, "memory.md", "# Memory\n")
    form = await desk.form("claude", "memory.md", HERE)
    put(tmp_path, "memory.md", "# Memory\n- Ann keeps bees.\n")
    told = await desk.save(form.id, "# Memory\n- mine\n")
    assert told.text.startswith("Not saved")
    assert told.file == ("memory.md", "# Memory\n- mine\n")
    assert "bees" in (tmp_path / "claude" / "memory.md").read_text()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("identity.md", "---\ntalkativeness: 7\n---\nI am Claude."),
        ("heartbeat.md", "## Look\n- interval: 5\n\nLook at the door."),
        ("agents.md", "## Cron Jobs\n### News\n- cron: every day\n\nTell the news."),
    ],
)
async def test_what_would_not_be_understood_is_given_back_with_the_reason(desk, tmp_path, name, text):
    assert problems_of(name, text)
    told = await desk.save((await desk.form("claude", name, HERE)).id, text)
    assert told.text.startswith("Not saved")
    assert problems_of(name, text)[0] in told.text
    assert told.file is not None
    assert not (tmp_path / "claude" / name).exists()


@pytest.mark.parametrize("name", PERSONA_FILES)
def test_an_empty_file_is_no_problem(name):
    assert problems_of(name, "") == ()


async def test_what_no_form_can_hold_is_to_be_changed_on_its_disk(desk, tmp_path):
    put(tmp_path, "soul.md", "a line\n" * 4000)
    told = await desk.form("claude", "soul.md", HERE)
    assert "too long" in told.text
    put(tmp_path, "soul.md", "x" * (FIELD_CHARACTERS + 1))
    assert "too long" in (await desk.form("claude", "soul.md", HERE)).text


def test_the_parts_of_a_form_make_the_text_again():
    for text in ("", "one", "line\n" * 1500, "\n\n\nx\n" * 900, "y" * FIELD_CHARACTERS + "\n" + "z" * FIELD_CHARACTERS):
        fields = text_form("i", "t", text).fields
        assert len(fields) <= MAX_FIELDS
        assert all(len(field.text) <= FIELD_CHARACTERS for field in fields)
        assert read_text({field.id: field.text for field in fields}) == text


async def test_who_manages_one_server_neither_sees_nor_changes_what_was_noted_elsewhere(desk, tmp_path):
    folder = tmp_path / "claude"
    append(folder, "Ann keeps bees.", Origin(channel=HERE, guild=1))
    shown = await desk.show("claude", "memory.md", HERE)
    assert "Ann keeps bees." in shown
    assert isinstance(await desk.form("claude", "memory.md", HERE), Form)
    append(folder, "Bob is ill.", Origin(channel=ELSEWHERE, guild=2))
    shown = await desk.show("claude", "memory.md", HERE)
    assert "Ann keeps bees." in shown
    assert "Bob is ill." not in shown
    assert "without notes from channels" in shown
    assert "Edit it on disk" in await desk.form("claude", "memory.md", HERE)
