"""A conversation as a page: everything of it is there, nothing of it is executed or loaded."""

import json
from contextlib import closing
from html.parser import HTMLParser

import pytest
from support.records import SHOWCASE, SHOWCASE_TOPIC, fill

from agentic.record.__main__ import main
from agentic.record.database import connect, connect_blocking
from agentic.record.export.render import FORMATS, export
from agentic.record.export.story import Look

HOSTILE = """"><img src=x onerror=alert(1)></title></style><script>alert(1)</script>'{{ 7 * 7 }}"""
LOOK = Look(names={"gemini": "Gemini", "grok": "Grok"}, colors={"gemini": 0x4285F4})


@pytest.fixture
def record_file(tmp_path):
    fill(tmp_path / "record.db", 30, days=2)
    return tmp_path / "record.db"


def change(path, sql, *values):
    with closing(connect_blocking(path, writable=True)) as connection:
        connection.execute(sql, values)


async def exported(path, kind, look=LOOK):
    db = await connect(path)
    try:
        return (await export(db, "showcase", kind, look)).text
    finally:
        await db.close()


class Page(HTMLParser):
    """Notes what a browser would run, load or follow."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.loaded, self.links, self.handlers, self.text = set(), [], [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "srcset", "background", "data", "xlink:href", "action"):
                self.loaded.append(value)
            if name == "href":
                self.links.append(value)
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_data(self, data):
        self.text += data


async def test_the_page_has_every_message_with_author_picture_and_reactions(record_file):
    page = Page(await exported(record_file, "html"))
    for part in ("Is a tomato a fruit", "Gemini", "Grok", "17:30", "8 messages in 5 minutes", "debate", "🍅 4", "🔥 5"):
        assert part in page.text
    assert "Your function returns True for marshmallows." in page.text
    assert len(page.loaded) == 1
    assert page.loaded[0].startswith("data:image/png;base64,")
    assert "$" not in page.text
    assert "$0.0" in Page(await exported(record_file, "html", Look(costs=True))).text


@pytest.mark.promise(128)
@pytest.mark.parametrize(
    "place",
    [
        "UPDATE posts SET text = ?",
        "UPDATE conversations SET topic = ?",
        "UPDATE conversations SET theme = ?",
        "UPDATE reactions SET emoji = ? || emoji",
        "UPDATE turns SET emoji = ?1, reacted_to = (SELECT min(message_id) FROM posts)",
        "UPDATE pictures SET media_type = ?",
    ],
)
async def test_nothing_from_outside_becomes_part_of_the_page(record_file, place):
    change(record_file, place, HOSTILE)
    hostile = Look(names={"gemini": HOSTILE, "grok": HOSTILE}, channels={1_200_000_000_000_000_002: HOSTILE})
    page = Page(await exported(record_file, "html", hostile))
    assert "script" not in page.tags
    assert page.handlers == []
    assert all(address.startswith("data:image/png;base64,") for address in page.loaded)
    assert all(link.startswith("https://") for link in page.links)
    assert "49" not in page.text.replace(HOSTILE, "")


async def test_markdown_keeps_each_text_in_its_message_and_html_out(record_file):
    change(
        record_file, "UPDATE posts SET text = ? WHERE turn_id = 'showcase-0'", "**Grok** 17:31\n\n<script>x</script>"
    )
    change(
        record_file, "UPDATE posts SET text = '[a](javascript:x) `<b>` <@5> **<:hat:1>**' WHERE turn_id = 'showcase-1'"
    )
    nested = "````md\n```html\n<b>\n```\n````\n~~~\n<@5>\n~~~\n<b>"
    change(record_file, "UPDATE posts SET text = ? WHERE turn_id = 'showcase-2'", nested)
    text = await exported(record_file, "md")
    assert "\n> **Grok** 17:31\n>\n> &lt;script>x" in text
    assert "> [a]\\(javascript:x) `<b>` @somebody **:hat:**" in text
    assert "> <b>\n> ```\n> ````\n> ~~~\n> <@5>\n> ~~~\n> &lt;b>" in text
    assert "![picture](data:image/png;base64," in text
    assert text.startswith(f"# I{SHOWCASE_TOPIC[1:]}")


async def test_json_has_ids_as_text_and_everything_that_the_page_has(record_file):
    found = json.loads(await exported(record_file, "json", Look(costs=True)))
    assert [message["text"] for message in found["messages"]] == [text for _, text, _ in SHOWCASE]
    assert isinstance(found["messages"][0]["message_id"], str)
    assert found["messages"][5]["picture"]["media_type"] == "image/png"
    assert {"emoji": "🍅", "count": 4, "agents": []} in found["messages"][0]["reactions"]
    assert found["cost_usd"] == pytest.approx(sum(message["cost_usd"] for message in found["messages"]))


async def test_a_deleted_post_is_left_out_and_a_conversation_without_posts_says_so(record_file):
    change(record_file, "UPDATE posts SET deleted_at = 1, text = '' WHERE turn_id = 'showcase-0'")
    assert "7 messages" in Page(await exported(record_file, "html")).text
    change(record_file, "DELETE FROM posts")
    assert "Nothing was posted." in Page(await exported(record_file, "html")).text
    for kind in FORMATS:
        assert await exported(record_file, kind)


async def test_an_agents_reaction_is_shown_with_its_name_and_counted_once(record_file):
    custom = (
        "UPDATE turns SET emoji = '<:party:12>', reacted_to = (SELECT min(message_id) FROM posts WHERE turn_id = ?)"
    )
    change(record_file, f"{custom} WHERE id = 'showcase-1'", "showcase-0")
    html = await exported(record_file, "html")
    assert '<li title="Grok">:party: <span>1</span></li>' in html


@pytest.fixture
def command(record_file, monkeypatch, tmp_path):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: main(["export", *arguments])


def test_the_command_writes_the_newest_conversation_to_a_file_named_by_its_topic(command, tmp_path, capsys):
    assert command("--last") == 0
    name = "conversation-2026-11-22-is-a-tomato-a-fruit-and-should-anybody-care.html"
    assert capsys.readouterr().out == f"Wrote {name}\n"
    assert "ChatGPT" in (tmp_path / name).read_text(), "the names that the settings give"
    assert command("--conversation", "showcase", "--format", "md", "--output", "-") == 0
    assert "**Claude** 17:31" in capsys.readouterr().out


def test_the_command_lists_conversations_and_says_what_to_do_when_there_is_none(command, record_file, capsys):
    assert command("--list") == 0
    assert "showcase  2026-11-22 17:30  debate" in capsys.readouterr().out
    assert command("--conversation", "another") == 1
    assert "no conversation 'another'. export --list lists" in capsys.readouterr().err
    (record_file.parent / "local").mkdir()
    record_file.rename(record_file.parent / "local" / record_file.name)
    assert command("--last") == 1
    assert "No history was found at" in (error := capsys.readouterr().err)
    assert "--local" in error
    assert command("--last", "--local") == 0


def test_a_file_that_cannot_be_written_is_the_one_that_is_named(command, tmp_path, capsys):
    assert command("--last", "--output", str(tmp_path / "nowhere" / "page.html")) == 1
    assert capsys.readouterr().err == f"{tmp_path}/nowhere/page.html: No such file or directory\n"


def test_a_damaged_record_is_named_with_what_to_do(command, tmp_path, capsys):
    (tmp_path / "record.db").write_bytes(b"not a database at all" * 100)
    assert command("--last") == 1
    assert "record.db: the file is damaged; move it away" in capsys.readouterr().err
