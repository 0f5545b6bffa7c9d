"""Discord's markdown as HTML: what people wrote looks as it does there, and nothing of it is ever a tag of the page."""

from __future__ import annotations

import re
import time
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.record.export.render import to_html
from agentic.record.export.story import Look
from tests.support.code_blocks import CODE_BLOCKS

LOOK = Look(people={5: "<b>Ann</b>"}, channels={7: "general"})

TAGS = {"p", "br", "strong", "em", "u", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a", "span"}
ATTRIBUTES = {"class", "href", "target", "rel", "start", "tabindex", "title"}


class Tags(HTMLParser):
    """What a browser would make of it: any tag, attribute or address that is not ours raises."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.text = [], ""

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, name
            assert name != "href" or value.startswith(("https://", "http://")), value
        assert tag != "a" or "a" not in self.open, "a link in a link"
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def checked(text, look=LOOK):
    html, tags = str(to_html(text, look)), Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    return html, tags.text


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**bold** *it* _it_ __under__", "<strong>bold</strong> <em>it</em> <em>it</em> <u>under</u>"),
        ("~~gone~~", "<s>gone</s>"),
        ("***both***", "<strong><em>both</em></strong>"),
        ("a\nb", "a<br>b"),
        ("2 * 3 * 4, snake_case_name, \\*plain\\*", "2 * 3 * 4, snake_case_name, *plain*"),
        ("`**not bold** <i>`", "<code>**not bold** &lt;i&gt;</code>"),
        ("``a ` b``", "<code>a ` b</code>"),
        ("||secret **two**||", 'title="Spoiler">secret <strong>two</strong></span>'),
        ("[a](https://x.org/a_(b)?q=1&r=2)", 'href="https://x.org/a_(b)?q=1&amp;r=2" target="_blank" rel="noopener'),
        ("see https://x.org/a_b_c.", ">https://x.org/a_b_c</a>."),
        ("<https://x.org>", ">https://x.org</a>"),
        ("<@5> <@!6> <@&8> <#7> <#9>", '@&lt;b&gt;Ann&lt;/b&gt;</span> <span class="mention">@somebody</span>'),
        ("<#7>", '<span class="mention">#general</span>'),
        ("<:party_cat:123> <a:spin:4>", "<p>:party_cat: :spin:</p>"),
        ("<t:0:F> </ask:12>", "1 January 1970, 00:00"),
        ("# Title\n-# small", '<p class="heading">Title</p><p class="subtext">small</p>'),
        ("- a\n  - c\n\n3. d", '<ul><li>a</li><li class="deeper">c</li></ul><ol start="3"><li>d</li></ol>'),
        ("> q1\n> q2\nend", "<blockquote><p>q1<br>q2</p></blockquote><p>end</p>"),
        ("a\n>>> all\nof it", "<p>a</p><blockquote><p>all<br>of it</p></blockquote>"),
        ("x\n```py\na < b\n\n# no title\n```\ny", "<pre><code>a &lt; b\n\n# no title</code></pre><p>y</p>"),
        ("``` not closed", "<p>``` not closed</p>"),
    ],
)
def test_markdown_looks_as_in_discord(text, html):
    assert html in checked(text)[0]


@pytest.mark.parametrize(("text", "blocks"), CODE_BLOCKS.items())
def test_a_code_block_ends_where_the_console_ends_it(text, blocks):
    html, _ = checked(text)
    assert re.findall("<pre><code>(.*?)</code></pre>", unescape(html), re.DOTALL) == blocks


@pytest.mark.promise(128)
@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "**<svg onload=alert(1)>**",
        "[click](javascript:alert(1))",
        "[click](JaVaScRiPt://x.org/%0aalert(1))",
        "[click](data:text/html,<script>alert(1)</script>)",
        '[x](https://x.org/"onmouseover="alert(1))',
        "[<img src=x onerror=alert(1)>](https://x.org)",
        'https://x.org/"><script>alert(1)</script>',
        "https://x.org/'onclick='alert(1)",
        "```html\n</code></pre><script>alert(1)</script>\n```",
        '```"><script>\nx```',
        "`</code><script>`",
        '||" onfocus="alert(1)||',
        "> <iframe src=javascript:alert(1)>",
        "<:<script>:1> <@<b>> </<script>:1>",
        "<!-- a comment --> <?php ?> <![CDATA[ x ]]>",
        "&lt;script&gt; &#x6a;avascript:",
        "[https://x.org **[b](https://y.org)**](https://z.org)",
        "[a https://y.org](https://z.org)",
        "\\<script>",
        "\x00<\x00script>\x0b",
    ],
)
def test_nothing_in_a_text_becomes_a_tag_an_attribute_or_an_address_of_the_page(text):
    assert "<script" not in checked(text)[0]


@pytest.mark.promise(128)
@given(st.text(st.sampled_from("*_~|`<>[]()#-1. \n\\ahttps:/@&!\"'="), max_size=120) | st.text(max_size=60))
def test_any_text_comes_out_as_balanced_tags_of_ours(text):
    checked(text)


@pytest.mark.parametrize(
    "text",
    [
        "*_" * 2000,
        "_" * 2000,
        "**" * 2000,
        "||" * 2000,
        "[" * 4000,
        "`" * 3999,
        "~" * 3999,
        "~~~a\n" * 800,
        "> " * 2000,
        ">>> " * 2000,
        f"<@{'1' * 5000}>",
    ],
)
def test_a_text_that_is_all_marks_takes_no_time(text):
    began = time.process_time()
    checked(text)
    assert time.process_time() - began < 1
