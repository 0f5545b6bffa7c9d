from __future__ import annotations

import re
import struct
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from agentic.net.addresses import FetchRefused
from agentic.net.fetch import Downloaded
from agentic.net.page_text import readable_page
from agentic.tools.call_runner import problem_with
from agentic.tools.web_fetch import SPEC, WebFetch
from tests.support.tools.tool_doubles import CONTEXT

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 16, 16) + b"rest"
PAGE = """<html><head><title> Tall
 trees </title><script>var a = "<p>no</p>"</script><style>p{}</style></head><body>
<header>Menu</header><nav><a href="/home">Home</a></nav>
<h1>Trees &amp; more</h1><p>The <b>tallest</b>   is <a href="../wiki/Fig">a fig</a><a href="#top">(top)</a>.</p>
<ul><li>one</li><li>two <i>2</i></li></ul>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<pre>def f():
    return  1</pre><p hidden>secret</p><img src="x" alt="a fig"><a href="javascript:alert(1)">bad</a>
<footer>Imprint</footer></body></html>"""
TEXT = """# Trees & more

The tallest is [a fig](https://a.example/wiki/Fig)(top).

- one
- two 2

a | b
1 | 2

def f():
    return  1

[picture: a fig]bad"""


def test_a_page_becomes_text_without_what_surrounds_it():
    title, text = readable_page(PAGE, "https://a.example/b/c")
    assert (title, text) == ("Tall trees", TEXT)


def test_the_main_part_is_the_text_where_it_says_enough():
    long = "word " * 100
    _, text = readable_page(f"<body><div>Around</div><main><p>{long}</p></main></body>", "https://a.example")
    assert text == long.strip()
    _, text = readable_page("<body><p>Around</p><main>short</main></body>", "https://a.example")
    assert text == "Around\n\nshort"
    two = f"<body><article>{long}</article><article>{long}</article></body>"
    assert readable_page(two, "https://a.example")[1].count("word") == 200


@pytest.mark.parametrize("html", ["", " ", "<!-- -->", "<html>", "<?xml version='1.0' encoding='utf-16'?>", "<a>"])
def test_a_page_with_nothing_in_it_has_no_text(html):
    assert readable_page(html, "https://a.example")[1] == ""


@given(st.text(alphabet='<>/ap"= !-\n[]()prehifd&;', max_size=200), st.text(alphabet="xyz", min_size=1))
@example(html="<a ;=", word="x")
def test_whatever_stands_in_a_page_what_follows_is_read(html, word):
    closed = "w\"'\"'-->"  # a value, quoted or not, and a comment; a quote alone would begin a value behind "="
    _, text = readable_page(f"{html} {closed}</a><p>{word}</p>", "https://a.example/[")
    assert text == text.strip()
    assert "\n\n\n" not in text
    assert word in text


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["<p>", "</p>", "<b>", "</div>", "<li>", "<h1>", "<td>", "<a href='['>", "&", "<br>"]),
            st.text(alphabet="xyz", min_size=1),
        )
    )
)
def test_no_word_of_a_page_is_lost_or_moved_however_wrong_its_tags_are(parts):
    _, text = readable_page("".join(f"{tag} {word} " for tag, word in parts), "https://a.example/")
    assert re.findall("[xyz]+", text) == [word for _, word in parts]


@pytest.mark.parametrize(
    "html", ["<div>" * 200_000, "<" * 500_000, "<a <b " * 100_000, "<!--" * 200_000, "&" * 500_000]
)
def test_a_hostile_page_takes_no_longer_than_another(html):
    began = time.perf_counter()
    readable_page(html, "https://a.example")
    assert time.perf_counter() - began < 5.0


class Pages:
    def __init__(self, body=b"", content_type="text/html"):
        self.body, self.content_type, self.asked = body, content_type, []

    async def fetch_page(self, url):
        self.asked.append(url)
        if isinstance(self.body, Exception):
            raise self.body
        return Downloaded(self.body, self.content_type, URL(url))


def tool(body, content_type="text/html; charset=utf-8", *, clock=lambda: 0.0, **more):
    body = body.encode() if isinstance(body, str) else body
    return WebFetch(Pages(body, content_type), clock, **more)


async def fetch(fetching, url="https://a.example/b/c", **more):
    return await fetching.execute({"url": url, **more}, CONTEXT)


async def test_a_page_is_read_with_its_title_and_address():
    output = await fetch(tool(PAGE))
    assert output.text == f"address: https://a.example/b/c\ntitle: Tall trees\n\n{TEXT}"


async def test_a_long_page_is_read_in_pieces_that_make_up_the_whole_and_is_fetched_once():
    text = "\n".join(f"line {number}" for number in range(1000))
    fetching = tool(text, "text/plain", characters=1000)
    offset, read = 0, ""
    while offset < len(text):
        output = await fetch(fetching, offset=offset)
        head, _, piece = output.text.partition("\n\n")
        assert len(piece) <= 1000
        read += piece
        offset += len(piece)
        assert (f"read on with offset {offset}" in head) == (offset < len(text))
    assert read == text
    assert len(fetching.fetcher.asked) == 1
    assert (await fetch(fetching, offset=offset)).text == f"the page has only {offset} characters"


async def test_a_page_is_fetched_again_when_it_is_old_and_few_are_kept():
    now = 0.0
    fetching = tool("a page", "text/plain", clock=lambda: now)
    await fetch(fetching)
    now = 601.0
    await fetch(fetching)
    assert len(fetching.fetcher.asked) == 2
    for number in range(40):
        await fetch(fetching, f"https://a.example/{number}")
    await fetch(fetching)
    assert len(fetching.fetcher.asked) == 43


async def test_json_and_plain_text_are_given_as_they_are():
    output = await fetch(tool('{"a": "<b>"}', "application/json"))
    assert output.text.endswith('\n\n{"a": "<b>"}')


@pytest.mark.promise(29)
async def test_a_picture_is_shown_whatever_its_header_says():
    output = await fetch(tool(PNG, "text/html"))
    assert output.pictures[0].media_type == "image/png"
    assert output.text == "a picture from https://a.example/b/c"


@pytest.mark.promise(29)
@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (FetchRefused("a name that is not public"), "", "a name that is not public"),
        (b"%PDF-1.7", "application/pdf", "not a text page"),
        (b"PK\x03\x04", "application/zip", "not a text page"),
        (b"a\0b", "text/html", "not a text page"),
        (PNG.replace(struct.pack(">II", 16, 16), struct.pack(">II", 9000, 9000)), "image/png", "too many pixels"),
    ],
)
async def test_what_is_not_read_is_told_in_one_line(body, content_type, reason):
    output = await fetch(tool(body, content_type))
    assert (output.text, output.is_error) == (f"could not read the page: {reason}", True)


async def test_a_page_without_words_says_so():
    assert (await fetch(tool("<html></html>"))).text == "https://a.example/b/c has no text"


def test_a_wrong_offset_does_not_reach_the_tool():
    assert problem_with({"url": "u", "offset": -1}, SPEC.parameters) == "offset must be at least 0"
    assert problem_with({"url": "u", "offset": None}, SPEC.parameters) == "offset must be integer"
